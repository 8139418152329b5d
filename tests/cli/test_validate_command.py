"""`understudy validate`: the lines it prints for manifests, and its exit status."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path

import pytest

from understudy.cli.commands import validate_command

GOOD = """\
apiVersion: resource.k8s.io/v1beta1
kind: DeviceClass
metadata:
  name: gpus
"""
BAD = """\
# The errors are on lines 6, 10, 11 and 12.
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata:
  labels: {a: b}
  name: Gpus
spec:
  devices:
    requests:
    - name: r0
      count: -1
      allocationmode: All
"""
LIST = """\
apiVersion: v1
kind: List
items:
- {apiVersion: resource.k8s.io/v1beta1, kind: DeviceClass, metadata: {name: a}}
- apiVersion: resource.k8s.io/v1beta1
  kind: ResourceSlice
  metadata: {name: s}
  spec:
    driver: gpu.example.com
    pool: {name: p, resourceSliceCount: 1}
    allNodes: true
    devices:
    - name: gpu-0
      basic:
        attributes:
          gpu.example.com/a.b: {int: 1}
"""


def run(*args: str) -> int:
    parser = argparse.ArgumentParser()
    validate_command.add_arguments(parser)
    return validate_command.run(parser.parse_args(["--emulated-version", "1.32", *args]))


def places(capsys: pytest.CaptureFixture[str], file: Path) -> list[str]:
    """Return "LINE: KIND/NAME: FIELD" of each printed line."""
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith(f"{file}:") for line in lines)
    return [": ".join(line.removeprefix(f"{file}:").split(": ")[:3]) for line in lines]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "manifest.yaml"


def test_valid_manifests_print_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file without errors prints nothing and exits with 0."""
    file.write_text(f"---\n{GOOD}---\n---\n{GOOD}")
    assert run(str(file)) == 0
    assert capsys.readouterr().out == ""


def test_error_names_the_line_of_its_field(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error names the line of its field; of a missing field, the line of the object that should have it."""
    file.write_text(BAD)
    assert run(str(file)) == 1
    assert places(capsys, file) == [
        "6: ResourceClaim/Gpus: metadata.name",
        "10: ResourceClaim/Gpus: spec.devices.requests[0].deviceClassName",
        "11: ResourceClaim/Gpus: spec.devices.requests[0].count",
        "12: ResourceClaim/Gpus: spec.devices.requests[0].allocationmode",
    ]


def test_each_document_and_list_item_is_an_object(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every YAML document and every item of a List is validated as an object of its own."""
    file.write_text(f"{GOOD}---\n{LIST}")
    assert run(str(file)) == 1
    assert places(capsys, file) == ["21: ResourceSlice/s: spec.devices[0].basic.attributes[gpu.example.com/a.b]"]


def test_unknown_kinds_are_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An object of an unknown kind is an error that names the kind."""
    file.write_text("apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: x}\n---\na: b\n")
    assert run(str(file)) == 1
    assert capsys.readouterr().out.splitlines() == [
        f'{file}:1: Foo/x: no matches for kind "Foo" in version "example.com/v1"',
        f"{file}:5: object/: no object with apiVersion and kind",
    ]


def test_template_is_told_to_be_rendered(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A template of Helm, which is no YAML, is an error that says how such files are checked."""
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Values.name }}-a\n")
    assert run(str(file)) == 2
    hint = "templates are rendered first: helm template CHART | understudy validate -"
    error = capsys.readouterr().err.splitlines()[0]
    assert error.startswith(f"{file}:4: yaml: ")
    assert error.endswith(f"; {hint}")


