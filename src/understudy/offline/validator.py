"""Validates objects without a server, as the API server of a release does when they are created.

    for finding in validate({"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", …}):
        print(finding)

The object is decoded, defaulted, converted, prepared and validated as by a POST with `fieldValidation=Strict`. Rules
that depend on other objects (its namespace, its priority class, policies) are left out, and so are those that the
server's own configuration decides: which cluster IPs, node ports and IP families a Service may have.
`with_definitions` adds the kinds that other manifests define, `with_policies` their admission policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from understudy.apiserver.client.hints import unknown_kind
from understudy.apiserver.encoding.bodies import JsonBody
from understudy.apiserver.encoding.conversion import from_internal, to_internal
from understudy.apiserver.endpoints.responsewriters import deprecation
from understudy.apiserver.extensions.definition import Definition
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.registry import rest
from understudy.apiserver.serving.release import DEFAULT, Release
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.serializer.json import DecodeError, encode, read_type_meta
from understudy.machinery.types import Obj, dataclass, split_api_version
from understudy.machinery.util.clock import SystemClock, timestamp
from understudy.machinery.util.deep_recursion import call_deeply
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.field import Errors

if TYPE_CHECKING:
    from understudy.offline.offline_policies import OfflinePolicies

# Fields of metadata that the server sets on every new object.
_SET_BY_SERVER = ("uid", "creationTimestamp", "resourceVersion", "generation", "selfLink", "managedFields")

_DEFINITION = "CustomResourceDefinition"
_ESTABLISHED = [{"type": type_, "status": "True"} for type_ in ("NamesAccepted", "Established")]

# Finds the field that an error of decoding names.
_FIELD = regex(r'(?:unknown|duplicate) field "([^"]*)"|Go struct field \w+\.([^ ]+) of type')


@dataclass(frozen=True, slots=True)
class Finding:
    """One error of an object.

    kind, namespace, name  of the object, "" where it has none
    reason      as in the causes of a Status; NoMatch for a kind that the release does not serve, BadRequest for what
                cannot be decoded, and for unknown and duplicate fields
    field       the path as the server writes it, "" for the whole object
    message     what is wrong there
    """

    kind: str
    namespace: str
    name: str
    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.about}: {self.text}"

    @property
    def about(self) -> str:
        """Return `KIND/NAME` of the object."""
        return f"{self.kind or 'object'}/{self.name}"

    @property
    def text(self) -> str:
        """Return `FIELD: MESSAGE`, and only the message for the whole object."""
        return f"{self.field}: {self.message}" if self.field else self.message


class _UnusableError(ValueError):
    """A value that is no object of a kind of the release."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def validate(
    obj: Mapping[str, Any], *, release: str = DEFAULT, feature_gates: Mapping[str, bool] | None = None
) -> list[Finding]:
    """List the errors of an object, or of the items of a v1 List; [] if it would be created.

    Raises UnknownReleaseError and UnknownGateError (both are ValueErrors).
    """
    return list(Validator.of(release, feature_gates).findings(obj))


