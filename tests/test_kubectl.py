"""kubectl against a running server: everyday commands on the worlds in `fixtures/`."""

from __future__ import annotations

import json
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.releases import NEWEST
from understudy import Server
from understudy.apiserver.serving.release import Release

FIXTURES = Path(__file__).parent.parent / "fixtures"
DEMO, CLUSTER, CLAIM = (str(FIXTURES / name) for name in ("demo.yaml", "gpu-cluster.yaml", "claim.yaml"))


@dataclass
class Kubectl:
    program: str
    kubeconfig: Path
    home: Path

    def argv(self, *args: str) -> list[str]:
        return [self.program, f"--kubeconfig={self.kubeconfig}", *args]

    def run(self, *args: str, stdin: str = "", status: int = 0, **env: str) -> str:
        """Return standard output, or standard error of a command that must fail with `status`."""
        done = subprocess.run(
            self.argv(*args),
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin", "GOGC": "off", **env},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stderr if status else done.stdout

    def json(self, *args: str) -> dict[str, Any]:
        return dict(json.loads(self.run(*args, "-o", "json")))

    def open(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self.argv(*args), cwd=self.home, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def k(apiserver: Server, kubectl: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, Path(apiserver.kubeconfig), tmp_path)


@pytest.mark.parametrize("world", [DEMO, CLUSTER, CLAIM], ids=lambda path: Path(path).stem)
def test_create_from_a_file(k: Kubectl, world: str) -> None:
    """`create -f` creates every object of a file; a second time each exists already."""
    made = k.run("create", "-f", world).splitlines()
    assert made
    assert all(line.endswith(" created") for line in made)
    refused = k.run("create", "-f", world, status=1).splitlines()
    assert len(refused) == len(made)
    assert all("(AlreadyExists)" in line for line in refused)


@pytest.mark.apiserver(emulated_version="1.31")
def test_create_in_1_31(k: Kubectl) -> None:
    """The v1alpha3 cluster can be created in 1.31."""
    made = k.run("create", "-f", str(FIXTURES / "gpu-cluster-v1alpha3.yaml"))
    assert "resourceslice.resource.k8s.io/node-2-gpu.example.com created" in made


def test_apply_creates_and_changes(k: Kubectl) -> None:
    """`apply -f` creates objects, finds nothing to do, and changes what changed; also with --server-side."""
    assert "pod/probe created" in k.run("apply", "-f", DEMO)
    assert k.run("apply", "-f", DEMO).splitlines().count("configmap/front unchanged") == 1
    changed = Path(DEMO).read_text().replace("greeting: hello", "greeting: welcome")
    output = k.run("apply", "-f", "-", stdin=changed).splitlines()
    # A secret's stringData is never found in what is stored.
    changes = [line for line in output if not line.endswith(" unchanged")]
    assert changes == ["configmap/front configured", "secret/payment configured"]
    assert k.json("get", "configmap", "front", "-n", "shop")["data"]["greeting"] == "welcome"
    cluster = k.run("apply", "--server-side", "-f", CLUSTER).splitlines()
    assert all(line.endswith(" serverside-applied") for line in cluster)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("name", "resourceclaim.resource.k8s.io/shared-gpu\n"),
        ("jsonpath={.items[*].metadata.name}", "shared-gpu"),
        ("go-template={{range .items}}{{.kind}} {{end}}", "ResourceClaim "),
        (
            "custom-columns=N:.metadata.name,C:.spec.devices.requests[0].exactly.deviceClassName",
            "N            C\nshared-gpu   gpu",
        ),
        ("yaml", "apiVersion: v1\nitems:\n- apiVersion: resource.k8s.io/v1\n"),
        ("json", '{\n    "apiVersion": "v1",\n    "items": ['),
        ("wide", "NAME         STATE     AGE\nshared-gpu   pending   "),
    ],
    ids=lambda value: value.split("=")[0] if "\n" not in value else "",
)
def test_get_output_formats(apiserver: Server, k: Kubectl, form: str, expected: str) -> None:
    """`get -o` prints every format."""
    apiserver.apply(CLUSTER)
    assert k.run("get", "resourceclaims", "-n", "ml", "-o", form).startswith(expected)


def test_get_prints_columns(apiserver: Server, k: Kubectl) -> None:
    """`get` prints the real server's columns, by selector, in all namespaces, of several kinds."""
    apiserver.apply(CLUSTER)
    assert k.run("get", "resourceslices").splitlines()[0].split() == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    pods = k.run("get", "pods", "-A", "-l", "app=infer", "--sort-by=.metadata.name").splitlines()
    assert [line.split()[:4] for line in pods[1:]] == [["ml", f"infer-{i}", "0/1", "Pending"] for i in (1, 2)]
    both = k.run("get", "nodes,deviceclasses", "--no-headers").splitlines()
    assert [line.split()[0] for line in both if line] == [
        "node/node-1",
        "node/node-2",
        "deviceclass.resource.k8s.io/gpu.example.com",
    ]
    assert "NotFound" in k.run("get", "resourceclaim", "none", status=1)


