"""Patches, and bodies that make an object another kind, with the errors that they end in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import send
from tests.releases import since
from understudy import Server
from understudy.machinery.releases.version import V1_31, V1_32, V1_37, Version
from understudy.machinery.typeinfo.scheme import scheme_name
from understudy.machinery.types import Obj

CORE = "/api/v1/namespaces/default"
MAPS, THERE = f"{CORE}/configmaps", f"{CORE}/configmaps/there"
CLAIM = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims/there"
EVENT = f"{CORE}/events/there"
AUTOSCALER = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/there"
DAEMONS = "/apis/apps/v1/namespaces/default/daemonsets"
GENERATION = "deprecated.daemonset.template.generation"
POD = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
POD_P = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": POD["spec"]}
DAEMON_SET: dict[str, Any] = {"spec": {"selector": {"matchLabels": {"a": "1"}}, "template": POD}}
OBJECTS: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"}},
    {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}},
    },
    {"apiVersion": "v1", "kind": "Event", "involvedObject": {"namespace": "default"}, "reason": "R", "type": "Normal"},
    {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
    },
]
MEDIA = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "": "application/json",
}
SNIFFED = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
SCHEME = 'in scheme "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'
LONG = "1" * 5000  # more digits than Python reads
NAMELESS = "the name of the object (there based on URL) was undeterminable: name must be provided"


@pytest.fixture(scope="module", params=since(V1_32), ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        for obj in OBJECTS:
            running.apply({**obj, "metadata": {"name": "there", "namespace": "default"}})
        yield running


def patched(server: Server, form: str, path: str, body: Any) -> tuple[int, list[str], Any]:
    """Return (status, warnings, object) of a dry-run patch of a form, or of a PUT for the form ""."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    query = "?dryRun=All" + ("&fieldManager=m&force=true" if form == "apply" else "")
    answer = send(server, "PATCH" if form else "PUT", path + query, sent, MEDIA[form])
    return answer.status, answer.warnings, answer.json()


@pytest.mark.parametrize("sent", [None, "", "/", "__internal"])
def test_patched_object_without_version_is_internal(server: Server, sent: str | None) -> None:
    """Without apiVersion the patched object is read in the internal form, whose metadata fields stand at the top."""
    unknown = [f'unknown field "{name}"' for name in ("data", "metadata")]
    code, warnings, body = patched(server, "merge", THERE, {"apiVersion": sent})
    assert (code, warnings, body["message"]) == (400, unknown, NAMELESS)
    code, warnings, body = patched(server, "merge", THERE, {"apiVersion": sent, "name": "there"})
    assert (code, warnings, "data" in body) == (200, unknown, False)


@pytest.mark.parametrize(
    ("form", "path", "patch"),
    [
        ("merge", THERE, {"kind": None}),
        ("merge", THERE, {"kind": ""}),
        ("merge", THERE, {"apiVersion": "/v1"}),
        ("strategic", THERE, {"apiVersion": "other/v1", "kind": "Wrong"}),
        ("apply", THERE, {"apiVersion": "/v1", "kind": "ConfigMap"}),
        ("merge", CLAIM, {"apiVersion": "resource.k8s.io/{another}"}),
        ("merge", AUTOSCALER, {"apiVersion": "autoscaling/v1"}),
    ],
)
def test_patch_may_name_another_version(server: Server, form: str, path: str, patch: Any) -> None:
    """A patch that names another version of the kind is converted; a strategic merge patch ignores the type."""
    claims = server.state.release.of_resource("resource.k8s.io", "resourceclaims")
    assert claims is not None
    patch = {name: value and value.format(another=claims.versions[-1]) for name, value in patch.items()}
    code, _, body = patched(server, form, path, patch)
    assert code == 200, body["message"]
    assert body["apiVersion"] != "other/v1"


