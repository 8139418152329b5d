"""What every request handler works with, and what a request is aimed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from understudy.admission.chain import Attributes, Chain, Operation, Point
from understudy.admission.context import Context
from understudy.admission.plugins.ordered import new_chain
from understudy.apiserver.authentication.service_account_tokens import ISSUER, AccountTokens, TokenError
from understudy.apiserver.authorization.always_allow import AlwaysAllow
from understudy.apiserver.authorization.authorizer import Authorizer
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.kinds.release import Release
from understudy.apiserver.registry.encoded import bare, from_internal, to_internal, typed
from understudy.apiserver.registry.kind import Behavior, Kind
from understudy.apiserver.registry.quota_status import QuotaStatus
from understudy.apiserver.registry.store import Registry
from understudy.machinery.clock import Clock, SystemClock, timestamp
from understudy.machinery.errors import bad_request
from understudy.machinery.options import ListOptions
from understudy.machinery.releases.features import Gates
from understudy.machinery.selectors import FieldTerm, Selector
from understudy.machinery.typeinfo.schema import Schemas, Struct
from understudy.machinery.types import GroupVersionKind, Obj
from understudy.machinery.users import User


@dataclass(frozen=True, slots=True)
class RequestScope:
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
    def behavior(self) -> Behavior:
        return self.kind.behavior

    @property
    def body_kind(self) -> GroupVersionKind:
        """Return the kind of the body: that of the resource, or that of a subresource such as Scale."""
        part = self.kind.subresources.get(self.subresource)
        return self.kind.subresource_kind(part, self.version) if part else self.kind.gvk(self.version)

    def point(self, operation: Operation) -> Point:
        """Return the place in the admission chain where a request of this scope is asked."""
        kind = self.kind
        return Point(operation, kind.group, kind.resource, self.subresource, kind.namespaced)

    def attributes(
        self,
        operation: Operation,
        ctx: Context,
        obj: Obj | None = None,
        old: Obj | None = None,
        *,
        name: str = "",
        options: Obj | None = None,
        dry_run: bool = False,
    ) -> Attributes:
        """Describe a request of this scope to admission plugins. `name` is needed where the path has none."""
        metadata = (obj or old or {}).get("metadata") or {}
        return Attributes(
            self.point(operation),
            self.body_kind,
            self.namespace or metadata.get("namespace", ""),
            name or self.name or metadata.get("name", ""),
            obj,
            old,
            options or {},
            dry_run,
            ctx.requester,
        )


@dataclass(slots=True)
class ServerState:
    """What every request handler of one server works with.

    tokens  the users of --token-auth-file, by token
    """

    release: Release
    gates: Gates
    registry: Registry
    authorizer: Authorizer = field(default_factory=AlwaysAllow)
    tokens: Mapping[str, User] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    enable_admission_plugins: Sequence[str] = ()
    disable_admission_plugins: Sequence[str] = ()
    account_tokens: AccountTokens = field(init=False)
    chain: Chain = field(init=False)
    _forms: dict[Kind, dict[str, tuple[Kind, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.account_tokens = AccountTokens(self.clock)
        quotas = QuotaStatus(self.registry)
        self.chain = new_chain(self.enable_admission_plugins, self.disable_admission_plugins, quotas)

    @property
    def schemas(self) -> Schemas:
        return Schemas.of(self.release.version)

    def user_of(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> tuple[User, list[str]]:
        """Return whose a bearer token is, and for which of the audiences it is.

        Tokens of --token-auth-file are for this server itself. Raises TokenError.
        """
        known = self.tokens.get(token)
        if known is None:
            return self.account_tokens.user(token, audiences, self.registry.lookup)
        if ISSUER not in audiences:
            raise TokenError
        return known, [ISSUER]

    def timestamp(self) -> str:
        """Return the time of this server's clock as objects hold it (RFC 3339, whole seconds)."""
        return timestamp(self.clock.now())

    def context(self, request: Request, scope: RequestScope) -> Context:
        return Context(
            release=self.release.version,
            gates=self.gates,
            version=scope.version,
            requester=request.user.info(),
            subresource=scope.subresource,
            dry_run="dryRun" in request.query,
            now=self.timestamp(),
            warnings=request.warnings,
            lookup=self.registry.lookup,
            listing=self.registry.listing,
        )

    def convert(self, scope: RequestScope, obj: Obj, source: str, wanted: str) -> Obj | None:
        """An object of the target's kind in another API version's form, None for a version that is not served."""
        if source == wanted:
            return obj
        versions = self._versions(scope.kind)
        if source not in versions or wanted not in versions:
            return None
        (from_kind, from_version), (to_kind, to_version) = versions[source], versions[wanted]
        return from_internal(to_kind, to_version, to_internal(from_kind, from_version, obj))

    def defaulted(self, scope: RequestScope, obj: Obj, api_version: str, ctx: Context) -> Obj:
        """An object of the target's kind in some version, with that version's defaults, in the target's version."""
        kind, version = self._versions(scope.kind).get(api_version, (scope.kind, scope.version))
        obj = typed(kind, version, bare(obj))
        kind.behavior.defaults(obj, ctx if version == ctx.version else replace(ctx, version=version))
        if (kind, version) == (scope.kind, scope.version):
            return obj
        return from_internal(scope.kind, scope.version, to_internal(kind, version, obj))

    def _versions(self, kind: Kind) -> dict[str, tuple[Kind, str]]:
        """By apiVersion, every form in which what is stored as this kind is served; events are so in two groups."""
        found = self._forms.get(kind)
        if found is None:
            same = [k for k in self.release.kinds if k.stored == kind.stored]
            found = self._forms[kind] = {k.gvk(v).api_version: (k, v) for k in same for v in k.versions}
        return found


def selector_of(scope: RequestScope, options: ListOptions) -> Selector:
    """The selector of a list, a watch or a deletion of a collection. Raises 400 for what cannot be selected by."""
    terms = options.fields
    for term in terms:
        _check_label(scope, term)
    if scope.info.watch_path and scope.name:
        named = FieldTerm("metadata.name", scope.name, True)
        if terms and named not in terms:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
        terms = terms or (named,)
    return Selector(options.labels, terms, scope.behavior.selectable)


def _check_label(scope: RequestScope, term: FieldTerm) -> None:
    label, selectable = term.label, scope.behavior.selectable
    if label == "metadata.name" or label in selectable:
        return
    if not selectable:
        if label != "metadata.namespace":
            only = '"metadata.name", "metadata.namespace"'
            raise bad_request(f'"{label}" is not a known field selector: only {only}')
    elif label != "metadata.namespace" or not scope.kind.namespaced:
        text = scope.behavior.unknown_field.format(label=label, api_version=scope.api_version, kind=scope.kind.name)
        raise bad_request(text)
