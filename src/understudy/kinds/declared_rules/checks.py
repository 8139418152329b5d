"""The checks of one value that declared rules name (upstream: `k8s.io/apimachinery/pkg/api/validate`).

Each is made from the arguments of its rule; `CHECKS` has them by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from understudy.kinds.declared_rules.run import Check, Run
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.bad_values import LabelText
from understudy.machinery.validation.field import (
    Errors,
    ErrorType,
    FieldError,
    Path,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    too_many_characters,
)
from understudy.machinery.validation.names import (
    c_identifier_texts,
    long_name_texts,
    path_segment_name,
    qualified_name_texts,
    short_name_texts,
    size,
)

_IMMUTABLE = "field is immutable"
_UUID = regex(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IDENTIFIER_LENGTH, _PREFIX_LENGTH, _POOL_LENGTH = 32, 63, 253
_RESERVED = (".k8s.io", ".kubernetes.io")
_RESERVED_PRIORITIES = 1000


def _of(find: Callable[[Path, Any], Errors]) -> Callable[[], Check]:
    """Return the maker of a check without arguments that looks at the new value only."""

    def check(run: Run, path: Path, value: Any, old: Any) -> Errors:
        return find(path, value)

    return lambda: check


def _of_text(texts: Callable[[str], Sequence[str]]) -> Callable[[], Check]:
    """Return the maker of a check of a text that is set; each of `texts` is an error."""
    return _of(lambda path, value: [] if value is None else [invalid(path, value, text) for text in texts(value)])


# --- Whether something is there ---------------------------------------------------------------------------------------


def _required(path: Path, value: Any) -> Errors:
    return [] if value else [required(path)]


def _required_pointer(path: Path, value: Any) -> Errors:
    return [required(path)] if value is None else []


OPTIONAL = ("OptionalValue", "OptionalSlice", "OptionalMap", "OptionalPointer")
# What ends the checks of a field that may be missing. Nobody is told, and so it names no field.
_UNSET = [FieldError(ErrorType.REQUIRED, "")]


def _optional(run: Run, path: Path, value: Any, old: Any) -> Errors:
    return [] if value else _UNSET


def _optional_pointer(run: Run, path: Path, value: Any, old: Any) -> Errors:
    return _UNSET if value is None else []


def _forbidden(path: Path, value: Any) -> Errors:
    return [forbidden(path, "")] if value else []


def _forbidden_pointer(path: Path, value: Any) -> Errors:
    return [] if value is None else [forbidden(path, "")]


# --- Limits -----------------------------------------------------------------------------------------------------------


def _max_items(limit: int) -> Check:
    return lambda run, path, value, old: [too_many(path, len(value), limit)] if len(value or ()) > limit else []


def _max_length(limit: int) -> Check:
    return lambda run, path, value, old: [too_many_characters(path, limit)] if len(value or "") > limit else []


def _max_bytes(limit: int) -> Check:
    return lambda run, path, value, old: [too_long(path, limit)] if size(value or "") > limit else []


def _minimum(limit: int) -> Check:
    text = f"must be greater than or equal to {limit}"
    return lambda run, path, value, old: [invalid(path, value or 0, text)] if (value or 0) < limit else []


def _maximum(limit: int) -> Check:
    text = f"must be less than or equal to {limit}"
    return lambda run, path, value, old: [invalid(path, value, text)] if (value or 0) > limit else []


def _enum(values: Sequence[str], exclusions: Sequence[Any] | None) -> Check:
    supported = sorted(values)
    return lambda run, path, value, old: (
        [] if value is None or value in supported else [not_supported(path, value, supported)]
    )


# --- Changes ----------------------------------------------------------------------------------------------------------


def _immutable() -> Check:
    return lambda run, path, value, old: [invalid(path, None, _IMMUTABLE)] if run.update else []


def _no_set(path: Path, value: Any, old: Any) -> bool:
    return _unset(old) and not _unset(value)


def _no_unset(path: Path, value: Any, old: Any) -> bool:
    return not _unset(old) and _unset(value)


def _no_modify(path: Path, value: Any, old: Any) -> bool:
    return not _unset(old) and not _unset(value)


def _unset(value: Any) -> bool:
    return value is None or value == []


_TRANSITIONS: Mapping[str, tuple[Callable[[Path, Any, Any], bool], str]] = {
    "NoSet": (_no_set, "field cannot be set once created"),
    "NoUnset": (_no_unset, "field cannot be cleared once set"),
    "NoModify": (_no_modify, "field cannot be modified once set"),
}


# The texts of errors about a change (upstream: origins "immutable" and "update").
CHANGED = (_IMMUTABLE, *(text for _, text in _TRANSITIONS.values()))


def _transitions(*names: str) -> Check:
    rules = [_TRANSITIONS[name] for name in names]

    def check(run: Run, path: Path, value: Any, old: Any) -> Errors:
        if not run.update:
            return []
        return [invalid(path, None, text) for is_wrong, text in rules if is_wrong(path, value, old)]

    return check


def items_stay(keys: Callable[[Any], Any], *names: str) -> Check:
    """Return a check that a list keeps its items, which `keys` tells apart, as the constraints say."""
    whole = _transitions(*(name for name in names if name in _TRANSITIONS))

    def check(run: Run, path: Path, value: Any, old: Any) -> Errors:
        if not run.update:
            return []
        new_keys, old_keys = [*map(keys, value or ())], [*map(keys, old or ())]
        errors = whole(run, path, value, old)
        if "NoAddItem" in names:
            errors += [
                forbidden(path.index(i), "item may not be added") for i, k in enumerate(new_keys) if k not in old_keys
            ]
        if "NoRemoveItem" in names:
            errors += [forbidden(path, "item may not be removed") for k in old_keys if k not in new_keys]
        return errors

    return check


def _monotonic(run: Run, path: Path, value: Any, old: Any) -> Errors:
    if not run.update or value is None or old is None or value >= old:
        return []
    return [invalid(path, value, f"may not be decreased from {old}")]


# --- Formats ----------------------------------------------------------------------------------------------------------


def _label_key_texts(value: str) -> list[str]:
    return [text.newer if isinstance(text, LabelText) else text for text in qualified_name_texts(value)]


def _prefixed_label_key_texts(value: str) -> Sequence[str]:
    return _label_key_texts(value) or ([] if "/" in value else ["must include a prefix (e.g. 'example.com/key')"])


def _uuid_texts(value: str) -> Sequence[str]:
    return [] if _UUID.fullmatch(value) else ["must be a lowercase UUID in 8-4-4-4-12 format"]


def _pool_name(path: Path, value: Any) -> Errors:
    if value is None:
        return []
    errors = [too_long(path, _POOL_LENGTH)] if size(value) > _POOL_LENGTH else []
    for i, part in enumerate(value.split("/")):
        if not part:
            errors.append(invalid(path, value, f"segment {i}: must not be empty"))
        else:
            errors += [invalid(path, part, f"segment {i}: {text}") for text in long_name_texts(part)]
    return errors


def _extended_resource_texts(value: str) -> Sequence[str]:
    texts = []
    if "/" not in value:
        texts.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in value:
        texts.append('must not have "kubernetes.io/" domain')
    if value.startswith("requests."):
        texts.append('must not have "requests." prefix')
    return texts + _label_key_texts(f"requests.{value}")


def _identifier(path: Path, name: str) -> Errors:
    errors = [too_long(path, _IDENTIFIER_LENGTH)] if size(name) > _IDENTIFIER_LENGTH else []
    return errors + [invalid(path, name, text) for text in c_identifier_texts(name)]


def fully_qualified(path: Path, value: Any) -> Errors:
    """Check a name with a domain, as attributes have it (upstream: `ResourceFullyQualifiedName`)."""
    if value is None:
        return []
    errors: Errors = []
    match value.split("/"):
        case [name]:
            errors += _identifier(path, name)
        case [prefix, name]:
            if not prefix:
                errors.append(invalid(path, "", "prefix must not be empty"))
            else:
                errors += [too_long(path, _PREFIX_LENGTH)] if size(prefix) > _PREFIX_LENGTH else []
                errors += [invalid(path, prefix, f"prefix: {text}") for text in long_name_texts(prefix)]
            errors += _identifier(path, name) if name else [invalid(path, "", "name must not be empty")]
    if "/" not in value:
        errors.append(invalid(path, value, "a fully qualified name must be a domain and a name separated by a slash"))
    return errors


# --- Single fields ----------------------------------------------------------------------------------------------------


def _not_reserved(path: Path, value: Any) -> Errors:
    """Check that a name has no domain of Kubernetes (upstream: `ValidateForbiddenReservedDomainSuffixes`)."""
    domain = (value or "").partition("/")[0].lower().strip().rstrip(".")
    if not any(domain.endswith(suffix) or domain == suffix.strip(".") for suffix in _RESERVED):
        return []
    return [invalid(path, value, f"domain names {', '.join(f'*{suffix}' for suffix in _RESERVED)} are reserved")]


def _responder_priority(path: Path, value: Any) -> Errors:
    if value is None or not 0 <= value < _RESERVED_PRIORITIES:
        return []
    return [invalid(path, value, "priorities 0-999 are reserved for responders with *.k8s.io suffix")]


CHECKS: Mapping[str, Callable[..., Check]] = {
    "RequiredValue": _of(_required),
    "RequiredSlice": _of(_required),
    "RequiredMap": _of(_required),
    "RequiredPointer": _of(_required_pointer),
    **dict.fromkeys(OPTIONAL[:-1], lambda: _optional),
    OPTIONAL[-1]: lambda: _optional_pointer,
    "ForbiddenSlice": _of(_forbidden),
    "ForbiddenPointer": _of(_forbidden_pointer),
    "MaxItems": _max_items,
    "MaxLength": _max_length,
    "MaxBytes": _max_bytes,
    "Minimum": _minimum,
    "Maximum": _maximum,
    "Enum": _enum,
    "Immutable": _immutable,
    "UpdatePointer": _transitions,
    "UpdateValueByCompare": _transitions,
    "Monotonic": lambda: _monotonic,
    "ShortName": _of_text(short_name_texts),
    "LongName": _of_text(long_name_texts),
    "LongNameCaseless": _of_text(lambda value: long_name_texts(value, any_case=True)),
    "LabelKey": _of_text(_label_key_texts),
    "PrefixedLabelKey": _of_text(_prefixed_label_key_texts),
    "PathSegmentName": _of_text(lambda value: path_segment_name(value, False)),
    "UUID": _of_text(_uuid_texts),
    "ExtendedResourceName": _of_text(_extended_resource_texts),
    "ResourcePoolName": _of(_pool_name),
    "ResourceFullyQualifiedName": _of(fully_qualified),
    "ValidateCustom_Condition_LastTransitionTime": _of(_required_pointer),
    "ValidateCustom_EvictionRequestSpec_Requester": _of(_not_reserved),
    "ValidateCustom_EvictionResponder_Name": _of(_not_reserved),
    "ValidateCustom_EvictionResponder_Priority": _of(_responder_priority),
}