def test_event_is_decoded_in_the_group_that_it_names(server: Server) -> None:
    """An event that names events.k8s.io is decoded with that group's fields; core fields are unknown there."""
    code, warnings, body = patched(server, "merge", EVENT, {"apiVersion": "events.k8s.io/v1"})
    assert 'unknown field "involvedObject"' in warnings
    assert (code, body["apiVersion"], body["involvedObject"]) == (200, "v1", {})
    _, _, body = patched(server, "", EVENT, {"apiVersion": "events.k8s.io/v1", "kind": "Event"})
    versions = "(events.k8s.io/v1) does not match the expected API version (v1)"
    assert body["message"] == f"the API version in the data {versions}"


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"kind": "Pod"}, "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        ({"kind": "ConfigMapList"}, "converting (v1.ConfigMapList) to (core.ConfigMap): unknown conversion"),
        ({"kind": "WatchEvent"}, "converting (v1.WatchEvent) to (core.ConfigMap): unknown conversion"),
        ({"kind": "Status", "apiVersion": "a/b"}, "converting (v1.Status) to (core.ConfigMap): unknown conversion"),
        ({"kind": "APIGroup", "apiVersion": "b"}, "converting (v1.APIGroup) to (core.ConfigMap): unknown conversion"),
        ({"apiVersion": "apps/v1"}, f'no kind "ConfigMap" is registered for version "apps/v1" {SCHEME}'),
        ({"kind": "Table"}, f'no kind "Table" is registered for version "v1" {SCHEME}'),
        ({"apiVersion": "a/b/c"}, "unexpected GroupVersion string: a/b/c"),
        (
            {"apiVersion": "extensions/v1beta1", "kind": "DaemonSet"},
            "converting (v1beta1.DaemonSet) to (core.ConfigMap): unknown conversion",
        ),
        (
            {"apiVersion": "policy/v1beta1", "kind": "Eviction"},
            "converting (v1beta1.Eviction) to (core.ConfigMap): unknown conversion",
        ),
        (
            {"apiVersion": "extensions/v1beta1", "kind": "CronJob"},
            f'no kind "CronJob" is registered for version "extensions/v1beta1" {SCHEME}',
        ),
    ],
)
def test_other_kind_is_refused(server: Server, patch: Any, why: str) -> None:
    """An object that names another kind is decoded as that kind and cannot be converted, in patches and bodies."""
    code, _, body = patched(server, "merge", THERE, patch)
    assert code == 422
    assert body["message"].endswith(f": {why}")
    code, _, body = patched(server, "", THERE, {"apiVersion": "v1", "kind": "ConfigMap", **patch})
    assert code == 400
    assert f": {why}" in body["message"]


def test_definitions_know_only_their_own_scheme(server: Server) -> None:
    """Custom resource definitions are decoded with a scheme that has no pods but knows DeleteOptions."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x.e.io"
    scheme = f'in scheme "{scheme_name(server.state.release.version, "apiextensions")}"'
    for sent, why in (
        ({"apiVersion": "v1", "kind": "Pod"}, f'no kind "Pod" is registered for version "v1" {scheme}'),
        (
            {"apiVersion": "v1", "kind": "DeleteOptions"},
            "converting (v1.DeleteOptions) to (apiextensions.CustomResourceDefinition): unknown conversion",
        ),
    ):
        assert patched(server, "", path, sent)[2]["message"].endswith(f": {why}")


@pytest.mark.parametrize(
    ("form", "patch", "why"),
    [
        (
            "json",
            [{"op": "replace", "path": "", "value": [1]}],
            f"cannot unmarshal array into Go value of type {SNIFFED}",
        ),
        ("merge", {"kind": 5}, "json: cannot unmarshal number into Go struct field .kind of type string"),
        ("merge", {"apiVersion": "a/"}, 'Object \'apiVersion\' is missing in \'{"apiVersion":"a/","data":{"k":"1"},'),
        (
            "json",
            [{"op": "remove", "path": "/apiVersion"}, {"op": "add", "path": "/kind", "value": "X"}],
            f'no kind "X" is registered for the internal version of group "" {SCHEME}',
        ),
        ("merge", b'{"data": {"k": 1.50, "l": "\\u0041"}}', r"\"data\":{\"k\":1.50,\"l\":\"\\u0041\"}"),
        ("strategic", {"data": {"k": 1234567.5}}, 'map[k:1.2345675e+06]]": unrecognized type: string'),
        ("strategic", {"binaryData": {"b": "a"}}, "error decoding from json: illegal base64 data at input byte 0"),
    ],
)
def test_unusable_patch_results_are_refused(server: Server, form: str, patch: Any, why: str) -> None:
    """A patch whose result cannot be decoded is refused with the result in the patch's own spelling."""
    code, _, body = patched(server, form, THERE, patch)
    assert code == 422
    assert why in body["message"]


