"""Take objects through every form and every served version, and print what is not the same afterwards.

    python -m scripts.torture round-trip
    python -m scripts.torture round-trip --emulated-version 1.34 FOLDER

Without a folder there is an object of each kind of every release, made from its schemas. A folder has objects of its
own, such as those that upstream keeps for its tests, testdata/HEAD of the Go module k8s.io/api. It holds files
GROUP.VERSION.KIND.json, with the same object in .yaml and .pb (protobuf) if these are there. The three must be decoded
to the same object, which is encoded to the bytes of the .pb again.

Every object is written as YAML and read again. Then it is converted to the internal form and from there to each version
that the release serves; there it is written as JSON and protobuf and read again, and converted back. A field that comes
back changed or not at all is a line of the output. The exit status is 1 if there is a line for anything but what the
real server loses as well: that is listed in AS_UPSTREAM, with the reason.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common.comparing import differences
from understudy.apiserver.encoding.conversion import from_internal, to_internal
from understudy.apiserver.serving.release import Release, releases
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.golang.json_writer import with_source
from understudy.machinery.golang.yaml_writer import dump_yaml
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.json import decode_json, decode_yaml, encode
from understudy.machinery.serializer.ordering import in_field_order
from understudy.machinery.typeinfo.go_types import List, Map, Scalar, Schemas, Shape, Struct
from understudy.machinery.types import GroupVersionKind, Obj

# What the real server does not keep either: {a part of the line: the reason}.
AS_UPSTREAM = {
    r"StatefulSet as protobuf: \.spec\.volumeClaimTemplates\[0\]\.(apiVersion|kind):": (
        "protobuf has no fields for kind and apiVersion of an object inside another"
    ),
    r"HorizontalPodAutoscaler: \.metadata\.annotations\.autoscaling\.alpha\.kubernetes\.io/current-metrics: nothing": (
        "autoscaling/v1 shows every metric of the status in an annotation too"
    ),
    r"HorizontalPodAutoscaler: \.(spec\.metrics|status\.currentMetrics)\[0\]\.\w+\.(target|current)\.\w+:": (
        "autoscaling/v1 keeps of a metric what its source uses, without the type of its target"
    ),
    r"through certificates.k8s.io/v1 PodCertificateRequest: \.spec\.(pkixPublicKey|proofOfPossession):": (
        "certificates.k8s.io/v1 has no fields for a key without a certificate signing request"
    ),
}


# --- objects with every field


SCALARS: dict[str, Any] = {
    "bool": True,
    "int32": 7,
    "int64": 8,
    "float64": 1.5,
    "bytes": "Ynl0ZXM=",
    "interface": {"a": 1},
}
CUSTOM: dict[str, Any] = {
    "Time": "2008-01-01T01:01:01Z",
    "MicroTime": "2008-01-01T01:01:01.000001Z",
    "Quantity": "1500m",
    "IntOrString": "50%",
    "RawExtension": with_source({"kind": "Parameters"}, b'{"kind":"Parameters"}'),
    "FieldsV1": {"f:spec": {}},
    "JSON": {"a": 1},
}


def filled(struct: Struct, above: tuple[str, ...] = ()) -> Obj:
    """Return an object with a value in every field. A struct that holds itself is filled once; `above` are the names of
    the structs around this one."""
    above = (*above, struct.name)
    values = {name: _value(field.type, name, above) for name, field in struct.fields.items()}
    return {name: value for name, value in values.items() if value is not None}


def _value(shape: Shape, name: str, above: tuple[str, ...]) -> Any:
    """Return a value of a shape for the field `name`, None where a struct would hold itself."""
    if isinstance(shape, Struct):
        return None if shape.name in above else filled(shape, above)
    if isinstance(shape, List):
        item = _value(shape.element, name, above)
        return None if item is None else [item]
    if isinstance(shape, Map):
        value = _value(shape.value, name, above)
        return None if value is None else {f"{name}Key": value}
    if isinstance(shape, Scalar):
        return SCALARS.get(shape.kind, f"{name}Value")
    return True if shape.name == "JSONSchemaPropsOrBool" else CUSTOM.get(shape.name)


# --- forms and versions


def changes_in_yaml(obj: Obj, struct: Struct) -> Iterator[str]:
    """Yield the differences of an object that was written as YAML and read again."""
    decoded, unknown = decode_yaml(dump_yaml(obj).encode(), struct)
    yield from (f"as YAML: {line}" for line in (*differences(obj, decoded, ""), *unknown))


def changes_in_forms(obj: Obj, struct: Struct) -> Iterator[str]:
    """Yield the differences of an object that was written as JSON or protobuf and read again."""
    decoded, unknown = decode_json(encode(obj), struct)
    yield from (f"as JSON: {line}" for line in (*differences(obj, decoded, ""), *unknown))
    decoded = protobuf.decode(protobuf.encode(obj, struct), struct)
    yield from (f"as protobuf: {line}" for line in differences(obj, decoded, ""))


class Served(NamedTuple):
    """A kind in a version in which it is served."""

    kind: Kind
    version: str

    @property
    def name(self) -> str:
        """Return the name for people: `resource.k8s.io/v1 ResourceClaim`."""
        return f"{self.kind.gvk(self.version).api_version} {self.kind.name}"

    def convert(self, obj: Obj, target: Served) -> Obj:
        """Convert an object of this version to another one, by way of the internal form."""
        converted = from_internal(target.kind, target.version, to_internal(self.kind, self.version, obj))
        return in_field_order(converted, target.kind.struct(target.version))


def changes_in_versions(obj: Obj, source: Served, targets: list[Served]) -> Iterator[str]:
    """Yield the differences of an object that went through each of the versions, in every form."""
    for target in targets:
        converted = source.convert(obj, target)
        for line in changes_in_forms(converted, target.kind.struct(target.version)):
            yield f"in {target.name} {line}"
        for line in differences(obj, target.convert(converted, source), ""):
            yield f"through {target.name}: {line}"


def changes(release: Release, gvk: GroupVersionKind, obj: Obj) -> Iterator[str]:
    """Yield the differences of an object that went through every form of every version that the release serves."""
    struct = Schemas.of(release.version).kind(*gvk)
    yield from changes_in_yaml(obj, struct)
    kind = release.kind(gvk.group, gvk.kind)
    if kind and gvk.version in kind.versions:
        same = [Served(k, version) for k in release.kinds if k.stored == kind.stored for version in k.versions]
        yield from changes_in_versions(obj, Served(kind, gvk.version), same)
    else:
        yield from changes_in_forms(obj, struct)


def check_filled(release: Release) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each kind in each version that is served, and what is not the same in a filled object."""
    for kind in release.kinds:
        for version in kind.versions:
            gvk = kind.gvk(version)
            obj = {**filled(kind.struct(version)), "kind": gvk.kind, "apiVersion": gvk.api_version}
            yield Served(kind, version).name, list(changes(release, gvk, obj))