def test_describe_objects(apiserver: Server, k: Kubectl) -> None:
    """`describe` prints claims, pods and nodes."""
    apiserver.apply(CLUSTER)
    claim = k.run("describe", "resourceclaim", "shared-gpu", "-n", "ml")
    assert "Device Class Name:  gpu.example.com" in claim
    assert "Status:       Pending\n" in k.run("describe", "pod", "infer-1", "-n", "ml")
    assert "Non-terminated Pods:" in k.run("describe", "node", "node-1")


def test_explain_fields(k: Kubectl) -> None:
    """`explain` prints every field from the server's own schemas."""
    text = k.run("explain", "resourceclaim.spec.devices.requests.exactly")
    assert "deviceClassName\t<string> -required-" in text
    assert "VERSION:    v1\n" in text
    assert "adminAccess" in k.run("explain", "resourceclaim", "--recursive")


def test_explain_descriptions(k: Kubectl) -> None:
    """`explain` prints the descriptions of a field and of its type."""
    assert "Name of the node that the pod runs on." in k.run("explain", "pod.spec.nodeName")
    text = k.run("explain", "service.spec.ports")
    assert "Ports of the service." in text
    assert "A port of a service." in text
    assert "<empty>" not in text


def test_diff_changes_nothing(apiserver: Server, k: Kubectl) -> None:
    """`diff` prints the changes of an apply and makes none."""
    apiserver.apply(DEMO)
    changed = Path(DEMO).read_text().replace("greeting: hello", "greeting: welcome")
    process = subprocess.run(k.argv("diff", "-f", "-"), input=changed, capture_output=True, text=True)
    assert process.returncode == 1
    lines = process.stdout.splitlines()
    assert "-  greeting: hello" in lines
    assert "+  greeting: welcome" in lines
    assert apiserver.get("ConfigMap", "front", namespace="shop")["data"]["greeting"] == "hello"


def test_edit_saves_the_object(apiserver: Server, k: Kubectl) -> None:
    """`edit` saves the edited object."""
    apiserver.apply(DEMO)
    output = k.run("edit", "configmap", "front", "-n", "shop", KUBE_EDITOR="sed -i s/hello/welcome/")
    assert output == "configmap/front edited\n"
    assert apiserver.get("ConfigMap", "front", namespace="shop")["data"]["greeting"] == "welcome"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", '{"metadata": {"labels": {"tier": "one"}}}'),
        ("strategic", '{"metadata": {"labels": {"tier": "one"}}}'),
        ("json", '[{"op": "add", "path": "/metadata/labels", "value": {"tier": "one"}}]'),
    ],
)
def test_patch_types(apiserver: Server, k: Kubectl, kind: str, patch: str) -> None:
    """`patch` of each type changes the object."""
    apiserver.apply(CLUSTER)
    output = k.run("patch", "resourceclaim", "shared-gpu", "-n", "ml", f"--type={kind}", "-p", patch)
    assert output == "resourceclaim.resource.k8s.io/shared-gpu patched\n"
    assert apiserver.get("resourceclaims", "shared-gpu", namespace="ml")["metadata"]["labels"] == {"tier": "one"}


def test_patch_is_validated(apiserver: Server, k: Kubectl) -> None:
    """A patch of an immutable field is refused in the real server's words."""
    apiserver.apply(CLUSTER)
    output = k.run("patch", "resourceclaim", "shared-gpu", "-n", "ml", "--type=merge", "-p", '{"spec": null}', status=1)
    assert output.startswith('The ResourceClaim "shared-gpu" is invalid: spec: Invalid value:')
    assert output.endswith("field is immutable\n")


def test_replace_needs_the_current_version(apiserver: Server, k: Kubectl) -> None:
    """`replace` stores the whole object; a stale resourceVersion is a conflict."""
    apiserver.apply(DEMO)
    stale = k.run("get", "configmap", "front", "-n", "shop", "-o", "yaml")
    assert k.run("replace", "-f", "-", stdin=stale.replace("hello", "welcome")) == "configmap/front replaced\n"
    assert "(Conflict)" in k.run("replace", "-f", "-", stdin=stale.replace("hello", "bye"), status=1)
    forced = stale.replace("hello", "anew")
    assert k.run("replace", "--force", "-f", "-", stdin=forced).endswith("configmap/front replaced\n")