def test_errors_show_fields_in_order(server: Server) -> None:
    """An error shows unpatched parts in the order of Go's fields, defaults included."""
    _, _, body = patched(server, "merge", CLAIM, {"kind": "X"})
    request = {"name": "r", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    shown = json.dumps(json.dumps({"requests": [request]}, separators=(",", ":")))[1:-1]
    assert shown in body["message"]


def test_strategic_patch_warns_of_unknown_fields(server: Server) -> None:
    """Unknown fields are warned of in sorted order, with their names as sent."""
    patch = {"metadata": {"z<": 1, "a": 1, "ownerReferences": [{"uid": "u", "b": 1}]}, "data": {"k": "2"}}
    assert patched(server, "strategic", THERE, patch)[1] == [
        'unknown field "metadata.a"',
        'unknown field "metadata.ownerReferences[0].b"',
        'unknown field "metadata.z<"',
    ]


def test_apply_with_uid_to_a_missing_object_conflicts(server: Server) -> None:
    """An apply with a uid to an object that does not exist is a conflict, before its missing name is an error."""
    code, _, body = patched(
        server, "apply", f"{MAPS}/missing", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"uid": "u"}}
    )
    assert code == 409
    assert "uid mismatch: the provided object specified uid u" in body["message"]


def test_apply_warns_of_duplicate_keys_on_success(server: Server) -> None:
    """Duplicate keys of an apply are warned of only if the apply succeeds."""
    assert patched(server, "apply", THERE, b"a: 1\na: 2\n")[:2] == (400, [])
    assert patched(server, "apply", THERE, b"apiVersion: v1\nkind: ConfigMap\nkind: ConfigMap\n")[:2] == (
        200,
        ['line 3: key "kind" already set in map'],
    )


@pytest.mark.parametrize("number", [LONG, "1e400"])
def test_apply_reads_huge_numbers_as_text(server: Server, number: str) -> None:
    """Numbers that no float can hold are strings to YAML, and so to an apply."""
    sent = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generation": %b}}' % number.encode()
    code, _, body = patched(server, "apply", THERE, sent)
    assert code == 500
    assert body["message"].endswith(".metadata.generation: expected numeric (int or float), got string")


def test_apply_takes_utf_16(server: Server) -> None:
    """The YAML of an apply may be UTF-16 with a byte order mark."""
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap"}).encode("utf-16")
    assert patched(server, "apply", THERE, body)[0] == 200


def test_template_generation_of_a_daemon_set(server: Server) -> None:
    """The deprecated template generation is an annotation that the server counts and that clients cannot change."""
    server.apply({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "there"}, **DAEMON_SET})
    for path in ("", "/status"):
        for value in (None, "7"):
            patch = {"metadata": {"annotations": {GENERATION: value}}}
            _, _, body = patched(server, "merge", f"{DAEMONS}/there{path}", patch)
            assert body["metadata"]["annotations"][GENERATION] == "1"
    sent = {**DAEMON_SET, "metadata": {"name": "there", "annotations": {GENERATION: "x"}}}
    code, _, body = patched(server, "", f"{DAEMONS}/there", sent)
    why = 'strconv.ParseInt: parsing "x": invalid syntax'
    assert (code, body["message"]) == (400, f'DaemonSet in version "v1" cannot be handled as a DaemonSet: {why}')


def test_apply_without_changes_keeps_opaque_bytes(server: Server) -> None:
    """An apply that changes nothing keeps the spaces of opaque parameters, and so the generation."""
    path = "/apis/resource.k8s.io/v1beta1/deviceclasses"
    config = [{"opaque": {"driver": "d.com", "parameters": {"a": 1}}}]
    body = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass", "metadata": {"name": "spaced"}}
    sent = json.dumps({**body, "spec": {"config": config}}).encode()
    send(server, "POST", path, sent)
    assert patched(server, "apply", f"{path}/spaced", {**body, "spec": {}})[2]["metadata"]["generation"] == 1


@pytest.mark.parametrize("part", ["scale", "status"])
@pytest.mark.parametrize("form", ["json", "merge", "strategic", "apply"])
def test_patch_of_a_missing_object_is_not_read(server: Server, form: str, part: str) -> None:
    """A patch of a subresource of a missing object is 404, whatever its body; since 1.37 one that is no JSON is 400."""
    is_read = form != "apply" and server.state.release.version >= V1_37
    code = patched(server, form, f"/apis/apps/v1/namespaces/default/deployments/missing/{part}", b"{")[0]
    assert code == (400 if is_read else 404)


@pytest.mark.parametrize("sent", [{"apiVersion": None}, {"apiVersion": "autoscaling/__internal"}])
def test_patched_scale_without_version_is_internal(server: Server, sent: Any) -> None:
    """A Scale that loses its apiVersion is read in the internal form and has no name there."""
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "there"}, "spec": DAEMON_SET["spec"]}
    server.apply(body)
    path = "/apis/apps/v1/namespaces/default/deployments/there/scale"
    assert patched(server, "merge", path, sent)[2]["message"] == NAMELESS


