"""Validation of custom resources: all that a version of their definition asks of them (upstream:
`registry/customresource`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from understudy.kinds.apiextensions import embedded_resources
from understudy.kinds.common.formats import MAX_INT32
from understudy.kinds.common.objectmeta import PLAIN, beside_declared_rules, finalizer_warnings
from understudy.kinds.context import Context
from understudy.machinery.golang import fmt
from understudy.machinery.releases import features
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj
from understudy.machinery.validation.field import Errors, ErrorType, FieldError, Path, invalid

if TYPE_CHECKING:
    from understudy.kinds.apiextensions.structural_schema.schema import StructuralSchema

# Errors that leave open what rules would be given (upstream: `hasBlockingErr`).
_BLOCKING = frozenset(
    (ErrorType.NOT_SUPPORTED, ErrorType.REQUIRED, ErrorType.TOO_LONG, ErrorType.TOO_MANY, ErrorType.TYPE_INVALID)
)
_NOT_CHECKED = FieldError(
    ErrorType.INVALID,
    "<nil>",
    None,
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation",
)


class CustomResourceRules(NamedTuple):
    """The validation of the objects of one version, for a `Strategy`.

    scale  `subresources.scale` of the version, None if it has none
    """

    gvk: GroupVersionKind
    schema: StructuralSchema
    scale: Obj | None = None

    def create(self, obj: Obj, ctx: Context) -> Errors:
        """Check a new object."""
        errors = self._type_meta(obj)
        if not errors:
            errors = beside_declared_rules(PLAIN.created(obj, ctx), ctx.release) + self.schema.validate(obj)
            errors += self._scale_spec(obj) + self._scale_status(obj)
        errors += embedded_resources.validate(self.schema.embedded_resources(obj), ctx.release)
        return self._with_rules(errors + self.schema.validate_list_types(obj), obj, None, ctx)

    def update(self, obj: Obj, old: Obj, ctx: Context) -> Errors:
        """Check an object that replaces another one."""
        errors = self._type_meta(obj)
        if not errors:
            errors = beside_declared_rules(PLAIN.updated(obj, old, ctx), ctx.release)
            errors += self.schema.validate_update(obj, old, ratchets=_ratchets(ctx), observe=ctx.observe)
            errors += self._scale_spec(obj) + self._scale_status(obj)
        errors += embedded_resources.validate(self.schema.embedded_resources(obj), ctx.release)
        return self._with_rules(errors + self._list_types(obj, old), obj, old, ctx)

    def update_status(self, obj: Obj, old: Obj, ctx: Context) -> Errors:
        """Check an object whose status replaces that of another one."""
        errors = self._type_meta(obj)
        if not errors:
            errors = beside_declared_rules(PLAIN.updated(obj, old, ctx), ctx.release)
            errors += self.schema.validate_status_update(obj, old, ratchets=_ratchets(ctx), observe=ctx.observe)
            errors += self._scale_status(obj)
        return self._with_rules(errors + self._list_types(obj, old), obj, old, ctx, only_status=True)

    def warn_create(self, obj: Obj, ctx: Context) -> None:
        """Warn of finalizers without a path."""
        for text in finalizer_warnings(obj["metadata"], {}):
            ctx.warn(text)

    def warn_update(self, obj: Obj, old: Obj, ctx: Context) -> None:
        """Warn of new finalizers without a path."""
        for text in finalizer_warnings(obj["metadata"], old["metadata"]):
            ctx.warn(text)

    def _type_meta(self, obj: Obj) -> Errors:
        expected = {"kind": self.gvk.kind, "apiVersion": self.gvk.api_version}
        return [
            invalid(Path(name), obj.get(name, ""), f"must be {value}")
            for name, value in expected.items()
            if obj.get(name) != value
        ]

    def _list_types(self, obj: Obj, old: Obj) -> Errors:
        """Return the duplicates in sets and list maps, unless the old object had some as well."""
        errors = self.schema.validate_list_types(obj)
        return [] if errors and self.schema.validate_list_types(old) else errors

    def _with_rules(
        self, errors: Errors, obj: Obj, old: Obj | None, ctx: Context, *, only_status: bool = False
    ) -> Errors:
        """Return errors with those of the CEL rules, and warn of rules that unchanged parts break."""
        if self.schema.rules is None:
            return errors
        if any(error.type in _BLOCKING for error in errors):
            return [*errors, _NOT_CHECKED]
        outcome = self.schema.validate_rules(
            obj, old, ratchets=_ratchets(ctx), only_status=only_status, observe=ctx.observe
        )
        for warning in outcome.warnings:
            ctx.warn(warning.text(ctx.release))
        return errors + outcome.errors

    def _scale_spec(self, obj: Obj) -> Errors:
        return _replicas(obj, self.scale["specReplicasPath"]) if self.scale else []

    def _scale_status(self, obj: Obj) -> Errors:
        if not self.scale:
            return []
        errors = _replicas(obj, self.scale["statusReplicasPath"])
        selector: str | None = self.scale.get("labelSelectorPath")
        if selector is not None and (text := nested(obj, selector, str, "string")[1]):
            errors.append(FieldError(ErrorType.INVALID, selector, "", text))
        return errors


def _ratchets(ctx: Context) -> bool:
    return ctx.gates[features.CRD_VALIDATION_RATCHETING]


def _replicas(obj: Obj, json_path: str) -> Errors:
    """Check the number of replicas at a path such as `.spec.replicas`."""
    replicas, text = nested(obj, json_path, int, "int64")
    value = replicas or 0
    if not text and value < 0:
        text = "should be a non-negative integer"
    elif not text and value > MAX_INT32:
        text = f"should be less than or equal to {MAX_INT32}"
    return [FieldError(ErrorType.INVALID, json_path, value, text)] if text else []


def nested(obj: Obj, json_path: str, expected: type, go_type: str) -> tuple[Any, str]:
    """Return the value at a path such as `.spec.replicas`, None if there is none, and why it cannot be had (upstream:
    `NestedInt64`, `NestedString`)."""
    names, value = json_path.removeprefix(".").split("."), obj
    for i, name in enumerate(names):
        if value is None:
            return None, ""
        if not isinstance(value, dict):
            return None, _accessor_error(names[: i + 1], value, "map[string]interface{}")
        if name not in value:
            return None, ""
        value = value[name]
    fits = fmt.base_type(value) is expected
    return (value, "") if fits else (None, _accessor_error(names, value, go_type))


def _accessor_error(names: Sequence[str], value: Any, expected: str) -> str:
    actual = "<nil>" if value is None else fmt.type_name(value)
    path = "".join(f".{name}" for name in names)
    return f"{path} accessor error: {fmt.print_value(value)} is of the type {actual}, expected {expected}"