def test_duplicate_keys_are_errors(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that stands twice in a mapping is an error."""
    file.write_text(f"{GOOD}  name: other\n")
    assert run(str(file)) == 1
    assert capsys.readouterr().out == f'{file}:5: DeviceClass/other: key "name" already set in map\n'


def test_undecodable_fields_are_errors(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A value of the wrong type is an error in the words of the server."""
    file.write_text(f"{GOOD}spec:\n  selectors: 5\n")
    assert run(str(file)) == 1
    text = "json: cannot unmarshal number into Go struct field DeviceClassSpec.spec.selectors of type"
    assert capsys.readouterr().out.startswith(f"{file}:6: DeviceClass/gpus: spec.selectors: {text}")


def test_release_and_gates_are_options(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1.31 has no v1beta1 and no limit on the length of expressions; an unknown gate ends the command."""
    file.write_text(GOOD)
    assert run("--emulated-version", "1.31", str(file)) == 1
    assert "no matches" in capsys.readouterr().out
    assert run("--feature-gates", "Nonsense=true", str(file)) == 2
    assert capsys.readouterr().err == "understudy: unrecognized feature gate: Nonsense\n"
    with pytest.raises(SystemExit):
        run("--emulated-version", "0.9", str(file))
    assert "unknown release '0.9': there are 1.31, 1.32" in capsys.readouterr().err


def test_folders_and_standard_input_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is read with all its files, and `-` is standard input."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.json").write_text('{"apiVersion": "v1", "kind": "Foo"}')
    (tmp_path / "a.yml").write_text(GOOD)
    (tmp_path / "notes.txt").write_text("{")
    monkeypatch.setattr("sys.stdin", io.StringIO("apiVersion: v1\nkind: Bar\n"))
    assert run(str(tmp_path), "-") == 1
    assert [line.split(": ")[0] for line in capsys.readouterr().out.splitlines()] == [
        f"{tmp_path}/deep/b.json:1",
        "-:1",
    ]


def test_unreadable_file_exits_with_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that cannot be read exits with 2, and the other files are validated all the same."""
    file.write_text(BAD)
    broken = file.with_name("broken.yaml")
    broken.write_text("a: b\nc: [\n  d\ne: f\n")
    assert run(str(broken), str(file.with_name("missing.yaml")), str(file), "") == 2
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 4
    assert captured.err.splitlines() == [
        f"{broken}:4: yaml: did not find expected ',' or ']'",
        f"{file.with_name('missing.yaml')}: No such file or directory",
        "No such file or directory",
        "1 file, 1 object, 7 errors",
    ]


@pytest.mark.parametrize("argument", ["paths", "--crds", "--policies"])
def test_folder_without_manifests_is_an_error(
    argument: str, file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A folder in which there is no manifest does not pass, whatever it was to hold."""
    file.write_text(GOOD)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "manifest.yml.bak").write_text(GOOD)
    assert run(str(file), *([] if argument == "paths" else [argument]), str(empty)) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{empty}: no manifests there: recognized file extensions are .yaml, .yml, .json",
        "1 file, 1 object, 1 error",
    ]


def test_nothing_to_look_at_is_an_error(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No objects in all files do not pass: comments only, an empty standard input, everything excluded."""
    file.write_text("# nothing\n---\n")
    assert run(str(file)) == 2
    assert capsys.readouterr().err == f"{file}: no objects to look at\n1 file, 0 objects, 1 error\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run("-") == 2
    assert capsys.readouterr().err == "-: no objects to look at\n1 file, 0 objects, 1 error\n"
    assert run(str(file), str(file), "--exclude", "*.yaml") == 2
    assert capsys.readouterr().err == "no objects to look at\n0 files, 0 objects, 1 error\n"
    good = file.with_name("good.yaml")
    good.write_text(GOOD)
    assert run(str(file), str(good)) == 0


def test_summary_counts_what_was_looked_at(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line on stderr counts files, objects (of a List each item) and errors, whatever the output is."""
    file.write_text(LIST)
    other = file.with_name("other.yaml")
    other.write_text(BAD)
    for output in ("text", "json", "github"):
        assert run("-o", output, str(file.parent)) == 1
        assert capsys.readouterr().err == "2 files, 3 objects, 5 errors\n"
    other.write_text(GOOD)
    assert run(str(other)) == 0
    assert capsys.readouterr().err == "1 file, 1 object, 0 errors\n"


def test_excluded_files_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--exclude` leaves out the files, and the folders, that a glob matches."""
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "broken.yaml").write_text("{{ .Values }}: [")
    (tmp_path / "kustomization.yaml").write_text("resources: []")
    (tmp_path / "good.yaml").write_text(GOOD)
    assert run(str(tmp_path)) == 2
    capsys.readouterr()
    assert run(str(tmp_path), "--exclude", "charts", "--exclude", "kustomiz*") == 0
    assert capsys.readouterr().err == "1 file, 1 object, 0 errors\n"


@pytest.mark.parametrize(
    ("skip", "errors"),
    [
        ("ResourceClaim", 2),
        ("resource.k8s.io/v1beta1/ResourceClaim", 2),
        ("resource.k8s.io/v1/ResourceClaim", 6),
        ("Secret,ResourceClaim,Foo", 1),
        ("resourceclaim", 6),
    ],
)
def test_skipped_kinds_are_not_checked(skip: str, errors: int, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--skip` passes over objects of some kinds, also with their version; an object without a kind is never one."""
    file.write_text(
        f"{BAD}---\n{LIST.replace('a.b: {int: 1}', 'a: {int: 1}')}- {{apiVersion: v1, kind: Foo}}\n---\n[]\n"
    )
    assert run(str(file), "--skip", skip) == 1
    skipped = {6: "", 2: ", 1 skipped", 1: ", 2 skipped"}[errors]
    assert capsys.readouterr().err == f"1 file, 5 objects, {errors} errors{skipped}\n".replace("1 errors", "1 error")


def test_duplicate_keys_of_skipped_objects_are_skipped(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that stands twice in an object that is skipped is no error; a skipped definition defines its kind still."""
    file.write_text(f"{GOOD}  name: other\n")
    assert run(str(file), "--skip", "DeviceClass") == 0
    file.write_text(f"{DEFINITION}---{SITES}")
    assert run(str(file), "--skip", "CustomResourceDefinition") == 1
    assert "spec.mail" in capsys.readouterr().out


def test_missing_schemas_are_ignored_on_request(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--ignore-missing-schemas` passes over custom resources without a definition, and over nothing else."""
    kinds = ("example.com/v1, kind: Site", "v1, kind: Pood", "apps/v2, kind: Deployment", "node.k8s.io/v1, kind: Node")
    file.write_text("---\n".join(f"{{apiVersion: {kind}}}\n" for kind in kinds))
    assert run("-o", "json", "--emulated-version", "all", str(file)) == 1
    assert [finding["line"] for finding in json.loads(capsys.readouterr().out)] == [1, 3, 5, 7]
    assert run("-o", "json", "--emulated-version", "all", "--ignore-missing-schemas", str(file)) == 1
    captured = capsys.readouterr()
    assert [finding["line"] for finding in json.loads(captured.out)] == [3, 5, 7]
    assert captured.err == "1 file, 4 objects, 3 errors, 1 skipped\n"
    file.write_text(f"{DEFINITION}---{SITES}")
    assert run("--ignore-missing-schemas", str(file)) == 1
    assert capsys.readouterr().err == "1 file, 4 objects, 4 errors\n"


@pytest.mark.parametrize(
    ("api_version", "kind", "hint"),
    [
        ("resource.k8s.io/v1", "ResourceClaim", "; served is resource.k8s.io/v1beta1, resource.k8s.io/v1alpha3"),
        ("extensions/v1beta1", "Ingress", "; served is networking.k8s.io/v1"),
        ("v1", "Deployment", "; served is apps/v1"),
        ("serving.example.com/v1", "Service", ""),
        ("apps/v1", "Deploiment", "; did you mean 'Deployment'?"),
    ],
)
def test_unserved_version_says_what_is_served(
    api_version: str, kind: str, hint: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unserved version is refused with those that are; a group without a dot is taken for another one's name."""
    file.write_text(f"{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: x}}}}")
    assert run(str(file)) == 1
    assert capsys.readouterr().out == (
        f'{file}:1: {kind}/x: no matches for kind "{kind}" in version "{api_version}"{hint}\n'
    )


def test_json_output(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-o json` prints the errors as JSON, unreadable files first."""
    valid_name = BAD.replace("Gpus", "gpus\n  namespace: team-a").replace("      allocationmode: All\n", "")
    file.write_text(valid_name)
    broken = file.with_name("broken.yaml")
    broken.write_text("a: b\n c: d\n")
    assert run("-o", "json", str(file), str(broken)) == 2
    captured = capsys.readouterr()
    findings = json.loads(captured.out)
    assert findings[0] == {
        "file": str(broken),
        "line": 2,
        "kind": "",
        "namespace": "",
        "name": "",
        "reason": "Unreadable",
        "field": "",
        "message": "yaml: mapping values are not allowed in this context",
        "releases": ["1.32"],
    }
    assert findings[2] == {
        "file": str(file),
        "line": 12,
        "kind": "ResourceClaim",
        "namespace": "team-a",
        "name": "gpus",
        "reason": "FieldValueInvalid",
        "field": "spec.devices.requests[0].count",
        "message": "Invalid value: -1: must be greater than zero",
        "releases": ["1.32"],
    }
    assert captured.err == "1 file, 1 object, 3 errors\n"


def test_github_output(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`-o github` prints workflow commands: `%`, ends of lines and, in properties, `:` and `,` are escaped."""
    monkeypatch.chdir(tmp_path)
    Path("a,b.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: 'a:50%'}\nspec: {containers: []}\n")
    Path("broken.yaml").write_text("a: b: c")
    monkeypatch.setattr("sys.stdin", io.StringIO("apiVersion: v1\nkind: Foo\n"))
    arguments = ["-o", "github", "--emulated-version", "1.35,1.36", "a,b.yaml", "broken.yaml", "-"]
    assert run(*arguments) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "::error file=broken.yaml,line=1::yaml: mapping values are not allowed in this context"
    assert lines[1].startswith(
        '::error file=a%2Cb.yaml,line=3,title=Pod/a%3A50%25::metadata.name: Invalid value: "a:50%25": '
    )
    assert lines[2] == (
        "::error file=a%2Cb.yaml,line=4,title=Pod/a%3A50%25::spec.containers: Required value [1.35, 1.36]"
    )
    assert lines[3] == '::error title=Foo/::no matches for kind "Foo" in version "v1" [1.35, 1.36]'
    Path("class.yaml").write_text(GOOD + "spec: {selectors: [{cel: {expression: device.model}}]}\n")
    assert run("-o", "github", "class.yaml") == 1
    assert "undefined field 'model'%0A | device.model%0A | ......^" in capsys.readouterr().out


def test_finding_that_stands_twice_names_a_release_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two equal objects on one line have one finding, with each release once."""
    file.write_text("{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: X}, {apiVersion: v1, kind: X}]}")
    assert run("--emulated-version", "1.31,1.32", str(file)) == 1
    assert capsys.readouterr().out == f'{file}:1: X/: no matches for kind "X" in version "v1" [1.31, 1.32]\n'


def test_several_releases_at_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A finding is printed once, with the releases that have it; a gate is set in the releases that know it."""
    file.write_text(BAD)
    assert run("--emulated-version", "v1.32,1.31", str(file)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f'{file}:2: ResourceClaim/Gpus: no matches for kind "ResourceClaim" in version ' + (
        '"resource.k8s.io/v1beta1"; served is resource.k8s.io/v1alpha3 [1.31]'
    )
    assert [line.endswith(" [1.32]") for line in lines[1:]] == [True] * 4
    assert run("--emulated-version", "1.31,1.32", "--feature-gates", "DRAAdminAccess=true", str(file)) == 1
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert run("--emulated-version", "all", "--feature-gates", "Nonsense=true", str(file)) == 2
    assert capsys.readouterr().err == "understudy: unrecognized feature gate: Nonsense\n"


def test_configuration_of_a_server_is_not_decided(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Addresses, node ports and families of services depend on the cluster; contradictions in a service do not."""
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}], %s}\n"
    possible = (
        "clusterIP: 172.30.0.10",
        "ipFamilyPolicy: RequireDualStack",
        "ipFamilies: [IPv6]",
        'clusterIP: "fd00::1"',
        "type: LoadBalancer, externalTrafficPolicy: Local",
    )
    file.write_text("---\n".join(service % fields for fields in possible))
    assert (run(str(file)), capsys.readouterr().out) == (0, "")
    file.write_text(service % "ipFamilies: [IPv6, IPv4]")
    assert run(str(file)) == 1
    assert capsys.readouterr().out == (
        f"{file}:4: Service/a: spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or "
        "'PreferDualStack' when multiple IP families are specified\n"
    )


def test_lists_nest_deeply(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lists of Lists are looked into without recursion."""
    depth = 3000
    file.write_text("{apiVersion: v1, kind: List, items: [" * depth + "{kind: Nope, apiVersion: v1}" + "]}" * depth)
    assert run(str(file)) == 1
    assert capsys.readouterr().out.startswith(f'{file}:1: Nope/: no matches for kind "Nope"')


POLICIES = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  validations:
  - expression: object.spec.replicas <= int(params.data.most)
    messageExpression: "'at most ' + string(params.data.most) + ' in ' + namespaceObject.metadata.name"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small}
spec:
  policyName: replicas
  validationActions: [Deny]
  paramRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}
  matchResources:
    namespaceSelector: {matchLabels: {size: small}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limits}
data: {most: "3"}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 5
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: i}]}
"""
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: tiny, labels: {size: small}}
"""


DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sites.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: sites, kind: Site}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [host]
            properties: {host: {type: string, minLength: 3}, port: {type: integer, default: 80}}
            x-kubernetes-validations: [{rule: self.port < 1000, message: port too high}]
"""
SITES = """
apiVersion: example.com/v1
kind: Site
metadata: {name: wrong}
spec: {host: ab, port: 2000, mail: x}
---
apiVersion: example.com/v1
kind: Site
metadata: {name: right}
spec: {host: abc}
---
apiVersion: example.com/v2
kind: Site
metadata: {name: unserved}
"""


def test_custom_resources(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Objects are checked by definitions among the manifests and in `--crds`: schema, unknown fields, rules."""
    file.write_text(SITES)
    assert run(str(file)) == 1
    assert capsys.readouterr().out.count("no matches for kind") == 3
    definitions = tmp_path / "definitions"
    definitions.mkdir()
    (definitions / "sites.yaml").write_text(DEFINITION)
    assert run(str(file), "--crds", str(definitions)) == 1
    with_crds = capsys.readouterr().out
    assert [line.split(": ", 1)[1] for line in with_crds.splitlines()] == [
        'Site/wrong: spec.mail: unknown field "spec.mail"',
        'Site/wrong: spec.host: Invalid value: "ab": spec.host in body should be at least 3 chars long',
        'Site/wrong: spec: Invalid value: "object": port too high',
        'Site/unserved: no matches for kind "Site" in version "example.com/v2"; served is example.com/v1',
    ]
    together = tmp_path / "together.yaml"
    together.write_text(f"{SITES}---{DEFINITION}")
    assert run(str(together)) == 1
    assert capsys.readouterr().out.replace(str(together), str(file)) == with_crds


def test_a_definition_with_errors_defines_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The objects of a definition that would be refused have no kind."""
    file.write_text(f"{DEFINITION.replace('name: sites.', 'name: wrong.')}---{SITES}")
    assert run(str(file)) == 1
    printed = capsys.readouterr().out
    assert "CustomResourceDefinition/wrong.example.com: metadata.name" in printed
    assert printed.count("no matches for kind") == 3


def test_policies_are_enforced(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--policies` enforces policies, which find parameters and namespaces among the files; without it they are not."""
    (tmp_path / "policies").mkdir()
    policies = tmp_path / "policies" / "replicas.yaml"
    policies.write_text(POLICIES)
    file.write_text(
        "---\n".join([NAMESPACE, DEPLOYMENT.replace("NAMESPACE", "tiny"), DEPLOYMENT.replace("NAMESPACE", "x")])
    )
    assert run(str(file)) == 0
    assert run(str(file), "--policies", str(policies.parent)) == 1
    assert capsys.readouterr().out == (
        f"{file}:5: Deployment/web: ValidatingAdmissionPolicy 'replicas' with binding 'small' denied request: "
        "at most 3 in tiny\n"
    )
    file.write_text("---\n".join([POLICIES, NAMESPACE, DEPLOYMENT.replace("NAMESPACE", "tiny")]))
    assert run(str(file)) == 0
    assert run(str(file), "--policies", str(file)) == 1
    missing = POLICIES.partition("---\napiVersion: v1\n")[0]
    policies.write_text(missing)
    file.write_text("---\n".join([NAMESPACE, DEPLOYMENT.replace("NAMESPACE", "tiny")]))
    capsys.readouterr()
    assert run(str(file), "--policies", str(policies)) == 1
    assert "no params found for policy binding" in capsys.readouterr().out


def test_mutating_policies_come_before_validation(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An object is checked as mutating policies leave it."""
    file.write_text(
        """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: data}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{data: {'not valid!': '1'}}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: data}
spec: {policyName: data}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
"""
    )
    arguments = ["--emulated-version", "1.36", str(file)]
    assert run(*arguments) == 0
    assert run(*arguments, "--policies", str(file)) == 1
    assert "ConfigMap/c: data[not valid!]: Invalid value" in capsys.readouterr().out
