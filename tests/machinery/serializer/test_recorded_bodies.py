"""Every recorded body: refused in the same words, warned of alike, and decoded to the recorded answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.recordings.recorded import recordings
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.json import (
    DecodeError,
    decode_json,
    decode_value,
    decode_yaml,
    encode,
    parse_json,
    read_type_meta,
    yaml_to_json,
)
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.validation.dump import dump

RECORDED_RELEASES = ("1.31", "1.32")
PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)/(?:namespaces/[^/]+/)?(?P<resource>\w+)(?P<rest>.*)"
)
HANDLED = re.compile(r'\w+ in version ".*?" cannot be handled as a \w+: (.*)', re.DOTALL)
SNIFFED = re.compile(r"the object provided is unrecognized \(must be of type \w+\): (.*) \(.*\)", re.DOTALL)
NOT_DECODING = ("no kind ", "converting (", "unexpected GroupVersion ")
STRICT = "strict decoding error: "
LAYOUT = ("<time>07:00", "2006-01-02T15:04:05Z07:00")
TIME = ("<time>", "2024-01-01T00:00:00Z")
POINTER = re.compile(r"0x[0-9a-f]{8,16}")


def kinds(release: str) -> dict[tuple[str, str, str], str]:
    """Return {(group, version, resource): kind} of everything that can be written."""
    folder = Path(__file__).parents[3] / "schemas" / release / "resources.json"
    return {
        (group["group"], version["version"], resource["resource"]): resource["responseKind"]["kind"]
        for group in json.loads(folder.read_text())
        for version in group["versions"]
        for resource in version["resources"]
    }


@cache
def writes(release: str) -> list[tuple[str, Struct, bytes, bool, Any]]:
    """Return (case, struct, body, whether it is YAML, answer) of every POST and PUT."""
    return list(_writes(release))


def _writes(release: str) -> Iterator[tuple[str, Struct, bytes, bool, Any]]:
    schemas, known = Schemas.of(Version.parse(release)), kinds(release)
    for file in (each for each in recordings() if each.started.release == release):
        for line in file.lines():
            request, answer = line.get("request", {}), line.get("response", {})
            path = PATH.match(request.get("path", "").partition("?")[0])
            media = next((v for k, v in request.get("headers", {}).items() if k.lower() == "content-type"), "json")
            if request.get("method") not in ("POST", "PUT") or not path or not request.get("body"):
                continue
            key = (path["group"] or "", path["version"], path["resource"])
            if key not in known or not media.endswith(("json", "yaml")) or path["rest"].count("/") > 1:
                continue
            body = request["body"] if isinstance(request["body"], str) else json.dumps(request["body"])
            struct = schemas.kind(key[0], key[1], known[key])
            yield f"{file.name}: {line.get('case')}", struct, body.replace(*TIME).encode(), "yaml" in media, answer


def outcome(struct: Struct, body: bytes, is_yaml: bool) -> tuple[Any, list[str], str]:
    """Decode a body; return (object, strict errors, error)."""
    try:
        read_type_meta(parse_json(yaml_to_json(body)[0] if is_yaml else body))
        return *(decode_yaml if is_yaml else decode_json)(body, struct), ""
    except DecodeError as error:
        return None, [], str(error)


def message(answer: Any) -> str:
    body = answer.get("body")
    return str(body.get("message", "")) if isinstance(body, dict) else ""


@pytest.mark.parametrize("release", RECORDED_RELEASES)
def test_refused_bodies_are_refused_alike(release: str) -> None:
    """A body that the real server could not decode is refused in the same words."""
    checked, wrong = 0, []
    for case, struct, body, is_yaml, answer in writes(release):
        message_of_body = HANDLED.fullmatch(message(answer)) or SNIFFED.fullmatch(message(answer))
        if not message_of_body or answer["status"] != 400 or message_of_body[1].startswith(NOT_DECODING):
            continue
        _, strict, error = outcome(struct, body, is_yaml)
        expected = message_of_body[1].replace(*LAYOUT).replace(*TIME)
        checked += 1
        if (error or f"{STRICT}{', '.join(strict)}") != expected:
            wrong.append(f"{case}: {error or strict} instead of {expected}")
    assert wrong == []
    assert checked > 150


@pytest.mark.parametrize("release", RECORDED_RELEASES)
def test_accepted_bodies_are_decoded(release: str) -> None:
    """An accepted body is decoded without additional strict errors, and the recorded answer is canonical."""
    checked, wrong = 0, []
    for case, struct, body, is_yaml, answer in writes(release):
        if answer["status"] not in (200, 201) or "eviction" in case:
            continue
        obj, strict, error = outcome(struct, body, is_yaml)
        if error or obj is None:
            wrong.append(f"{case}: {error}")
        result = answer.get("body")
        if (
            not isinstance(result, dict)
            or result.get("kind") != struct.type_name
            or "<" in json.dumps(result.get("spec"))
        ):
            continue
        text = json.dumps(result).replace("<microtime>", "2024-01-01T00:00:00.000000Z").replace(*TIME)
        again, strict = decode_value(json.loads(text), struct)
        checked += 1
        if strict or json.loads(encode(again)) != json.loads(text) or json.dumps(again) != text:
            wrong.append(f"{case}: {strict} {encode(again).decode()} instead of {text}")
    assert wrong == []
    assert checked > 500


@pytest.mark.parametrize("release", RECORDED_RELEASES)
def test_immutable_values_are_dumped_alike(release: str) -> None:
    """`field is immutable` prints the internal Go value as recorded."""
    checked, wrong = 0, []
    for case, struct, body, is_yaml, answer in writes(release):
        details = answer["body"].get("details") or {} if isinstance(answer.get("body"), dict) else {}
        for cause in details.get("causes", ()):
            match = re.fullmatch(r"Invalid value: ((resource\.\w+)\{.*\}): field is immutable", cause["message"])
            if not match or "AdminAccess:(*bool)" in match[1]:  # which a feature gate may have dropped
                continue
            value = defaulted(outcome(struct, body, is_yaml)[0])
            for step in cause["field"].split("."):
                value = value[step]
            name = f"k8s.io/kubernetes/pkg/apis/{match[2]}"
            dumped = POINTER.sub("<pointer>", dump(value, name, Schemas.of(Version.parse(release))))
            checked += 1
            if dumped != match[1]:
                wrong.append(f"{case}: {dumped} instead of {match[1]}")
    assert wrong == []
    assert checked > 5


def defaulted(obj: Any) -> Any:
    """Return the requests of a claim with the values that the server fills in."""
    spec = obj["spec"].get("spec", obj["spec"])
    for request in (spec.get("devices") or {}).get("requests") or ():
        request.setdefault("allocationMode", "ExactCount")
        if request["allocationMode"] == "ExactCount":
            request.setdefault("count", 1)
    return obj
