"""What every request handler works with, and what a request is aimed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from understudy.admission.context import Context
from understudy.apiserver.authentication.service_account_tokens import ISSUER, AccountTokens, TokenError
from understudy.apiserver.endpoints.request import Call
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.kinds.release import Release
from understudy.apiserver.registry.encoded import bare, from_internal, to_internal, typed
from understudy.apiserver.registry.kind import Kind, Rules
from understudy.apiserver.registry.store import Registry
from understudy.machinery.clock import Clock, SystemClock, timestamp
from understudy.machinery.errors import bad_request
from understudy.machinery.options import ListOptions
from understudy.machinery.releases.features import Gates
from understudy.machinery.selectors import FieldTerm, Selector
from understudy.machinery.typeinfo.schema import Schemas, Struct
from understudy.machinery.types import Obj
from understudy.machinery.users import User


@dataclass(frozen=True, slots=True)
class Target:
    """A resource, or an object of it, in the version that the path names."""

    info: RequestInfo
    kind: Kind
    version: str
    namespace: str
    name: str
    subresource: str

    @property
    def api_version(self) -> str:
        return self.kind.gvk(self.version).api_version

    @property
    def struct(self) -> Struct:
        return self.kind.struct(self.version)

    @property
    def rules(self) -> Rules:
        return self.kind.rules


@dataclass(slots=True)
class Api:
    """One server's release, gates and store. `authorization` is the mode in force."""

    release: Release
    gates: Gates
    registry: Registry
    authorization: str = "AlwaysAllow"
    tokens: Mapping[str, User] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    account_tokens: AccountTokens = field(init=False)
    _forms: dict[Kind, dict[str, tuple[Kind, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.account_tokens = AccountTokens(self.clock)

    @property
    def schemas(self) -> Schemas:
        return Schemas.of(self.release.version)

    def user_of(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> tuple[User, list[str]]:
        """Whose a bearer token is, and for which of the audiences; those of --token-auth-file are for this server
        itself. Raises TokenError."""
        known = self.tokens.get(token)
        if known is None:
            return self.account_tokens.user(token, audiences, self.registry.lookup)
        if ISSUER not in audiences:
            raise TokenError
        return known, [ISSUER]

    def timestamp(self) -> str:
        """Return the time of this server's clock as objects hold it (RFC 3339, whole seconds)."""
        return timestamp(self.clock.now())

    def context(self, call: Call, target: Target) -> Context:
        return Context(
            release=self.release.version,
            gates=self.gates,
            version=target.version,
            requester=call.user.info() if call.user else {},
            subresource=target.subresource,
            dry_run="dryRun" in call.query,
            now=self.timestamp(),
            warnings=call.warnings,
            lookup=self.registry.lookup,
            listing=self.registry.listing,
        )

    def convert(self, target: Target, obj: Obj, source: str, wanted: str) -> Obj | None:
        """An object of the target's kind in another API version's form, None for a version that is not served."""
        if source == wanted:
            return obj
        versions = self._versions(target.kind)
        if source not in versions or wanted not in versions:
            return None
        (from_kind, from_version), (to_kind, to_version) = versions[source], versions[wanted]
        return from_internal(to_kind, to_version, to_internal(from_kind, from_version, obj))

    def defaulted(self, target: Target, obj: Obj, api_version: str, ctx: Context) -> Obj:
        """An object of the target's kind in some version, with that version's defaults, in the target's version."""
        kind, version = self._versions(target.kind).get(api_version, (target.kind, target.version))
        obj = typed(kind, version, bare(obj))
        kind.rules.defaults(obj, ctx if version == ctx.version else replace(ctx, version=version))
        if (kind, version) == (target.kind, target.version):
            return obj
        return from_internal(target.kind, target.version, to_internal(kind, version, obj))

    def _versions(self, kind: Kind) -> dict[str, tuple[Kind, str]]:
        """By apiVersion, every form in which what is stored as this kind is served; events are so in two groups."""
        found = self._forms.get(kind)
        if found is None:
            same = [k for k in self.release.kinds if k.stored == kind.stored]
            found = self._forms[kind] = {k.gvk(v).api_version: (k, v) for k in same for v in k.versions}
        return found


def selector_of(target: Target, options: ListOptions) -> Selector:
    """The selector of a list, a watch or a deletion of a collection. Raises 400 for what cannot be selected by."""
    terms = options.fields
    for term in terms:
        _check_label(target, term)
    if target.info.watch_path and target.name:
        named = FieldTerm("metadata.name", target.name, True)
        if terms and named not in terms:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
        terms = terms or (named,)
    return Selector(options.labels, terms, target.rules.selectable)


def _check_label(target: Target, term: FieldTerm) -> None:
    label, selectable = term.label, target.rules.selectable
    if label == "metadata.name" or label in selectable:
        return
    if not selectable:
        if label != "metadata.namespace":
            only = '"metadata.name", "metadata.namespace"'
            raise bad_request(f'"{label}" is not a known field selector: only {only}')
    elif label != "metadata.namespace" or not target.kind.namespaced:
        text = target.rules.unknown_field.format(label=label, api_version=target.api_version, kind=target.kind.name)
        raise bad_request(text)
