"""Request bodies in JSON: canonical objects, strict errors, and the words of refusals."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from understudy.machinery.golang.json_writer import RawObject
from understudy.machinery.releases.version import V1_32, V1_34, V1_36, Version
from understudy.machinery.serializer import json
from understudy.machinery.serializer.json import (
    DecodeError,
    decode_json,
    decode_value,
    encode,
    parse_json,
    read_type_meta,
)
from understudy.machinery.serializer.json_fast import as_sent
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.util.deep_recursion import call_deeply

SCHEMAS = Schemas.of(V1_32)
CLAIM = SCHEMAS.kind("resource.k8s.io", "v1beta1", "ResourceClaim")
SLICE = SCHEMAS.kind("resource.k8s.io", "v1beta1", "ResourceSlice")
POD = SCHEMAS.kind("", "v1", "Pod")
CONFIG_MAP = SCHEMAS.kind("", "v1", "ConfigMap")
LEASE = SCHEMAS.kind("coordination.k8s.io", "v1", "Lease")
EVENT = SCHEMAS.kind("", "v1", "Event")
CRD = SCHEMAS.kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def error_of(body: bytes, struct: Struct) -> str:
    with pytest.raises(DecodeError) as raised:
        decode_json(body, struct)
    return str(raised.value)


def at(obj: Any, path: str) -> Any:
    for step in path.split("."):
        obj = obj[int(step)] if step.isdigit() else obj[step]
    return obj


def test_fields_are_ordered_as_in_go() -> None:
    """A decoded object has its fields in the order of the Go struct, and the keys of maps sorted."""
    body = b'{"spec":{},"metadata":{"labels":{"b":"2","a":"1"},"name":"x"},"apiVersion":"g/v1","kind":"K"}'
    expected = (
        b'{"kind":"K","apiVersion":"g/v1",'
        b'"metadata":{"name":"x","creationTimestamp":null,"labels":{"a":"1","b":"2"}},'
        b'"spec":{"devices":{"requests":null}},"status":{}}'
    )
    assert encode(decode_json(body, CLAIM)[0]) == expected


@pytest.mark.parametrize(
    ("struct", "body", "path", "expected"),
    [
        pytest.param(CLAIM, "null", "metadata", {"creationTimestamp": None}, id="null is an empty object"),
        pytest.param(CLAIM, '{"spec":null}', "spec", {"devices": {"requests": None}}, id="null struct"),
        pytest.param(CLAIM, '{"spec":{"devices":{"requests":[]}}}', "spec.devices.requests", None, id="empty list"),
        pytest.param(CLAIM, '{"metadata":{"labels":{}}}', "metadata", {"creationTimestamp": None}, id="empty map"),
        pytest.param(
            CLAIM,
            '{"spec":{"devices":{"requests":[null]}}}',
            "spec.devices.requests",
            [{"name": "", "deviceClassName": ""}],
            id="null element",
        ),
        pytest.param(
            CLAIM,
            '{"spec":{"devices":{"requests":[{"adminAccess":false,"count":0}]}}}',
            "spec.devices.requests.0",
            {"name": "", "deviceClassName": "", "adminAccess": False},
            id="a pointer to false is kept, a plain zero is not",
        ),
        pytest.param(CONFIG_MAP, '{"data":{"a":null}}', "data", {"a": ""}, id="null in a map of strings"),
        pytest.param(CONFIG_MAP, '{"binaryData":{"a":null,"b":""}}', "binaryData", {"a": "", "b": ""}, id="null bytes"),
        pytest.param(CONFIG_MAP, '{"binaryData":{"a":[1,2]}}', "binaryData", {"a": "AQI="}, id="bytes as numbers"),
        pytest.param(CONFIG_MAP, '{"binaryData":{"a":"eH\\ng="}}', "binaryData", {"a": "eHg="}, id="base64 in lines"),
        pytest.param(
            EVENT, '{"firstTimestamp":"2024-01-01T1:00:00,5+01:00"}', "firstTimestamp", "2024-01-01T00:00:00Z"
        ),
        pytest.param(EVENT, '{"firstTimestamp":"0001-01-01T00:00:00Z"}', "firstTimestamp", None, id="zero time"),
        pytest.param(
            LEASE,
            '{"spec":{"renewTime":"2024-01-01T00:00:00.000000+01:00"}}',
            "spec.renewTime",
            "2023-12-31T23:00:00.000000Z",
        ),
        pytest.param(
            POD,
            '{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":0.5,"a":1024}}}]}}',
            "spec.containers.0.resources.limits",
            {"a": "1024", "cpu": "500m"},
            id="numbers as quantities",
        ),
        pytest.param(
            CRD,
            '{"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"default":{"b":1,"a":2.0},"items":[{"type":"x"}],'
            '"additionalProperties":true,"dependencies":{"a":["b"]},"minimum":1.50}}}]}}',
            "spec.versions.0.schema.openAPIV3Schema",
            {
                "minimum": 1.5,
                "items": [{"type": "x"}],
                "additionalProperties": True,
                "dependencies": {"a": ["b"]},
                "default": {"a": 2, "b": 1},
            },
            id="JSON schemas",
        ),
    ],
)
def test_values_are_canonical(struct: Struct, body: str, path: str, expected: Any) -> None:
    """Times, quantities and durations are written in their canonical form."""
    obj, strict = decode_json(body.encode(), struct)
    assert (at(obj, path), strict) == (expected, [])


@pytest.mark.parametrize(
    ("struct", "body", "expected"),
    [
        (
            CLAIM,
            '{"spec":{"devices":{"requests":[{"count":"x"}]}}}',
            "json: cannot unmarshal string into Go struct field "
            "DeviceRequest.spec.devices.requests.count of type int64",
        ),
        (
            CLAIM,
            '{"spec":{"devices":{"requests":[{"count":1.0}]}}}',
            "json: cannot unmarshal number 1.0 into Go struct field "
            "DeviceRequest.spec.devices.requests.count of type int64",
        ),
        (
            CLAIM,
            '{"spec":{"devices":{"requests":[{"count":9223372036854775808}]}}}',
            "json: cannot unmarshal number 9223372036854775808 into Go struct field "
            "DeviceRequest.spec.devices.requests.count of type int64",
        ),
        (
            CLAIM,
            '{"spec":{"devices":{"requests":{}}}}',
            "json: cannot unmarshal object into Go struct field "
            "DeviceClaim.spec.devices.requests of type []v1beta1.DeviceRequest",
        ),
        (
            CLAIM,
            '{"metadata":{"uid":5,"name":6}}',
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.uid of type types.UID",
        ),
        (
            CLAIM,
            '{"metadata":{"labels":{"a":true}}}',
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (CLAIM, "[]", "json: cannot unmarshal array into Go value of type v1beta1.ResourceClaim"),
        (
            POD,
            '{"spec":{"volumes":[{"emptyDir":5}]}}',
            "json: cannot unmarshal number into Go struct field "
            "Volume.spec.volumes.emptyDir of type v1.EmptyDirVolumeSource",
        ),
        (
            POD,
            '{"spec":{"containers":[{"resources":{"limits":[]}}]}}',
            "json: cannot unmarshal array into Go struct field ResourceRequirements.spec.containers.resources.limits "
            "of type v1.ResourceList",
        ),
        (
            POD,
            '{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}}',
            "json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.httpGet.port "
            "of type int32",
        ),
        (CONFIG_MAP, '{"binaryData":{"a":"eHg"}}', "illegal base64 data at input byte 0"),
        (CONFIG_MAP, '{"binaryData":{"a":"eHg=="}}', "illegal base64 data at input byte 4"),
        (
            CONFIG_MAP,
            '{"binaryData":{"a":[300]}}',
            "json: cannot unmarshal number 300 into Go struct field ConfigMap.binaryData of type uint8",
        ),
        (
            EVENT,
            '{"firstTimestamp":"yesterday"}',
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"',
        ),
        (EVENT, '{"firstTimestamp":"2024-02-30T00:00:00Z"}', 'parsing time "2024-02-30T00:00:00Z": day out of range'),
        (
            LEASE,
            '{"spec":{"renewTime":"2024-01-01T00:00:00Z"}}',
            'parsing time "2024-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"',
        ),
        (
            SLICE,
            '{"spec":{"pool":{"name":5},"devices":[{"basic":{"capacity":{"a":{"value":"1K"}}}}]}}',
            "unable to parse quantity's suffix",
        ),
        (
            CRD,
            '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"type":5}}}}]}}',
            "json: cannot unmarshal number into Go struct field "
            "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items "
            "of type string",
        ),
    ],
)
def test_first_type_error_is_reported(struct: Struct, body: str, expected: str) -> None:
    """The first type error of a body is reported, but an error of a time or quantity precedes all of them."""
    assert error_of(body.encode(), struct) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ('{"a":1 x}', "invalid character 'x' after object key:value pair"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ("{,}", "invalid character ',' looking for beginning of object key string"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("01", "invalid character '1' after top-level value"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1e", "invalid character ' ' in exponent of numeric literal"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),
        ('"\\q"', "invalid character 'q' in string escape code"),
        ('"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        ('"\x01"', "invalid character '\\x01' in string literal"),
        ("'", "invalid character '\\'' looking for beginning of value"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
        ("[" * 10001, "invalid character '[' exceeded max depth"),
    ],
)
def test_syntax_errors_are_those_of_go(body: str, expected: str) -> None:
    """Wrong JSON is refused in the words of encoding/json."""
    assert error_of(body.encode(), CLAIM) == expected
    with pytest.raises(DecodeError) as raised:
        read_type_meta(parse_json(body.encode()))
    assert str(raised.value) == f"couldn't get version/kind; json parse error: {expected}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"spec":{"bogus":1}}', ['unknown field "spec.bogus"']),
        ('{"Spec":{}}', ['unknown field "Spec"']),
        ('{"metadata":{"name":"a","name":"b"}}', ['duplicate field "metadata.name"']),
        ('{"metadata":{"labels":{"a":"1","a":"2"}}}', ['duplicate field "metadata.labels.a"']),
        (
            '{"z":1,"spec":{"devices":{"requests":[{},{"x":1,"x":2}]}},"z":2,"a":{"b":1,"b":1}}',
            ['unknown field "z"', 'unknown field "spec.devices.requests[1].x"', 'unknown field "a"'],
        ),
        ('{"spec":{"devices":{"config":[{"opaque":{"driver":"d","parameters":{"a":1,"a":2}}}]}}}', []),
    ],
)
def test_strict_errors_in_body_order(body: str, expected: list[str]) -> None:
    """Strict errors stand in the order of the body, once each, and skip unknown fields and raw values."""
    assert decode_json(body.encode(), CLAIM)[1] == expected


def test_strict_errors_are_limited() -> None:
    """Only the first hundred strict errors are reported."""
    body = encode({f"f{i}": 1 for i in range(300)})
    assert len(decode_json(body, CLAIM)[1]) == 100


def test_duplicate_field_is_decoded_into_the_first() -> None:
    """The second value of a duplicate field is decoded into the first, as Go does."""
    obj, _ = decode_json(b'{"spec":{"devices":{"requests":[{"name":"a","count":2}],"requests":[{"name":"b"}]}}}', CLAIM)
    assert obj["spec"]["devices"]["requests"] == [{"name": "b", "deviceClassName": "", "count": 2}]


PARAMETERS = '{"spec":{"devices":{"config":[{"opaque":{"driver":"d","parameters":%s}}]}}}'


@pytest.mark.parametrize(
    ("parameters", "written"),
    [
        ('{"b":1.0,"a":1e3}', '{"b":1.0,"a":1e3}'),
        ('{"a":1,"a":2}', '{"a":1,"a":2}'),
        ('{ "a" : "x  y" }', '{"a":"x  y"}'),
        ('{"a":"<\\u003c\\/"}', '{"a":"\\u003c\\u003c\\/"}'),
        ('{"a":12345678901234567890123}', '{"a":12345678901234567890123}'),
        ("[1, 2.50]", "[1,2.50]"),
        ('"\\u0041"', '"\\u0041"'),
        ("1.50", "1.50"),
        ("true", "true"),
        ("null", "null"),
        (f"{'[' * 5000}{']' * 5000}", f"{'[' * 5000}{']' * 5000}"),
    ],
)
def test_raw_values_keep_their_spelling(parameters: str, written: str) -> None:
    """Opaque parameters keep their bytes, except spaces and what Go escapes."""
    obj, strict = call_deeply(decode_json, (PARAMETERS % parameters).encode(), CLAIM)
    assert strict == []
    assert encode(obj["spec"]["devices"]["config"][0]["opaque"]["parameters"]).decode() == written


def test_raw_values_are_compared_by_bytes() -> None:
    """A space in an opaque value is a change, as in the real server."""
    one, same, other = (decode_json((PARAMETERS % p).encode(), CLAIM)[0] for p in ('{"a":1}', '{"a":1}', '{"a": 1}'))
    assert one == same
    assert one != other
    assert isinstance(at(one, "spec.devices.config.0.opaque.parameters"), RawObject)


def test_equal_raw_values_keep_their_own_spelling() -> None:
    """Equal opaque values in one body keep the spelling of each."""
    one, two = '{"opaque":{"driver":"d","parameters":{"a":1}}}', '{"opaque":{"driver":"d","parameters":{"a":1.0}}}'
    obj, _ = decode_json(f'{{"spec":{{"devices":{{"config":[{one},{two}]}}}}}}'.encode(), CLAIM)
    assert b'"a":1}' in encode(obj["spec"]["devices"]["config"][0])
    assert b'"a":1.0}' in encode(obj["spec"]["devices"]["config"][1])


def test_parsed_values_become_canonical() -> None:
    """A parsed value, such as the result of a patch, becomes the same object as a body."""
    value = {"metadata": {"labels": {"b": "1", "a": ""}}, "spec": {"devices": {"requests": [{"count": 0}]}}, "x": 1}
    assert decode_value(value, CLAIM) == decode_json(encode(value), CLAIM)
    with pytest.raises(DecodeError, match=r"cannot unmarshal number 1\.5 into Go struct field DeviceRequest"):
        decode_value({"spec": {"devices": {"requests": [{"count": 1.5}]}}}, CLAIM)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"kind":"ResourceClaim","apiVersion":"v1"}', ("v1", "ResourceClaim")),
        ('{"kind":"ResourceClaim","Kind":"Pod"}', ("", "Pod")),
        ('{"KIND":"a","\u212aind":"b","api\u017fVersion":"c","apiVer\u017fion":"d"}', ("d", "b")),
        ('{"kind":null}', ("", "")),
        ("null", ("", "")),
        ("{}", ("", "")),
    ],
)
def test_type_is_found_in_any_case(body: str, expected: tuple[str, str]) -> None:
    """kind and apiVersion are found in any case, and the last one counts."""
    assert read_type_meta(parse_json(body.encode())) == expected


def test_unreadable_type_is_refused() -> None:
    """A kind or apiVersion of the wrong type is refused in Go's words."""
    before = "couldn't get version/kind; json parse error: json: cannot unmarshal"
    with pytest.raises(DecodeError) as raised:
        read_type_meta(parse_json(b'{"kind":5,"apiVersion":true}'))
    assert str(raised.value) == f"{before} number into Go struct field .kind of type string"
    with pytest.raises(DecodeError, match=r"array into Go value of type struct { APIVersion string"):
        read_type_meta(parse_json(b"[]"))