# --- files


def known_files(folder: Path, release: Release) -> Iterator[tuple[Path, GroupVersionKind]]:
    """Yield the files of a folder whose kind the release knows, and the kind."""
    for file in sorted(folder.glob("*.json")):
        group, version, kind = file.stem.rsplit(".", 2)
        gvk = GroupVersionKind("" if group == "core" else group, version, kind)
        if Schemas.of(release.version).has_kind(*gvk):
            yield file, gvk


def differences_of_encodings(file: Path, struct: Struct) -> Iterator[str]:
    """Yield in what an object in a JSON file and the same object in YAML and protobuf differ."""
    obj, unknown = decode_json(file.read_bytes(), struct)
    yield from unknown
    if (text := file.with_suffix(".yaml")).exists():
        yield from (f".yaml: {line}" for line in differences(obj, decode_yaml(text.read_bytes(), struct)[0], ""))
    if (binary := file.with_suffix(".pb")).exists():
        from_binary = protobuf.decode(binary.read_bytes(), struct)
        yield from (f".pb: {line}" for line in differences(obj, from_binary, ""))
        if protobuf.encode(from_binary, struct) != binary.read_bytes():
            yield ".pb: encoded to other bytes"


def check_folder(folder: Path, release: Release) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each file whose kind the release knows, and what is not the same in its object."""
    for file, gvk in known_files(folder, release):
        struct = Schemas.of(release.version).kind(*gvk)
        obj, _ = decode_json(file.read_bytes(), struct)
        yield file.stem, [*differences_of_encodings(file, struct), *changes(release, gvk, obj)]


# --- the report


def reason(line: str) -> str:
    """Return the reason that the real server has the same difference, "" if it has not."""
    return next((why for pattern, why in AS_UPSTREAM.items() if re.search(pattern, line)), "")


def report(release: Release, checked: Iterable[tuple[str, list[str]]]) -> int:
    """Print what is not the same in checked objects. Returns the number of differences that the real server lacks."""
    objects, lines = 0, []
    for name, changed in checked:
        objects += 1
        lines += [f"{release.version} {name} {line}" for line in changed]
    unexplained = [line for line in lines if not reason(line)]
    for line in unexplained:
        print(line)
    print(f"{release.version}: {objects} objects, {len(unexplained)} differences")
    for why, count in Counter(filter(None, map(reason, lines))).items():
        print(f"    {count} fields as in the real server: {why}")
    return len(unexplained)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", type=Path, help="files GROUP.VERSION.KIND.json, .yaml and .pb")
    parser.add_argument("--emulated-version", metavar="RELEASE", help="default: each of them; the newest for a folder")


def run(args: argparse.Namespace) -> int:
    named = [Version.parse(args.emulated_version)] if args.emulated_version else list(releases())
    versions = named[-1:] if args.folder else named
    differing = 0
    for release in map(Release.of, versions):
        differing += report(release, check_folder(args.folder, release) if args.folder else check_filled(release))
    return 1 if differing else 0