@pytest.mark.parametrize(
    ("form", "body", "why"),
    [
        ("merge", b'{"data": {"k": %b}}' % LONG.encode(), f"number {LONG} into Go value of type float64"),
        ("json", b'[{"op": 1, "path": {}}]', "number into Go struct field jsonPatchOp.op of type string"),
        ("json", b'[{"op": 1}, 5]', "number into Go struct field jsonPatchOp.op of type string"),
        ("json", b'[5, {"op": 1}]', "number into Go value of type handlers.jsonPatchOp"),
        ("json", b'[{"path": {}, "op": 1}]', "object into Go struct field jsonPatchOp.path of type string"),
        ("json", b'[{"op": [], "op": "add", "path": {}}]', "array into Go struct field jsonPatchOp.op of type string"),
        ("merge", b'{"data": {"k": 1e400}}', "number 1e400 into Go value of type float64"),
        ("strategic", b'{"data": {"k": 1e400}}', "number 1e400 into Go value of type float64"),
    ],
)
def test_malformed_patches_are_refused(server: Server, form: str, body: bytes, why: str) -> None:
    """A patch that cannot be decoded is refused with its first error, even where a later key replaces it."""
    code, _, answer = patched(server, form, THERE, body)
    assert (code, answer["message"].removeprefix("error decoding patch: ")) == (400, f"json: cannot unmarshal {why}")


@pytest.mark.parametrize(
    ("sent", "code"), [([], 400), ([{}], 400), ([{"nope": 1}], 400), ([1], 500), ([{"manager": 1}], 500), ({}, 500)]
)
def test_apply_must_not_have_managed_fields(server: Server, sent: Any, code: int) -> None:
    """An apply with managedFields is refused; if they cannot be read, by the schema."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": sent}}
    assert patched(server, "apply", THERE, body)[0] == code


def test_empty_list_is_stored_as_null_and_owned(server: Server) -> None:
    """An empty list is stored as null and owned by the client that sent it."""
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    sent = {"metadata": {"name": "none"}, "rules": []}
    role = send(server, "POST", f"{path}?dryRun=All", sent).json()
    assert (role["rules"], role["metadata"]["managedFields"][0]["fieldsV1"]) == (None, {"f:rules": {}})


def test_apply_of_a_value_that_no_version_can_hold(server: Server) -> None:
    """A time that is none is refused with its conversion's error, though another manager uses another version."""
    new, core = "/apis/events.k8s.io/v1/namespaces/default/events", "/api/v1/namespaces/default/events"
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "odd"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "eventTime": "2024-01-01T00:00:00.000000Z",
        **dict.fromkeys(("reason", "note", "action", "reportingInstance"), "r"),
        "type": "Normal",
        "reportingController": "c.k8s.io/x",
    }
    assert send(server, "POST", new, event).status == 201
    labels = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "odd", "labels": {"a": "b"}}}
    assert send(server, "PATCH", f"{core}/odd?fieldManager=one", labels, MEDIA["apply"]).status == 200
    answer = send(
        server, "PATCH", f"{new}/odd?fieldManager=two&force=true", {**event, "eventTime": "r"}, MEDIA["apply"]
    )
    begin = "failed to convert new object (/odd; events.k8s.io/v1, Kind=Event) to proper version: unable to convert"
    assert (answer.status, answer.json()["message"][: len(begin)]) == (500, begin)


@pytest.mark.parametrize("release", [V1_31, V1_32], ids=str)
def test_empty_map_is_not_nil_to_a_rule_for_updates(release: Version) -> None:
    """An apply that repeats an empty map changes nothing in JSON, but Go's rule that parameters stay sees it."""
    path = "/apis/storage.k8s.io/v1/storageclasses/s?fieldManager=m"
    storage_class = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "a"}
    with Server(emulated_version=str(release)) as server:
        statuses = []
        sent: list[Obj] = [{"parameters": {}}, {"parameters": {}}, {}]
        for fields in sent:
            body = {**storage_class, "metadata": {"name": "s"}, **fields}
            statuses.append(send(server, "PATCH", path, body, "application/apply-patch+yaml").status)
    assert statuses == [201, 422, 200]