def test_invalid_text_is_replaced() -> None:
    """Each invalid byte and each half of a surrogate pair becomes U+FFFD."""
    obj, _ = decode_json(b'{"metadata":{"name":"a\xff\xe2\x82b","generateName":"\\ud800\\u0041\\ud83d\\ude00"}}', CLAIM)
    assert obj["metadata"]["name"] == "a\ufffd\ufffd\ufffdb"
    assert obj["metadata"]["generateName"] == "\ufffdA😀"


def test_json_is_written_as_by_go() -> None:
    """HTML and line separators are escaped, invalid text is replaced, and big numbers are written in full."""
    deep: list[Any] = []
    for _ in range(2000):
        deep = [deep]
    assert encode({"a": "<&>\u2028é"}) == '{"a":"\\u003c\\u0026\\u003e\\u2028é"}'.encode()
    assert encode(["\ud800", 2**70]) == b'["\\ufffd",1180591620717411303424]'
    assert encode(deep) == b"[" * 2001 + b"]" * 2001
    assert orjson.loads(encode({"x": {"y": [1, None, True, 1.5]}})) == {"x": {"y": [1, None, True, 1.5]}}


@pytest.mark.parametrize(
    ("literal", "written"), [("-0", "-0"), ("-0.0", "-0"), ("0", "0"), ("0.0", "0"), ("-1.0", "-1")]
)
def test_float_keeps_the_sign_of_zero(literal: str, written: str) -> None:
    """A float64 is written as Go writes it, and reading what was written gives the same."""
    body = f'{{"spec":{{"versions":[{{"name":"v1","schema":{{"openAPIV3Schema":{{"minimum":{literal}}}}}}}]}}}}'
    encoded = encode(decode_json(body.encode(), CRD)[0])
    assert f'"minimum":{written}}}'.encode() in encoded
    assert encode(decode_json(encoded, CRD)[0]) == encoded


