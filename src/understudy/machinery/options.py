"""The options of a request: query parameters and DeleteOptions, decoded and validated as kube-apiserver does.

https://kubernetes.io/docs/reference/kubernetes-api/common-parameters/common-parameters/
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote, parse_int
from understudy.machinery.golang.times import parse_duration
from understudy.machinery.patch.apply.manager_names import validate_field_manager
from understudy.machinery.releases.version import Version
from understudy.machinery.selectors.fields import FieldTerm, parse_fields
from understudy.machinery.selectors.labels import Requirement, SelectorError, parse_labels
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required

META = "meta.k8s.io"
EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"
STRICT, WARN, IGNORE = "Strict", "Warn", "Ignore"


def integer(text: str) -> int:
    """Return an int64, read as Go's `strconv.ParseInt` does. Raises 400, with Go's text."""
    try:
        return parse_int(text)
    except ValueError as wrong:
        raise errors.bad_request(str(wrong)) from wrong


def boolean(query: Query, name: str) -> bool | None:
    """Return a parameter as a boolean, None if it is missing; any text but "false" and "0" is true."""
    if name not in query:
        return None
    return query.get(name).lower() not in ("false", "0")


def resource_version(text: str) -> int:
    """Return a resourceVersion as a revision, 0 for "". Raises 500, with upstream's text, if it is not a number."""
    if not text:
        return 0
    try:
        return parse_int(text, signed=False)
    except ValueError as wrong:
        raise errors.unknown_error(f"resourceVersion: Invalid value: {go_quote(text)}: {wrong}") from wrong


def minimum_version(query: Query) -> str:
    """Return the `resourceVersion` of the GET of one object, "" if there is none (`GetOptions`).

    Raises 400 for `export`, which the server does not know any more.
    """
    if boolean(query, "export"):
        raise errors.bad_request("the export parameter, deprecated since v1.14, is no longer supported")
    return query.get("resourceVersion")


@dataclass(slots=True)
class ListOptions:
    """The options of a list or a watch. Upstream: `internalversion.ListOptions`."""

    labels: tuple[Requirement, ...]
    fields: tuple[FieldTerm, ...]
    watch: bool
    bookmarks: bool
    version: str
    match: str
    timeout: int | None  # seconds; 0 is as none
    limit: int
    token: str  # the parameter `continue`
    initial_events: bool | None
    shards: str  # the parameter `shardSelector`


def list_options(query: Query, version: Version, *, watch: bool, watch_list: bool) -> ListOptions:
    """Read and validate the options of a list or watch; `watch_list` is the gate WatchList. Raises 400, 422.

    A watch below `/watch/` that has no parameter `watch` gets the rules of a list.
    """
    timeout = integer(query.get("timeoutSeconds")) if "timeoutSeconds" in query else None
    limit = integer(query.get("limit")) if "limit" in query else 0
    try:
        labels, fields = parse_labels(query.get("labelSelector"), version), parse_fields(query.get("fieldSelector"))
    except SelectorError as why:
        raise errors.bad_request(str(why)) from None
    options = ListOptions(
        labels=labels,
        fields=fields,
        watch=watch,
        bookmarks=bool(boolean(query, "allowWatchBookmarks")),
        version=query.get("resourceVersion"),
        match=query.get("resourceVersionMatch"),
        timeout=timeout,
        limit=max(limit, 0),
        token=query.get("continue"),
        initial_events=boolean(query, "sendInitialEvents"),
        shards=query.get("shardSelector"),
    )
    asked = watch and boolean(query, "watch")
    if asked and watch_list and options.initial_events is None and not options.match and options.version in ("", "0"):
        options.initial_events, options.match = True, NOT_OLDER_THAN
    field_errors = _watch_errors(options, watch_list) if asked else _list_errors(options)
    if field_errors:
        raise errors.invalid(META, "ListOptions", "", field_errors, version)
    return options