@pytest.mark.parametrize("media", ["application/merge-patch+json", "application/strategic-merge-patch+json"])
def test_empty_list_of_a_disabled_field_is_dropped(media: str) -> None:
    """In 1.32 `resizePolicy` is off: ephemeral containers may name it, and an empty list of it is not an error."""
    pods = f"{CORE}/pods"
    with Server(emulated_version="1.32", load=[POD_P]) as server:
        container = {"name": "e", "image": "i", "resizePolicy": []}
        body = {"spec": {"ephemeralContainers": [container]}}
        answer = send(server, "PATCH", f"{pods}/p/ephemeralcontainers", body, media)
    assert answer.status == 200
    assert "resizePolicy" not in answer.json()["spec"]["ephemeralContainers"][0]


PARAMETERS = (
    r'{"b":{"z":1.0,"y":"\u003c\/","y":2,"a":[1.0,"\u00e9",{"q":1e2,"p":1}]},"a":1.50,"s":"\u0041","A\u0041":1e0}'
)
B = r'{"z":1.0,"y":"\u003c\/","y":2,"a":[1.0,"\u00e9",{"q":1e2,"p":1}]}'
SORTED = r'{"AA":1e0,"a":1.50,"b":{"a":[1.0,"\u00e9",{"p":1,"q":1e2}],"y":2,"z":1.0},"s":"\u0041"}'
AT = "/spec/config/0/opaque/parameters"


def merged(parameters: str) -> str:
    return f'{{"spec":{{"config":[{{"opaque":{{"driver":"d.example.com","parameters":{parameters}}}}}]}}}}'


@pytest.mark.parametrize(
    ("form", "patch", "expected"),
    [
        ("json", rf'[{{"op":"add","path":"{AT}/c","value":1}}]', rf'{{"AA":1e0,"a":1.50,"b":{B},"c":1,"s":"\u0041"}}'),
        (
            "json",
            rf'[{{"op":"add","path":"{AT}/b/n","value":{{"z":1.0,"z":2,"a":"\u0041"}}}}]',
            r'{"AA":1e0,"a":1.50,"b":{"a":[1.0,"\u00e9",{"q":1e2,"p":1}],"n":{"z":1.0,"z":2,"a":"\u0041"},"y":2,"z":1.0},'
            r'"s":"\u0041"}',
        ),
        ("json", rf'[{{"op":"move","from":"{AT}/b","path":"{AT}/c"}}]', rf'{{"AA":1e0,"a":1.50,"c":{B},"s":"\u0041"}}'),
        ("json", rf'[{{"op":"test","path":"{AT}/a","value":1.5}}]', None),
        ("json", rf'[{{"op":"test","path":"{AT}/s","value":"A"}}]', None),
        (
            "json",
            rf'[{{"op":"test","path":"{AT}/b","value":{B}}}]',
            SORTED,
        ),
        ("json", rf'[{{"op":"replace","path":"{AT}","value":{PARAMETERS}}}]', PARAMETERS),
        ("merge", '{"metadata":{"labels":{"a":"b"}}}', PARAMETERS),
        ("merge", merged(PARAMETERS), SORTED),
        ("strategic", merged(r'{"s":"\u0042\/","a":1.0}'), '{"a":1,"s":"B/"}'),
    ],
)  # fmt: skip
def test_patches_keep_the_spelling_of_raw_parts(form: str, patch: str, expected: str | None) -> None:
    """JSON and merge patches leave values of raw parts as they are spelled, in the object and in the patch.

    Objects that they walk through are sorted, without duplicates. A test compares spellings. Strategic ones spell all
    anew.
    """
    classes = "/apis/resource.k8s.io/v1/deviceclasses"
    with Server() as server:
        named = '{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"a"},'
        body = named + merged(PARAMETERS)[1:]
        assert send(server, "POST", classes, body.encode()).status == 201
        answer = send(server, "PATCH", f"{classes}/a", patch.encode(), MEDIA[form])
        assert answer.status == (422 if expected is None else 200)
        again = send(server, "GET", f"{classes}/a").body.decode()
        in_yaml = send(server, "GET", f"{classes}/a", accept="application/yaml")
    shown = answer.body.decode().partition('"parameters":')[2].removesuffix("}}]}}\n")
    assert shown == (expected or "")
    assert again.partition('"parameters":')[2].removesuffix("}}]}}\n") == (expected or PARAMETERS)
    if r"\/" in again:
        assert (in_yaml.status, "message: 'yaml: found unknown escape character'" in in_yaml.body.decode()) == (
            500,
            True,
        )