@pytest.mark.parametrize(
    ("release", "group", "kind", "body", "field"),
    [
        (V1_36, "", "Pod", '{"spec":{"volumes":[{"emptyDir":5}]}}', "Volume.spec.volumes.VolumeSource.emptyDir"),
        (V1_34, "", "Pod", '{"spec":{"volumes":[{"emptyDir":5}]}}', "Volume.spec.volumes.emptyDir"),
        (
            V1_36,
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"type":5}}}}]}}',
            "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.type",
        ),
    ],
)
def test_type_error_has_the_full_path_since_1_35(
    release: Version, group: str, kind: str, body: str, field: str
) -> None:
    """Since 1.35 the path in a type error names inlined structs, and goes on into types that decode themselves."""
    text = error_of(body.encode(), Schemas.of(release).kind(group, "v1", kind))
    assert text.startswith(f"json: cannot unmarshal number into Go struct field {field} of type ")


def test_empty_lists_are_shown_as_they_were_sent() -> None:
    """A list that was sent empty becomes null, and can still be shown empty; one that is left out stays away."""
    role = SCHEMAS.kind("rbac.authorization.k8s.io", "v1", "ClusterRole")
    obj, _ = decode_json(b'{"rules": []}', role)
    assert (obj["rules"], as_sent(obj)["rules"]) == (None, [])
    obj, _ = decode_json(b'{"rules": null}', role)
    assert as_sent(obj)["rules"] is None
    obj, _ = decode_json(b'{"rules": [{"verbs": [], "resources": []}]}', role)
    assert as_sent(obj)["rules"] == [{"verbs": []}]
    body = b'{"spec":{"devices":{"config":[{"opaque":{"driver":"d.example.com","parameters":{"b":1e2,"a":[]}}}]}}}'
    claim = as_sent(decode_json(body, CLAIM)[0])
    assert b'"parameters":{"b":1e2,"a":[]}' in encode(claim)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"b":[1,-2,0,1.5,2e3,-0.0,1E-2,12345678901234567890,true,false,null,"x\\n\\u0041é"]},"c":{},"d":[]}',
        ' { "a" : [ 1 , { "b" : "" } ] } ',
        '{"a":1,"a":2}',
        '{"a":123456789012345678901,"b":2e3}',
        '{"a":1٢}',
        '{"a":1.٢}',
        '{"a":1e٢}',
        '{"a":NaN}',
        '{"a":01}',
        '{"a":1,}',
        '{"a":[1,]}',
        '{"a" 1}',
        '{"a":"\t"}',
        '{"a":"x',
        '{"a":1} x',
        "",
    ],
)
def test_large_bodies_are_read_like_small_ones(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The scanner that lets other threads have their turn reads what the one in C does, and refuses what it refuses."""
    monkeypatch.setattr(json, "LARGE", 1 << 30)
    small = json.parse_json(text.encode())
    monkeypatch.setattr(json, "LARGE", 0)
    large = json.parse_json(text.encode())
    assert (large.value, repr(large.value)) == (small.value, repr(small.value))