class Validator:
    """The rules of one release with its feature gates.

    serving   the kinds of the release, and custom ones
    policies  admission policies, None if there are none
    """

    def __init__(self, serving: Serving, gates: Gates, policies: OfflinePolicies | None = None) -> None:
        self.serving = serving
        self.release = serving.release
        self.gates = gates
        self._policies = policies

    @staticmethod
    def of(release: str = DEFAULT, feature_gates: Mapping[str, bool] | None = None) -> Validator:
        """Return the validator of a release, made once for each set of gates.

        Raises UnknownReleaseError and UnknownGateError.
        """
        return _validator(release, tuple(sorted((feature_gates or {}).items())))

    def with_definitions(self, objects: Iterable[Any]) -> Validator:
        """Return a validator that knows the kinds that CustomResourceDefinitions among some objects define as well.

        Definitions with errors are left out; the names of all others are accepted.
        """
        serving = self.serving
        for obj in objects:
            if described(obj)[0] != _DEFINITION:
                continue
            with suppress(_UnusableError, StatusError):
                kind, version, decoded, _ = self.read(encode(obj))
                internal, errors = self.create(kind, version, decoded)
                if not errors:
                    names = {"acceptedNames": internal["spec"]["names"], "conditions": _ESTABLISHED}
                    serving = serving.with_definition(Definition({**internal, "status": names}))
        return Validator(serving, self.gates, self._policies)

    def with_policies(self, objects: Iterable[Any]) -> Validator:
        """Return a validator that enforces the admission policies among some objects as well.

        The others are their parameters and namespaces. Those that have errors are left out.
        """
        from understudy.offline.offline_policies import OfflinePolicies

        policies = OfflinePolicies(self.release)
        for obj in objects:
            with suppress(_UnusableError, StatusError):
                kind, version, decoded, _ = self.read(encode(obj))
                internal, errors = self.create(kind, version, decoded)
                if not errors:
                    policies.add(kind, internal)
        return Validator(self.serving, self.gates, policies)

    def findings(self, obj: Any) -> Iterator[Finding]:
        """List the findings of an object, or of each item of a v1 List."""
        if is_list(obj):
            for item in obj["items"]:
                yield from self.findings(item)
        else:
            yield from call_deeply(lambda: list(self._of_one(obj, [])))

    def findings_and_warnings(self, obj: Any) -> tuple[list[Finding], list[str]]:
        """Return the findings of one object, and the texts of the warnings with which a server would answer.

        Most warnings that are about a field begin with its path and a colon.
        """

        def judge() -> tuple[list[Finding], list[str]]:
            warnings: list[str] = []
            return list(self._of_one(obj, warnings)), warnings

        return call_deeply(judge)

    def _of_one(self, obj: Any, warnings: list[str]) -> Iterator[Finding]:
        """Yield the findings of an object, and add to its warnings."""
        who = described(obj)
        try:
            kind, version, decoded, strict = self.read(encode(obj))
        except _UnusableError as error:
            yield Finding(*who, error.reason, _field_in(str(error)), str(error))
            return
        for text in strict:
            yield Finding(*who, "BadRequest", _field_in(text), text)
        ctx = self.context(version, warnings)
        if text := self._deprecation(kind, version):
            ctx.warn(text)
        try:
            internal, errors = self.create(kind, version, decoded, ctx)
            for wrong in errors:
                yield Finding(*who, wrong.type.reason, wrong.field, wrong.body(self.release.version))
            if self._policies is not None and not errors:
                self._policies.validate(kind, version, internal, ctx)
            if not errors:
                kind.behavior.strategy.warn_create(internal, ctx)
        except StatusError as refused:
            yield from _causes(who, refused)

    def _deprecation(self, kind: Kind, version: str) -> str:
        """Return the warning of a kind's version that is deprecated, "" for any other."""
        defined = self.serving.custom(kind.group, kind.resource) if kind.custom is not None else None
        if defined is not None:
            return defined.definition.deprecation_warning(version)
        return deprecation.warning(kind.gvk(version), self.release)

    def stored(self, obj: Obj) -> tuple[Obj, Obj]:
        """Return an object without findings as it was sent and as it is stored, both in its own version.

        Both are plain JSON values, without what the server makes up for every object: its uid, the time, the
        letters after a generateName.
        """
        kind, version, decoded, _ = self.read(encode(obj))
        sent: Obj = orjson.loads(encode(decoded))
        internal, _ = self.create(kind, version, decoded)
        metadata = internal["metadata"]
        if not sent.get("metadata", {}).get("name"):
            del metadata["name"]
        made_up = (metadata["uid"], metadata["creationTimestamp"])
        for name in _SET_BY_SERVER:
            metadata.pop(name, None)
            sent.get("metadata", {}).pop(name, None)
        text = encode(from_internal(kind, version, internal)).decode()
        for value in made_up:
            text = text.replace(value, "")
        return sent, orjson.loads(text)

    def read(self, body: bytes) -> tuple[Kind, str, Obj, list[str]]:
        """Return kind, version, decoded object, and the warnings of strict decoding. Raises _UnusableError."""
        try:
            sent = JsonBody.of(body)
            api_version, name = read_type_meta(sent.parsed)
            group, version = split_api_version(api_version)
            kind = self._kind(group, version, name)
            if kind is None:
                raise _UnusableError("NoMatch", unknown_kind(self.serving, api_version, name).message)
            return kind, version, *kind.codec(version).decode(sent, kind.gvk(version))
        except DecodeError as error:
            raise _UnusableError("BadRequest", str(error)) from None

    def _kind(self, group: str, version: str, name: str) -> Kind | None:
        """Return the kind of a name that is served in a version, None if there is none."""
        kind = self.serving.kind(group, name)
        return self.serving.resource(group, version, kind.resource) if kind else None

    def is_undefined(self, obj: Mapping[str, Any]) -> bool:
        """Report whether an object with apiVersion and kind is a custom resource that no known definition defines.

        The names of groups of custom resources have a dot, and are none of the release's own.
        """
        group, _ = split_api_version(str(obj["apiVersion"]))
        is_custom = "." in group and self.release.group(group) is None
        return is_custom and self.serving.kind(group, str(obj["kind"])) is None

    def create(self, kind: Kind, version: str, decoded: Obj, ctx: Context | None = None) -> tuple[Obj, Errors]:
        """Return the internal form in which an object would be stored, and its errors. The decoded object is edited.

        Raises StatusError for what the server refuses before it validates.
        """
        ctx, strategy = ctx or self.context(version), kind.behavior.strategy
        obj = self.internal(kind, version, decoded, ctx)
        obj["metadata"].pop("managedFields", None)
        if self._policies is not None:
            obj = self._policies.mutate(kind, version, obj, ctx)
        rest.fill_metadata(obj, kind, strategy, obj["metadata"].get("namespace") or "default", ctx)
        strategy.prepare_for_create(obj, ctx)
        return obj, rest.validate(obj, kind, strategy, ctx)

    def context(self, version: str, warnings: list[str] | None = None) -> Context:
        """Return the context of an object that is created now, in an API version.

        warnings  takes the texts of warnings
        """
        now, warnings = timestamp(SystemClock().now()), [] if warnings is None else warnings
        return Context(self.release.version, self.gates, version, offline=True, now=now, warnings=warnings)

    @staticmethod
    def internal(kind: Kind, version: str, decoded: Obj, ctx: Context) -> Obj:
        """Return the internal form of a decoded object, with defaults and with its own metadata."""
        kind.behavior.defaults(decoded, ctx)
        obj = to_internal(kind, version, decoded)
        return obj | {"metadata": dict(obj.get("metadata") or {})}


