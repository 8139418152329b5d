"""The webhooks and policies in a folder of manifests, decoded, defaulted and validated.

Upstream: k8s.io/apiserver/pkg/admission/plugin/manifest, `LoadManifests` of plugin/webhook/manifest/loader,
`LoadPolicyManifests` of plugin/policy/manifest/loader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from understudy.admission.manifest.plugin_configuration import (
    MUTATING_POLICY,
    MUTATING_WEBHOOK,
    POLICIES,
    VALIDATING_POLICY,
    VALIDATING_WEBHOOK,
)
from understudy.kinds.admissionregistration.matching import STATIC_SUFFIX
from understudy.kinds.admissionregistration.strategy import GROUP, behaviors, validate_manifest
from understudy.kinds.context import Context
from understudy.machinery.golang.text import aggregate, go_quote, path_error
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.configuration import decode_named, raw_bytes
from understudy.machinery.serializer.json import DecodeError
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.typeinfo.scheme import scheme_name
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj

_KINDS = {  # of the objects that a plugin takes: webhooks; policies and their bindings
    MUTATING_POLICY: ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
    MUTATING_WEBHOOK: ("MutatingWebhookConfiguration",),
    VALIDATING_POLICY: ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    VALIDATING_WEBHOOK: ("ValidatingWebhookConfiguration",),
}
_V1 = "k8s.io/api/admissionregistration/v1."
_EXTENSIONS = frozenset((".yaml", ".yml", ".json"))


class StaticObject(NamedTuple):
    """A webhook configuration, or a policy with its bindings, in internal form."""

    object: Obj
    bindings: Sequence[Obj] = ()


class Manifests(NamedTuple):
    """The content of a folder.

    objects  in the order of their names
    hash     of the files, "" if all are empty
    """

    objects: Sequence[StaticObject]
    hash: str


class ManifestLoader:
    """Loads the manifests of one plugin from a folder."""

    def __init__(self, plugin: str, folder: str, version: Version, gates: Gates) -> None:
        self.plugin = plugin
        self.folder = folder
        self._kinds = _KINDS[plugin]
        self._schemas = Schemas.of(version)
        self._behaviors = behaviors(version)
        self._scheme = scheme_name(version, "policymanifest" if plugin in POLICIES else "webhookmanifest")
        self._ctx = Context(version, gates, "v1")

    def load(self) -> Manifests:
        """Return the manifests that are in the folder now. Raises ValueError with the text of the real server."""
        documents, digest = _read_folder(self.folder)
        objects: dict[str, dict[str, Obj]] = {kind: {} for kind in self._kinds}
        files: dict[tuple[str, str], str] = {}
        for path, document in documents:
            try:
                for kind, obj in self._objects(document):
                    self._accept(kind, obj)
                    self._check_name(kind, obj["metadata"].get("name", ""), path, files)
                    self._check_constraints(kind, obj, path)
                    objects[kind][obj["metadata"]["name"]] = obj
            except ValueError as error:
                raise ValueError(f"error loading {path}: {error}") from None
        return Manifests(self._joined(*(list(named.values()) for named in objects.values())), digest)

    def _objects(self, document: bytes, item: bool = False) -> Iterator[tuple[str, Obj]]:
        """Yield the objects of a document by kind, those of lists one by one. Raises ValueError."""
        try:
            struct, obj = decode_named(document, self._find, self._scheme)
        except DecodeError as error:
            raise ValueError(f"failed to decode list item: {error}" if item else str(error)) from None
        kind = struct.name.removeprefix(_V1)
        if struct.type_name == "List":
            for entry in obj.get("items") or ():
                yield from self._objects(raw_bytes(entry), item=True)
        elif kind in self._kinds:
            yield kind, obj
        elif (of := kind.removesuffix("List")) in self._kinds and kind != of:
            yield from ((of, entry) for entry in obj.get("items") or ())
        else:
            raise ValueError(f"unsupported resource type *{struct.go}")

    def _find(self, kind: GroupVersionKind) -> Struct | None:
        """Return the type of a kind of this API group, or of a List or Status, which any version may name."""
        if kind.kind in ("List", "Status"):
            return self._schemas.kind("", "v1", kind.kind)
        return self._schemas.kind(*kind) if kind.group == GROUP and self._schemas.has_kind(*kind) else None

    def _accept(self, kind: str, obj: Obj) -> None:
        """Set the defaults of an object, and validate it, in place. Raises ValueError."""
        obj.pop("kind", None)
        obj.pop("apiVersion", None)
        obj.setdefault("metadata", {})
        self._behaviors[GROUP, kind].defaults(obj, self._ctx)
        errors = validate_manifest(kind, obj, self._ctx)
        if errors:
            name, texts = obj["metadata"].get("name", ""), [error.text(self._ctx.release) for error in errors]
            raise ValueError(f"{kind} {go_quote(name)}: {aggregate(texts)}")

    def _check_name(self, kind: str, name: str, path: str, files: dict[tuple[str, str], str]) -> None:
        """Refuse a name without the suffix, or of another object of the kind (`ValidateManifestName`)."""
        text, file = go_quote(name), go_quote(path)
        if not name.endswith(STATIC_SUFFIX):
            raise ValueError(f'{text} in file {file} must have a name ending with "{STATIC_SUFFIX}"')
        if (before := files.get((kind, name))) is not None:
            raise ValueError(f"duplicate name {text} found in file {file} (previously seen in {go_quote(before)})")
        files[kind, name] = path

    def _check_constraints(self, kind: str, obj: Obj, path: str) -> None:
        """Refuse what refers to objects of the API: parameters, and services of webhooks."""
        name, spec = go_quote(obj["metadata"]["name"]), obj.get("spec") or {}
        if self.plugin not in POLICIES:
            for hook in obj.get("webhooks") or ():
                if hook["clientConfig"].get("service") is not None:
                    where = f"webhook {go_quote(hook['name'])} in {name} (file {go_quote(path)})"
                    text = "clientConfig.service is not supported for static manifests; use clientConfig.url instead"
                    raise ValueError(f"{where}: {text}")
        elif kind == self._kinds[0]:
            if spec.get("paramKind") is not None:
                raise ValueError(f"{kind} {name}: spec.paramKind is not supported for static manifests")
        elif not spec["policyName"].endswith(STATIC_SUFFIX):
            policy = go_quote(spec["policyName"])
            raise ValueError(f'binding {name}: spec.policyName {policy} must end with "{STATIC_SUFFIX}"')
        elif spec.get("paramRef") is not None:
            raise ValueError(f"binding {name}: spec.paramRef is not supported for static manifests")

    def _joined(self, objects: list[Obj], bindings: Sequence[Obj] = ()) -> Sequence[StaticObject]:
        """Return objects in the order of their names, with their bindings. Raises ValueError for a binding of none."""
        policies = {obj["metadata"]["name"] for obj in objects}
        for binding in bindings:
            if (policy := binding["spec"]["policyName"]) not in policies:
                text = f"binding {go_quote(binding['metadata']['name'])} references policy {go_quote(policy)}"
                raise ValueError(f"{text} which does not exist in the manifest directory")
        ordered = [sorted(some, key=lambda obj: str(obj["metadata"]["name"])) for some in (objects, bindings)]
        return [
            StaticObject(obj, [b for b in ordered[1] if b["spec"]["policyName"] == obj["metadata"]["name"]])
            for obj in ordered[0]
        ]


def _read_folder(folder: str) -> tuple[list[tuple[str, bytes]], str]:
    """Return (path, document) for each document in the files of a folder, and the hash of the files (`LoadFiles`).

    Raises ValueError for a folder or file that cannot be read.
    """
    documents: list[tuple[str, bytes]] = []
    digest, has_data = sha256(), False
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if not entry.is_dir(follow_symlinks=False))
    except OSError as error:
        text = f"failed to read manifest directory {go_quote(folder)}: {path_error(error, folder)}"
        raise ValueError(text) from None
    for name in names:
        path = os.path.join(folder, name)
        if Path(name).suffix.lower() not in _EXTENSIONS and name.lower() not in _EXTENSIONS:
            continue
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise ValueError(f"failed to read file {go_quote(path)}: {path_error(error, path)}") from None
        if data:
            digest.update(data + b"\0")
            has_data = True
        documents += [(path, document) for document in _split(data, path)]
    return documents, f"sha256:{digest.hexdigest()}" if has_data else ""


def _split(data: bytes, path: str) -> Iterator[bytes]:
    """Yield the documents of a file that are not empty (`splitYAMLDocuments`).

    A separator ends a document that has begun, and begins one otherwise. Raises ValueError for text behind one.
    """
    lines: list[bytes] = []
    for line in (*data.replace(b"\r\n", b"\n").split(b"\n"), b"---"):
        if line.startswith(b"---"):
            rest = line[3:].strip().decode("utf-8", "replace")
            if rest and not rest.startswith("#"):
                text = f"invalid Yaml document separator: {rest}"
                raise ValueError(f"failed to split YAML documents in file {go_quote(path)}: {text}")
            if lines:
                if document := b"\n".join(lines).strip():
                    yield document
                lines = []
                continue
        lines.append(line)
