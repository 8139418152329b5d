"""Values as kube-apiserver keeps them in etcd.

`recorded/stored_values.jsonl` has bytes of 1.37.2 and 1.32.5, one value of each kind: {"release", "media_type" (that of
--storage-media-type; "application/cbor" where custom resources are stored so), "key", "value" (base64)}.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path

import pytest

from understudy.apiserver.encoding.conversion import from_internal
from understudy.apiserver.registry.stored_values import JSON, MEDIA_TYPES, PROTOBUF, StoredValues
from understudy.apiserver.serving.release import Release
from understudy.machinery.releases.features import Gates
from understudy.machinery.serializer.protobuf_wire import make_envelope
from understudy.machinery.types import Obj

CBOR = "application/cbor"
RECORDED = [
    json.loads(line) for line in (Path(__file__).parent / "recorded/stored_values.jsonl").read_text().splitlines()
]


def values_of(release: str, media_type: str = PROTOBUF) -> StoredValues:
    served = Release.named(release)
    gates = Gates.of(served.version, {"CBORServingAndStorage": True} if media_type == CBOR else {})
    return StoredValues(served, served.version, gates, PROTOBUF if media_type == CBOR else media_type)


def recorded(release: str, part: str) -> tuple[str, bytes]:
    """Return the key and the bytes of the first recorded value with a part in its key."""
    row = next(row for row in RECORDED if row["release"] == release and part in row["key"])
    return row["key"], b64decode(row["value"])


@pytest.mark.parametrize(("release", "media_type"), sorted({(row["release"], row["media_type"]) for row in RECORDED}))
def test_read_and_written_values_are_the_same_bytes(release: str, media_type: str) -> None:
    values = values_of(release, media_type)
    rows = [row for row in RECORDED if (row["release"], row["media_type"]) == (release, media_type)]
    for row in rows:
        raw = b64decode(row["value"])
        assert values.encode(row["key"], values.decode(row["key"], raw)) == raw, row["key"]


@pytest.mark.parametrize("media_type", MEDIA_TYPES)
def test_fields_are_stored_in_order(media_type: str) -> None:
    """Fields that the server has set after it read an object stand where Go's types have them."""
    values = values_of("1.37", media_type)
    for row in RECORDED:
        if row["release"] == "1.37" and values.kind_of(row["key"]) is not None:
            obj = values.decode(row["key"], b64decode(row["value"]))
            mixed = {**obj, "metadata": dict(reversed(obj["metadata"].items()))}
            assert values.encode(row["key"], mixed) == values.encode(row["key"], obj), row["key"]


@pytest.mark.parametrize("labels", [{}, {"a": "b", "c/d": "", "e": "\xe4" * 63}])
@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_labels_are_read_without_the_rest(release: str, labels: dict[str, str]) -> None:
    """Labels that are read alone are those of the object, defaults included; where they cannot be told, none are."""
    values, count = values_of(release), 0
    for row in RECORDED:
        if row["release"] == release and row["media_type"] == PROTOBUF and values.kind_of(row["key"]) is not None:
            obj = values.decode(row["key"], b64decode(row["value"]))
            obj["metadata"] = {**obj.get("metadata", {}), "labels": labels}
            template = obj.get("spec", {}).get("template")
            if isinstance(template, dict) and "metadata" in template:
                template["metadata"]["labels"] = {"of": "template"}
            raw = values.encode(row["key"], obj)
            alone, metadata = values.labels(row["key"], raw), values.decode(row["key"], raw)["metadata"]
            assert alone is None or alone == (metadata.get("labels") or {}), row["key"]
            count += alone is not None
    assert count > 5


def test_labels_of_what_cannot_be_read() -> None:
    """Labels of bytes that cannot be read are left to `decode`, which says why."""
    values = values_of("1.37")
    key, raw = recorded("1.37", "/pods/")
    assert values.labels(key, raw) is not None
    for wrong in (raw[:-30], b"k8s:enc:" + raw, raw.replace(b"Pod", b"Pot"), b"", b"{}"):
        assert values.labels(key, wrong) is None
    assert values.labels("/registry/unknown/a", raw) is None


def test_every_media_type_is_read_whatever_is_written() -> None:
    written = {media_type: values_of("1.37", media_type) for media_type in MEDIA_TYPES}
    for row in RECORDED:
        if row["release"] == "1.37" and row["media_type"] != CBOR:
            obj = written[row["media_type"]].decode(row["key"], b64decode(row["value"]))
            for values in written.values():
                again = values.decode(row["key"], values.encode(row["key"], obj))
                assert json.dumps(again, sort_keys=True) == json.dumps(obj, sort_keys=True)  # YAML spells raw JSON anew


@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_custom_resources_are_read_in_both_forms(release: str) -> None:
    """CBOR keeps floats, which JSON tells from integers by a fraction only; what is in the other form is outdated."""
    in_json, in_cbor = values_of(release), values_of(release, CBOR)
    key, raw = recorded(release, "/numbers/")
    obj = in_json.decode(key, raw)
    text = in_json.encode(key, obj)
    assert (
        b'"b":{"aaa":1e-7,"b":-0,"zz":"\xc3\xa4"},"half":0.5,"integer":3,"kind":"Number","large":1000000000000' in text
    )
    assert text.endswith(b'"negative":-7,"whole":1}\n')
    assert (in_cbor.is_current(key, raw, obj), in_json.is_current(key, raw, obj)) == (True, False)
    again = in_cbor.decode(key, text)
    assert in_json.encode(key, again) == text.replace(b'"b":-0', b'"b":0')
    assert (in_cbor.is_current(key, text, again), in_json.is_current(key, text, again)) == (False, True)
    assert [type(each["whole"]) is int for each in (obj, again)] == [False, True]