def _causes(who: tuple[str, str, str], refused: StatusError) -> Iterator[Finding]:
    """List the causes of a Status, or the Status itself if it has none."""
    causes = (refused.details or {}).get("causes") or [{"reason": refused.reason, "message": refused.message}]
    for cause in causes:
        yield Finding(*who, cause.get("reason", refused.reason), cause.get("field", ""), cause["message"])


def _field_in(text: str) -> str:
    match = _FIELD.search(text)
    return (match[1] or match[2]) if match else ""


@lru_cache(8)
def _validator(release: str, feature_gates: tuple[tuple[str, bool], ...]) -> Validator:
    named = Release.named(release)
    return Validator(Serving(named), Gates.of(named.version, dict(feature_gates)))


def is_list(obj: Any) -> bool:
    """Report whether a value is a v1 List: objects of any kind."""
    if not isinstance(obj, Mapping) or (obj.get("apiVersion"), obj.get("kind")) != ("v1", "List"):
        return False
    return isinstance(obj.get("items"), Sequence)


def described(obj: Any) -> tuple[str, str, str]:
    """Return (kind, namespace, name) of an object, "" for what it does not have."""
    fields = obj if isinstance(obj, Mapping) else {}
    metadata = fields.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    return str(fields.get("kind") or ""), str(metadata.get("namespace") or ""), str(name)