def test_label_and_annotate(apiserver: Server, k: Kubectl) -> None:
    """`label` and `annotate` add, refuse to overwrite, and remove."""
    apiserver.apply(CLUSTER)
    assert k.run("label", "node", "node-1", "gpu=small") == "node/node-1 labeled\n"
    assert "already has a value (small)" in k.run("label", "node", "node-1", "gpu=large", status=1)
    assert k.run("label", "node", "node-1", "gpu-") == "node/node-1 unlabeled\n"
    assert k.run("annotate", "node", "--all", "seen=yes").count(" annotated\n") == 2
    assert k.json("get", "node", "node-2")["metadata"]["annotations"]["seen"] == "yes"


def test_delete_by_name_file_and_selector(apiserver: Server, k: Kubectl) -> None:
    """`delete` removes objects by name, file and selector, and says so."""
    apiserver.apply(CLUSTER)
    output = k.run("delete", "deviceclass", "gpu.example.com")
    assert output.startswith('deviceclass.resource.k8s.io "gpu.example.com" deleted')
    output = k.run("delete", "pods", "-n", "ml", "-l", "app=infer", "--force", "--grace-period=0")
    assert output.count("deleted") == 2
    k.run("delete", "-f", CLUSTER, "--ignore-not-found", "--wait=false", "--grace-period=0", "--force")
    assert apiserver.list("nodes") == []


def test_wait_for_a_condition(apiserver: Server, k: Kubectl) -> None:
    """`wait` ends when its condition is met."""
    apiserver.apply(CLUSTER)
    waiting = k.open("wait", "resourceclaim/shared-gpu", "-n", "ml", "--for=delete", "--timeout=30s")
    done = k.open("wait", "resourceclaim/shared-gpu", "-n", "ml", "--for=jsonpath={.spec}", "--timeout=30s")
    assert done.communicate(timeout=40)[0] == "resourceclaim.resource.k8s.io/shared-gpu condition met\n"
    apiserver.delete("resourceclaims", "shared-gpu", namespace="ml")
    waiting.communicate(timeout=40)
    assert waiting.returncode == 0


def test_get_watch_prints_changes(apiserver: Server, k: Kubectl) -> None:
    """`get --watch` prints the current objects and every change."""
    apiserver.apply(CLUSTER)
    watching = k.open("get", "resourceclaims", "-n", "ml", "--watch", "--output-watch-events", "--no-headers")
    assert watching.stdout is not None
    guard = threading.Timer(40, watching.kill)
    guard.start()
    try:
        assert watching.stdout.readline().split()[:2] == ["ADDED", "shared-gpu"]
        k.run("create", "-n", "ml", "-f", CLAIM)
        assert watching.stdout.readline().split()[:2] == ["ADDED", "gpu"]
        k.run("label", "-n", "ml", "resourceclaim", "gpu", "a=b")
        assert watching.stdout.readline().split()[:2] == ["MODIFIED", "gpu"]
        k.run("delete", "-n", "ml", "resourceclaim", "gpu")
        assert watching.stdout.readline().split()[:2] == ["DELETED", "gpu"]
    finally:
        guard.cancel()
        watching.kill()
        watching.communicate()


def test_api_resources_and_versions(k: Kubectl) -> None:
    """`api-resources` and `api-versions` list what the release serves, each resource in its preferred version."""
    group = Release.of(NEWEST).group("resource.k8s.io")
    assert group is not None
    kinds = {kind.resource: kind for served in group.versions.values() for kind in served}
    lines = k.run("api-resources", "--api-group=resource.k8s.io", "--no-headers").splitlines()
    assert [line.split() for line in lines] == [
        [name, f"resource.k8s.io/{kind.versions[0]}", str(kind.namespaced).lower(), kind.name]
        for name, kind in sorted(kinds.items())
    ]
    assert {"deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"} <= kinds.keys()
    assert "resource.k8s.io/v1alpha3" in k.run("api-versions").split()


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("namespace", "made"), "namespace/made"),
        (("configmap", "made", "--from-literal=a=1"), "configmap/made"),
        (("secret", "generic", "made", "--from-literal=a=1"), "secret/made"),
        (("serviceaccount", "made"), "serviceaccount/made"),
        (("deployment", "made", "--image=registry.example.com/a:1"), "deployment.apps/made"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value.split("/")[0],
)
def test_create_from_flags(k: Kubectl, args: tuple[str, ...], expected: str) -> None:
    """`create KIND` sends protobuf and creates the object that it prints."""
    printed = k.json("create", *args, "--dry-run=client")
    assert k.run("create", *args) == f"{expected} created\n"
    stored = k.json("get", expected)
    assert stored["metadata"]["name"] == "made"
    for key in ("data", "type"):
        assert stored.get(key) == printed.get(key) or key not in printed
    if "template" in printed.get("spec", {}):
        assert stored["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/a:1"
