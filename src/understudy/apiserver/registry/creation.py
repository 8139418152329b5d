"""What becomes of a new object before it is stored: the server's metadata, the kind's preparation, validation.

The server's registry and `understudy validate` decide by the same two steps.
"""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.admission.validation import objectmeta
from understudy.apiserver.registry.generated_names import generate_name, new_uid
from understudy.apiserver.registry.kind import Kind, Strategy
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors
from understudy.machinery.validation.names import path_segment_name


def complete(obj: Obj, kind: Kind, strategy: Strategy, namespace: str, ctx: Context) -> None:
    """Fills in uid, time and name, in place."""
    fields = obj["metadata"]
    fields |= {"creationTimestamp": ctx.now, "uid": new_uid()}
    if fields.get("generateName") and not fields.get("name"):
        fields["name"] = generate_name(fields["generateName"])
    if kind.namespaced:
        fields["namespace"] = namespace
    else:
        fields.pop("namespace", None)
    if strategy.generation:
        fields["generation"] = 1


def prepare(obj: Obj, kind: Kind, strategy: Strategy, ctx: Context) -> Errors:
    """Resets and drops what the kind does not take, in place; answers what is wrong with the rest.

    The kind's own rules come first: what is true of all names is only told if they find nothing."""
    strategy.prepare_for_create(obj, ctx)
    common = objectmeta.validate(obj["metadata"], namespaced=kind.namespaced, name=path_segment_name)
    ctx.metadata_validated = not common
    return strategy.validate_metadata(obj, ctx) + strategy.validate(obj, ctx) or common
