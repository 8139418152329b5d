"""Validation of an AuthorizationConfiguration.

Upstream: `ValidateAuthorizationConfiguration` of k8s.io/apiserver/pkg/apis/apiserver/validation, and
`LoadAndValidateData` of k8s.io/kubernetes/pkg/kubeapiserver/authorizer.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence

from understudy.apiserver.authorization.configuration.file import (
    WEBHOOK,
    AuthorizerConfiguration,
    WebhookConfiguration,
    read_authorizers,
)
from understudy.apiserver.authorization.modes import MODES
from understudy.apiserver.authorization.webhook.match_conditions import compile_condition
from understudy.apiserver.authorization.webhook.review import KINDS
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.golang.text import aggregate, go_quote
from understudy.machinery.golang.times import duration_text
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.validation.bad_values import Worded
from understudy.machinery.validation.field import (
    Errors,
    Path,
    duplicate,
    internal,
    invalid,
    not_supported,
    required,
    too_many,
)
from understudy.machinery.validation.names import dns_subdomain_texts

IN_CLUSTER, KUBECONFIG = "InClusterConfig", "KubeConfigFile"
NO_OPINION, DENY = "NoOpinion", "Deny"
MAX_CONDITIONS = 64
_LONGEST_TIMEOUT = 30_000_000_000  # nanoseconds
_CONDITION_VERSIONS = ("v1",)


def load_authorizers(
    data: bytes, version: Version, *, selectors: bool, needed: Collection[str] = ()
) -> list[AuthorizerConfiguration]:
    """Return the authorizers of a valid configuration. Raises ValueError with the text of a release.

    selectors  whether conditions may use those of lists
    needed     types that must be among them
    """
    validator = _Validator(version, selectors)
    authorizers = read_authorizers(data, version)
    validator.validate(authorizers)
    if validator.errors:
        raise ValueError(aggregate([error.text(version) for error in validator.errors]))
    others = [each for each in authorizers if each.type != WEBHOOK]
    texts = [
        f"expected name {each.type.lower()} for authorizer {each.type} instead of {each.name}"
        for each in others
        if each.name != each.type.lower()
    ]
    if missing := sorted({*needed} - {each.type for each in others}):
        texts.append(f"missing required types: [{' '.join(missing)}]")
    if texts:
        raise ValueError(aggregate(texts))
    return authorizers


class _Connection(Worded):
    """A connection of a type that there is not, as Go prints it."""

    def __init__(self, connection: tuple[str, str | None]) -> None:
        self._connection = connection

    def text(self, version: Version) -> str:
        type_, file = self._connection
        if version >= V1_34:
            return encode({"Type": type_, "KubeConfigFile": file}).decode()
        pointer = "(*string)(nil)" if file is None else "(*string)(0xc000000000)"  # some address
        return f"apiserver.WebhookConnectionInfo{{Type:{go_quote(type_)}, KubeConfigFile:{pointer}}}"


class _Validator:
    """Validates a configuration for one release; what is wrong goes to `errors`."""

    def __init__(self, version: Version, selectors: bool) -> None:
        self._version = version
        self._selectors = selectors
        self.errors: Errors = []

    def validate(self, authorizers: Sequence[AuthorizerConfiguration]) -> None:
        """Check all authorizers."""
        root = Path("authorizers")
        if not authorizers:
            self.errors.append(required(root, "at least one authorization mode must be defined"))
        types, names = set[str](), set[str]()
        for number, authorizer in enumerate(authorizers):
            path = root.index(number)
            if not self._has_good_type(authorizer.type, types, path.child("type")):
                continue
            types.add(authorizer.type)
            self._name(authorizer.name, names, path.child("name"))
            names.add(authorizer.name)
            self._webhook_of(authorizer, path)

    def _has_good_type(self, type_: str, seen: Collection[str], path: Path) -> bool:
        if not type_:
            self.errors.append(required(path))
        elif type_ not in MODES:
            self.errors.append(not_supported(path, type_, sorted(MODES)))
        elif type_ in seen and type_ != WEBHOOK:
            self.errors.append(duplicate(path, type_))
        else:
            return True
        return False

    def _name(self, name: str, seen: Collection[str], path: Path) -> None:
        if not name:
            self.errors.append(required(path))
        elif name in seen:
            self.errors.append(duplicate(path, name))
        elif texts := dns_subdomain_texts(name):
            self.errors.append(invalid(path, name, f"authorizer name is invalid: {', '.join(texts)}"))

    def _webhook_of(self, authorizer: AuthorizerConfiguration, path: Path) -> None:
        """Check the webhook of an authorizer, or that it has none."""
        webhook, where = authorizer.webhook, path.child("webhook")
        if authorizer.type == WEBHOOK:
            if webhook is None:
                self.errors.append(required(where, "required when type=Webhook"))
            else:
                self._webhook(webhook, path)
        elif webhook is not None:
            self.errors.append(invalid(where, "non-null", "may only be specified when type=Webhook"))

    def _webhook(self, webhook: WebhookConfiguration, path: Path) -> None:
        """Check the fields of a webhook, which errors show without `webhook` (`ValidateWebhookConfiguration`)."""
        self._duration(webhook.timeout, path.child("timeout"), _LONGEST_TIMEOUT, "must be > 0s and <= 30s")
        self._duration(webhook.authorized_ttl, path.child("authorizedTTL"))
        self._duration(webhook.unauthorized_ttl, path.child("unauthorizedTTL"))
        self._one_of(webhook.version, tuple(KINDS), path.child("subjectAccessReviewVersion"))
        where = path.child("matchConditionSubjectAccessReviewVersion")
        if webhook.condition_version:
            self._one_of(webhook.condition_version, _CONDITION_VERSIONS, where)
        elif webhook.conditions:
            self.errors.append(required(where, "required if match conditions are specified"))
        self._one_of(webhook.failure_policy, (NO_OPINION, DENY), path.child("failurePolicy"))
        self._connection(webhook.connection, path.child("connectionInfo"))
        self._conditions(webhook.conditions, path.child("matchConditions"))

    def _duration(self, nanoseconds: int, path: Path, most: int | None = None, text: str = "must be > 0s") -> None:
        if nanoseconds == 0:
            self.errors.append(required(path))
        elif nanoseconds < 0 or (most is not None and nanoseconds > most):
            self.errors.append(invalid(path, duration_text(nanoseconds), text))

    def _one_of(self, value: str, values: Sequence[str], path: Path) -> None:
        if not value:
            self.errors.append(required(path))
        elif value not in values:
            self.errors.append(not_supported(path, value, values))

    def _connection(self, connection: tuple[str, str | None], path: Path) -> None:
        type_, file = connection
        where = path.child("kubeConfigFile")
        if not type_:
            self.errors.append(required(path.child("type")))
        elif type_ == IN_CLUSTER:
            if file is not None:
                self.errors.append(invalid(where, file, "can only be set when type=KubeConfigFile"))
        elif type_ != KUBECONFIG:
            known = (IN_CLUSTER, KUBECONFIG)
            self.errors.append(not_supported(path.child("type"), _Connection(connection), known))
        elif not file:
            self.errors.append(required(where))
        elif problem := _file_problem(file):
            self.errors.append(invalid(where, file, problem))

    def _conditions(self, expressions: Sequence[str], path: Path) -> None:
        """Check the expressions of match conditions (`compileMatchConditions`)."""
        if len(expressions) > MAX_CONDITIONS:
            self.errors.append(too_many(path, len(expressions), MAX_CONDITIONS))
            return
        for number, expression in enumerate(expressions):
            where = path.index(number).child("expression")
            if not expression.strip():
                self.errors.append(required(where))
            elif expression in expressions[:number]:
                self.errors.append(duplicate(where, expression))
            else:
                self._condition(expression, where)

    def _condition(self, expression: str, path: Path) -> None:
        compiled = compile_condition(expression, self._version, selectors=self._selectors)
        if compiled.error is not None:
            is_internal = compiled.error_kind == "internal"
            error = internal(path, compiled.error) if is_internal else invalid(path, expression, compiled.error)
            self.errors.append(error)


def _file_problem(file: str) -> str:
    """Return the error of the path of a kubeconfig, "" for none."""
    if not os.path.isabs(file):
        return "must be an absolute path"
    try:
        mode = os.stat(file).st_mode
    except OSError as error:
        return f"error loading file: stat {file}: {(error.strerror or '').lower()}"
    return "" if stat.S_ISREG(mode) else "must be a regular file"