def test_older_storage_version_is_converted() -> None:
    """1.32 stores ResourceClaims as v1beta1, 1.37 as v1."""
    key, raw = recorded("1.32", "/resourceclaims/")
    assert b"resource.k8s.io/v1beta1" in raw[:40]
    old, new = values_of("1.32"), values_of("1.37")
    obj = new.decode(key, raw)
    claims = Release.named("1.37").kind("resource.k8s.io", "ResourceClaim")
    assert claims is not None
    assert from_internal(claims, "v1beta1", obj)["spec"] == old_form(old.decode(key, raw))["spec"]
    again = new.encode(key, obj)
    assert b"resource.k8s.io/v1\x12" in again[:40]
    assert new.decode(key, again) == obj


def old_form(obj: Obj) -> Obj:
    claims = Release.named("1.32").kind("resource.k8s.io", "ResourceClaim")
    assert claims is not None
    return from_internal(claims, "v1beta1", obj)


def test_versions_that_are_not_served_any_more_are_read() -> None:
    raw = make_envelope("policy/v1beta1", "PodDisruptionBudget", b"\n\x03\n\x01a\x12\x04\n\x02\x08\x01")
    obj = values_of("1.37").decode("/registry/poddisruptionbudgets/default/a", raw)
    assert obj["metadata"]["name"] == "a"
    assert obj["spec"]["minAvailable"] == ""


def test_defaults_of_the_stored_version_are_set() -> None:
    pod = {"containers": [{"name": "c", "image": "i"}]}
    raw = json.dumps({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": pod}).encode()
    obj = values_of("1.37", JSON).decode("/registry/pods/default/a", raw)
    assert obj["spec"]["restartPolicy"] == "Always"
    assert "kind" not in obj


def test_definition_of_a_cluster_that_began_with_v1beta1() -> None:
    """A definition that names one version at the top, as the first releases stored them."""
    spec: Obj = {
        "group": "example.com",
        "version": "v1",
        "names": {"plural": "olds", "kind": "Old"},
        "scope": "Namespaced",
        "validation": {"openAPIV3Schema": {"type": "object"}},
        "additionalPrinterColumns": [{"name": "A", "type": "string", "JSONPath": ".spec.a"}],
        "conversion": {
            "strategy": "Webhook",
            "webhookClientConfig": {"url": "https://example.com/"},
        },
    }
    document = {"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1"}
    raw = json.dumps({**document, "metadata": {"name": "olds.example.com"}, "spec": spec}).encode()
    obj = values_of("1.37").decode("/registry/apiextensions.k8s.io/customresourcedefinitions/olds.example.com", raw)
    assert obj["spec"]["preserveUnknownFields"] is True
    assert obj["spec"]["versions"] == [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object"}},
            "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
        }
    ]
    assert obj["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://example.com/"}, "conversionReviewVersions": ["v1beta1"]},
    }
    assert obj["status"]["storedVersions"] == ["v1"]


CONFIG_MAP = make_envelope("v1", "ConfigMap", b"\n\x03\n\x01a")


@pytest.mark.parametrize(
    ("key", "raw", "text"),
    [
        ("compact_rev_key", b"12", "Kubernetes 1.37 stores nothing under this key"),
        ("/registry/poods/default/a", CONFIG_MAP, "Kubernetes 1.37 stores nothing under this key"),
        ("/registry/services/other/a", CONFIG_MAP, "Kubernetes 1.37 stores nothing under this key"),
        (
            "/registry/secrets/default/a",
            b"k8s:enc:aescbc:v1:key1:\x00\x01",
            "identity transformer tried to read encrypted data",
        ),
        ("/registry/secrets/default/a", CONFIG_MAP, "converting (v1.ConfigMap) to (core.Secret): unknown conversion"),
        ("/registry/configmaps/default/a", CONFIG_MAP[:-6], "unexpected EOF"),
        (
            "/registry/resourceclaims/default/a",
            make_envelope("resource.k8s.io/v1alpha2", "ResourceClaim", b""),
            'no kind "ResourceClaim" is registered for version "resource.k8s.io/v1alpha2" in scheme "k8s.io/',
        ),
        (
            "/registry/ingress/default/a",
            make_envelope("networking.k8s.io/v1beta1", "Ingress", b""),
            "Ingress of networking.k8s.io/v1beta1 cannot be read: its form was another one",
        ),
        ("/registry/example.com/widgets/default/a", CONFIG_MAP, "invalid character 'k' looking for beginning of value"),
        ("/registry/example.com/widgets/default/a", b"[]", "couldn't get version/kind; json parse error: "),
        ("/registry/example.com/widgets/default/a", b'{"kind":"A"}', "the value is no custom resource"),
    ],
)
def test_values_that_cannot_be_read(key: str, raw: bytes, text: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(f"{key}: {text}")):
        values_of("1.37").decode(key, raw)