def _list_errors(options: ListOptions) -> Errors:
    field_errors: Errors = []
    path = Path("resourceVersionMatch")
    if options.match:
        if not options.version:
            field_errors.append(forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.token:
            field_errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if options.match not in (EXACT, NOT_OLDER_THAN):
            field_errors.append(not_supported(path, options.match, [EXACT, NOT_OLDER_THAN, ""]))
        if options.match == EXACT and options.version == "0":
            field_errors.append(forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.initial_events is not None:
        field_errors.append(forbidden(Path("sendInitialEvents"), "sendInitialEvents is forbidden for list"))
    return field_errors


def _watch_errors(options: ListOptions, watch_list: bool) -> Errors:
    field_errors: Errors = []
    path = Path("resourceVersionMatch")
    if options.initial_events is not None:
        if options.match != NOT_OLDER_THAN:
            text = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"
            field_errors.append(forbidden(path, text))
        if not watch_list:
            text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            field_errors.append(forbidden(Path("sendInitialEvents"), text))
    if options.match:
        if options.initial_events is None:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            field_errors.append(forbidden(path, text))
        if options.match != NOT_OLDER_THAN:
            field_errors.append(not_supported(path, options.match, [NOT_OLDER_THAN]))
        if options.token:
            field_errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
    return field_errors


@dataclass(slots=True)
class WriteOptions:
    """The options of create, update and patch.

    field_validation  Strict, Warn or Ignore
    force             None where it is missing
    """

    dry_run: bool
    field_manager: str
    field_validation: str
    force: bool | None


def write_options_object(query: Query, *, create: bool) -> Obj:
    """Return the options of a POST, PUT or PATCH as an object, as admission sees it: what they are in the query."""
    obj: Obj = {"kind": _CREATE if create else _UPDATE, "apiVersion": _META}
    if dry_run := query.all("dryRun"):
        obj["dryRun"] = dry_run
    for name in ("fieldManager", "fieldValidation"):
        if text := query.get(name):
            obj[name] = text
    return obj


_META = "meta.k8s.io/v1"
_CREATE, _UPDATE, _PATCH = "CreateOptions", "UpdateOptions", "PatchOptions"
_KIND = {"POST": _CREATE, "PUT": _UPDATE, "PATCH": _PATCH}
_PLAIN = WriteOptions(False, "", WARN, None)


def write_options(query: Query, method: str, version: Version, *, apply: bool = False) -> WriteOptions:
    """Decode and validate the options of a POST, PUT or PATCH. Raises 422."""
    if not query and not apply:
        return _PLAIN
    options = WriteOptions(
        dry_run=bool(query.all("dryRun")),
        field_manager=query.get("fieldManager"),
        field_validation=query.get("fieldValidation") or WARN,
        force=boolean(query, "force") if method == "PATCH" else None,
    )
    field_errors: Errors = []
    if method == "PATCH":
        if not apply and options.force is not None:
            field_errors.append(forbidden(Path("force"), "may not be specified for non-apply patch"))
        if apply and not options.field_manager:
            field_errors.append(required(Path("fieldManager"), "is required for apply patch"))
    field_errors += validate_field_manager(options.field_manager, Path("fieldManager"))
    field_errors += dry_run_errors(query.all("dryRun"))
    if options.field_validation not in (STRICT, WARN, IGNORE):
        allowed = ["", IGNORE, STRICT, WARN]
        field_errors.append(not_supported(Path("fieldValidation"), options.field_validation, allowed))
    if field_errors:
        raise errors.invalid(META, _KIND[method], "", field_errors, version)
    return options


def create_or_update_options(kind: str, query: Query) -> Obj:
    """Return the options of a write as admission sees them: an object of kind "CreateOptions" or "UpdateOptions"."""
    options: Obj = {"kind": kind, "apiVersion": f"{META}/v1"}
    if dry_run := query.all("dryRun"):
        options["dryRun"] = dry_run
    for name in ("fieldManager", "fieldValidation"):
        if value := query.get(name):
            options[name] = value
    return options


def dry_run_errors(values: Sequence[str]) -> Errors:
    """List the errors of the parameter dryRun. Upstream: `validateDryRun`."""
    if all(value == "All" for value in values):
        return []
    return [not_supported(Path("dryRun"), Typed(values, "[]string"), ["All"])]


UNSAFE_DELETE = "ignoreStoreReadErrorWithClusterBreakingPotential"


@dataclass(slots=True)
class DeleteOptions:
    """The options of a deletion; None for what is missing."""

    grace_period: int | None = None  # seconds
    dry_run: Sequence[str] = ()  # nothing is stored if there is anything, which then has to be "All"
    orphan_dependents: bool | None = None
    propagation: str | None = None
    uid: str | None = None
    version: str | None = None  # resourceVersion precondition
    preconditions: bool = False  # whether there is an object of them, which may be empty
    ignore_read_error: bool | None = None  # whether an object is deleted that can no longer be read


def delete_options_object(options: DeleteOptions) -> Obj:
    """Return the options of a deletion as an object, as admission sees it."""
    required_values = {"uid": options.uid, "resourceVersion": options.version}
    preconditions = {name: value for name, value in required_values.items() if value is not None}
    fields: Obj = {
        "gracePeriodSeconds": options.grace_period,
        "preconditions": preconditions if preconditions or options.preconditions else None,
        "orphanDependents": options.orphan_dependents,
        "propagationPolicy": options.propagation,
        "dryRun": list(options.dry_run) or None,
        UNSAFE_DELETE: options.ignore_read_error,
    }
    present = {name: value for name, value in fields.items() if value is not None}
    return {"kind": "DeleteOptions", "apiVersion": _META, **present}


def read_delete_options(body: Obj) -> DeleteOptions:
    """Return the options that an object of kind DeleteOptions holds, not validated."""
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        grace_period=body.get("gracePeriodSeconds"),
        dry_run=body.get("dryRun") or (),
        orphan_dependents=body.get("orphanDependents"),
        propagation=body.get("propagationPolicy"),
        uid=preconditions.get("uid"),
        version=preconditions.get("resourceVersion"),
        preconditions=body.get("preconditions") is not None,
        ignore_read_error=body.get(UNSAFE_DELETE),
    )


def validated_delete_options(options: DeleteOptions, version: Version) -> DeleteOptions:
    """Return the options if they are valid. Raises 422. Upstream: `ValidateDeleteOptions`."""
    field_errors: Errors = []
    if options.propagation is not None and options.orphan_dependents is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        field_errors.append(invalid(Path("propagationPolicy"), options.propagation, text))
    if options.propagation not in (None, "Foreground", "Background", "Orphan"):
        allowed = ["Foreground", "Background", "Orphan", "nil"]
        field_errors.append(not_supported(Path("propagationPolicy"), options.propagation, allowed))
    field_errors += dry_run_errors(options.dry_run)
    if options.ignore_read_error:
        field_errors += _beside_unsafe(options)
    if field_errors:
        raise errors.invalid(META, "DeleteOptions", "", field_errors, version)
    return options


def _beside_unsafe(options: DeleteOptions) -> Errors:
    """Return an error for each option that a deletion of what cannot be read excludes."""
    others = {
        "propagationPolicy": options.propagation is not None,
        "orphanDependents": options.orphan_dependents is not None,
        "gracePeriodSeconds": options.grace_period is not None,
        "preconditions": options.preconditions or options.uid is not None or options.version is not None,
    }
    path = Path(UNSAFE_DELETE)
    return [invalid(path, True, f"cannot be set together with .{name}") for name, is_set in others.items() if is_set]


_DURATION_PART = regex(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_HOUR = 3600 * 10**9
_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": _HOUR}
_LONGEST = 1 << 63  # nanoseconds


def request_timeout(text: str) -> float:
    """Return the seconds of the parameter `timeout` of a request, read as Go's `time.ParseDuration` does; 0 for none.

    Raises 400.
    """
    rest = text[1:] if text[:1] in ("+", "-") else text
    if not text or rest == "0":
        return 0.0
    wrong, total = "" if rest else "invalid duration", 0
    longest = _LONGEST - (text[0] != "-")
    while rest and not wrong:
        part = _DURATION_PART.match(rest)
        assert part is not None
        whole, fraction, unit = part[1], part[2] or "", part[3]
        amount = int(whole.lstrip("0")[:20] or 0)  # more digits are too many as well
        total += amount * _UNITS.get(unit, 1)
        if not (whole or fraction) or amount > _LONGEST:
            wrong = "invalid duration"
        elif not unit:
            wrong = "missing unit in duration"
        elif unit not in _UNITS:
            wrong = f"unknown unit {go_quote(unit)} in duration"
        elif total > longest:
            wrong = "invalid duration"
        rest = rest[part.end() :]
    if wrong:
        raise errors.bad_request(f"invalid timeout specified in the request URL - time: {wrong} {go_quote(text)}")
    return (parse_duration(text) or 0) / 10**9


MALFORMED = regex("%(?![0-9A-Fa-f]{2})")  # no escape of a URL


class Query(dict[str, str]):
    """The parameters of a query string, read as Go does: of a repeated one, the first counts.

    Parameters with a semicolon or a wrong escape are left out. `text` is the whole string as it was sent.
    """

    __slots__ = ("_repeated", "text")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self._repeated: dict[str, list[str]] = {}
        if text and (";" in text or MALFORMED.search(text)):
            text = "&".join(part for part in text.split("&") if ";" not in part and not MALFORMED.search(part))
        for part in filter(None, text.split("&")):  # there may be hundreds of thousands
            name, _, value = part.partition("=")
            if "%" in part or "+" in part:
                name, value = _unescape(name), _unescape(value)
            if name in self:
                self._repeated.setdefault(name, [self[name]]).append(value)
            else:
                self[name] = value

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
        """Return a parameter, "" if it is missing."""
        return super().get(name, default)

    def all(self, name: str) -> list[str]:
        """Return every value of a parameter."""
        if name in self._repeated:
            return self._repeated[name]
        return [self[name]] if name in self else []


def _unescape(text: str) -> str:
    return unquote(text.replace("+", " "), errors="surrogateescape")


@cache_short_texts(1024)
def parse_query(text: str) -> Query:
    """Return the parameters of a query string. Requests with the same query share them: do not edit them."""
    return Query(text)
