"""Pod templates: defaults, strategy, table cells."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.compose import all_of
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import containers, labels, name
from understudy.kinds.context import Context
from understudy.kinds.core.pods import pod_defaults, pod_disabled_fields
from understudy.kinds.core.pods.pod_options import options
from understudy.kinds.core.pods.validation import pod_spec, pod_warnings
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Errors, Path


def _template_cells(template: Obj, now: float) -> list[Any]:
    """Return the cells of a pod template."""
    inner = template.get("template") or {}
    return [name(template), *containers(inner.get("spec")), labels(nested_field(inner, "metadata", "labels"))]


def _update_template(template: Obj, old: Obj, ctx: Context) -> None:
    """Drop disabled fields of an updated pod template."""
    pod_disabled_fields.drop_spec(
        nested_field(template, "template", "spec"), nested_field(old, "template", "spec"), ctx.gates
    )


def _validate_template(template: Obj, ctx: Context) -> Errors:
    """Validate the template of a new PodTemplate."""
    return pod_spec.template(template.get("template"), Path("template"), options(ctx.release, ctx.gates))


def _validate_update(template: Obj, old: Obj, ctx: Context) -> Errors:
    """Validate the template of a changed PodTemplate."""
    opts = options(ctx.release, ctx.gates, nested_field(old, "template", "spec"))
    return pod_spec.template(template.get("template"), Path("template"), opts)


def _warn_update(template: Obj, old: Obj, ctx: Context) -> None:
    """Warn of mistakes in a template that has changed."""
    if template["metadata"].get("generation") != old["metadata"].get("generation"):
        pod_warnings.template(template.get("template"), Path("template"), ctx)


POD_TEMPLATES = Behavior(
    defaults=lambda template, ctx: pod_defaults.template(template.get("template"), ctx.gates),
    strategy=Strategy(
        prepare_for_create=lambda template, ctx: pod_disabled_fields.drop_spec(
            nested_field(template, "template", "spec"), None, ctx.gates
        ),
        prepare_for_update=_update_template,
        validate=_validate_template,
        validate_update=all_of(CORE.updated, _validate_update),
        warn_create=lambda template, ctx: pod_warnings.template(template.get("template"), Path("template"), ctx),
        warn_update=_warn_update,
        generation=True,
    ),
    table_row=_template_cells,
    delete_returns_object=True,
)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of the kind by (group, kind)."""
    return {("", "PodTemplate"): POD_TEMPLATES}
