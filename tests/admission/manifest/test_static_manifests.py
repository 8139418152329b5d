"""Policies and webhooks that stand in files: what they are asked about, in which order, and when the files change.

The answers were compared with those of a kube-apiserver 1.37 with the same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.admission.plugins.policy.policies import CONFIG_MAPS, GROUP, store_policy
from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.types import Obj

CONFIG = "apiserver.config.k8s.io/v1"
REGISTRATION = "admissionregistration.k8s.io/v1"
FOLDERS = {
    "ValidatingAdmissionPolicy": "ValidatingAdmissionPolicyConfiguration",
    "MutatingAdmissionPolicy": "MutatingAdmissionPolicyConfiguration",
    "ValidatingAdmissionWebhook": "WebhookAdmissionConfiguration",
    "MutatingAdmissionWebhook": "WebhookAdmissionConfiguration",
}
RULE = {
    "operations": ["CREATE"],
    "apiGroups": ["", "admissionregistration.k8s.io", "authorization.k8s.io"],
    "apiVersions": ["v1"],
    "resources": [
        "configmaps",
        "validatingadmissionpolicies",
        "validatingwebhookconfigurations",
        "subjectaccessreviews",
    ],
}
ADD_LABEL = "Object{metadata: Object.metadata{labels: {'static': 'yes'}}}"


def policy(name: str, label: str) -> list[Obj]:
    """Return a policy that refuses objects with a label, and its binding."""
    expression = f"!('{label}' in object.metadata.?labels.orValue({{}}))"
    return with_binding(
        "Validating",
        name,
        {"validations": [{"expression": expression, "message": f"{name} says no"}]},
        {"validationActions": ["Deny"]},
    )


def with_binding(kind: str, name: str, spec: Obj, binding: Obj) -> list[Obj]:
    metadata, kind = {"name": f"{name}.static.k8s.io"}, f"{kind}AdmissionPolicy"
    spec = {"matchConstraints": {"resourceRules": [RULE]}, **spec}
    return [
        {"apiVersion": REGISTRATION, "kind": kind, "metadata": metadata, "spec": spec},
        {
            "apiVersion": REGISTRATION,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "spec": {"policyName": metadata["name"], **binding},
        },
    ]


def write(folder: Path, name: str, *objects: Obj) -> None:
    """Write a file of manifests, as a whole."""
    (folder / "new").write_text(yaml.dump_all(objects))
    os.replace(folder / "new", folder / name)


def configuration(folder: Path) -> Path:
    """Write a configuration of all plugins, each with a folder of its name; return the file."""
    plugins = []
    for plugin, kind in FOLDERS.items():
        (folder / plugin).mkdir()
        fields = {"apiVersion": CONFIG, "kind": kind, "staticManifestsDir": str(folder / plugin)}
        plugins.append({"name": plugin, "configuration": fields})
    file = folder / "config.yaml"
    file.write_text(yaml.dump({"apiVersion": CONFIG, "kind": "AdmissionConfiguration", "plugins": plugins}))
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("manifests")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    file = configuration(folder)
    write(folder / "ValidatingAdmissionPolicy", "deny.yaml", *policy("deny", "deny"))
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": ADD_LABEL}}
    spec = {"reinvocationPolicy": "Never", "mutations": [mutation]}
    write(folder / "MutatingAdmissionPolicy", "m.yaml", *with_binding("Mutating", "m", spec, {}))
    with Server(admission_control_config_file=file) as running:
        yield running


def ask(server: Server, label: str, path: str = CONFIG_MAPS, **fields: Any) -> str:
    """Create an object with a label in a dry run; return the reason of the refusal, "" if there is none."""
    obj = {"metadata": {"name": "a", "labels": {label: "x"}}, **fields}
    answer = send(server, "POST", f"{path}?dryRun=All", obj)
    message: str = answer.json().get("message", "")
    return message.rpartition("denied request: ")[2] if answer.status == 422 else message


def test_static_policies_are_in_force_from_the_start(server: Server) -> None:
    """Policies in files change and refuse objects, by their names, and are no objects of the API."""
    created = send(server, "POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "a"}})
    refused = send(server, "POST", CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"deny": "x"}}})
    listed = send(server, "GET", f"{GROUP}/v1/validatingadmissionpolicies").json()

    assert created.json()["metadata"]["labels"] == {"static": "yes"}
    assert refused.json()["message"] == (
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'deny.static.k8s.io' with binding "
        "'deny.static.k8s.io' denied request: deny says no"
    )
    assert listed["items"] == []


def test_static_policies_are_asked_about_large_objects(server: Server) -> None:
    """Large objects are judged in another thread, by the same manifests."""
    assert ask(server, "deny", data={"a": "x" * 100_000}) == "deny says no"


def test_static_policies_protect_the_configuration_of_admission(server: Server) -> None:
    """Stored policies are not asked about policies and webhook configurations; those in files are. Neither see
    reviews."""
    refuse = {"validations": [{"expression": "false"}], "matchConstraints": {"resourceRules": [RULE]}}
    store_policy(server, "all", refuse)
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}
    path = f"{GROUP}/v1/validatingadmissionpolicies"

    assert ask(server, "deny", path, spec=spec) == "deny says no"
    assert ask(server, "other", path, spec=spec) == ""
    review = {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert send(server, "POST", reviews, {"spec": review}).json()["status"]["allowed"]
    for kind in ("policies", "policybindings"):
        send(server, "DELETE", f"{GROUP}/v1/validatingadmission{kind}/all")


def test_static_policies_are_asked_before_stored_ones(server: Server) -> None:
    """The first refusal is that of the policy in a file, whatever the names."""
    store_policy(server, "a", {"validations": [{"expression": "false"}], "matchConstraints": {"resourceRules": [RULE]}})
    assert ask(server, "deny") == "deny says no"
    assert ask(server, "other") == "failed expression: false"
    for kind in ("policies", "policybindings"):
        send(server, "DELETE", f"{GROUP}/v1/validatingadmission{kind}/a")


def reloads(server: Server) -> dict[str, int]:
    """Return the counts of readings of the validating policies, by success and failure."""
    name = "apiserver_manifest_admission_config_controller_automatic_reloads_total{"
    lines = send(server, "GET", "/metrics").body.decode().splitlines()
    mine = [line for line in lines if line.startswith(name) and 'plugin="ValidatingAdmissionPolicy"' in line]
    return {line.partition('status="')[2].partition('"')[0]: int(line.rpartition(" ")[2]) for line in mine}


def test_manifests_are_read_again_when_they_change(server: Server, folder: Path) -> None:
    """New files are in force once they are seen, and gone ones are not; errors leave all as it is, and are counted."""
    policies, before = folder / "ValidatingAdmissionPolicy", reloads(server)

    write(policies, "new.yaml", *policy("new", "new"))
    assert wait_until(lambda: ask(server, "new")) == "new says no"

    write(policies, "wrong.yaml", {"apiVersion": "v1", "kind": "ConfigMap"})
    (policies / "new.yaml").unlink()
    wait_until(lambda: reloads(server).get("failure"))
    assert ask(server, "new") == "new says no"

    (policies / "wrong.yaml").unlink()
    wait_until(lambda: ask(server, "new") == "")
    assert ask(server, "deny") == "deny says no"
    assert reloads(server)["success"] == before["success"] + 2


def test_static_webhooks_are_asked_first(server: Server, folder: Path) -> None:
    """Webhooks in files are asked about the configurations of webhooks as well, which those of the API are not."""

    @server.webhook("configmaps")
    def refuses(request: Obj) -> str:
        return f"not {request['resource']['resource']}"

    stored = send(server, "GET", f"{GROUP}/v1/validatingwebhookconfigurations/refuses").json()
    (hook,) = stored["webhooks"]
    static = {"apiVersion": REGISTRATION, "kind": stored["kind"], "metadata": {"name": "z.static.k8s.io"}}
    webhooks = [{**hook, "name": "static.example.com", "rules": [RULE]}]
    write(folder / "ValidatingAdmissionWebhook", "hooks.yaml", {**static, "webhooks": webhooks})

    refusal = 'admission webhook "static.example.com" denied the request: not '
    assert wait_until(lambda: ask(server, "x"), lambda text: "static" in text) == f"{refusal}configmaps"
    path = f"{GROUP}/v1/validatingwebhookconfigurations"
    assert ask(server, "x", path) == f"{refusal}validatingwebhookconfigurations"
    (folder / "ValidatingAdmissionWebhook" / "hooks.yaml").unlink()
    wait_until(lambda: ask(server, "x", path) == "")
    send(server, "DELETE", f"{path}/refuses")


def test_reserved_names_can_be_stored_while_the_gate_is_off(tmp_path: Path) -> None:
    """Without the gate, a configuration with a folder is refused, and the API takes such names with a warning."""
    off = {"ManifestBasedAdmissionControlConfig": False}
    with pytest.raises(ValueError, match="requires the ManifestBasedAdmissionControlConfig feature gate"):
        Server(feature_gates=off, admission_control_config_file=configuration(tmp_path))
    with Server(feature_gates=off) as server:
        obj = {"metadata": {"name": "a.static.k8s.io"}}
        answer = send(server, "POST", f"{GROUP}/v1/validatingwebhookconfigurations", obj)
    assert (answer.status, len(answer.warnings)) == (201, 1)
