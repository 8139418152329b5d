"""Config maps and secrets: defaults, strategies, table cells."""

from __future__ import annotations

from base64 import b64encode

from understudy.kinds.common.compose import all_of, as_on_create
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import count, field, row
from understudy.kinds.context import Context
from understudy.kinds.core.config_maps_and_secrets import validation
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj


def _default_secret(secret: Obj, ctx: Context) -> None:
    """Set the type of a secret, and move the write-only `stringData` into `data`, in place."""
    secret.setdefault("type", "Opaque")
    texts = secret.pop("stringData", None)
    if texts:
        encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


CONFIG_MAPS = Behavior(
    strategy=Strategy(
        validate=validation.config_map,
        validate_update=all_of(
            CORE.updated,
            validation.config_map_changes,
            as_on_create(CORE.created, validation.config_map),
        ),
    ),
    table_row=row(lambda c: len(c.get("data") or ()) + len(c.get("binaryData") or ())),
)
SECRETS = Behavior(
    defaults=_default_secret,
    strategy=Strategy(
        validate=validation.secret,
        validate_update=all_of(
            CORE.updated,
            validation.secret_changes,
            as_on_create(CORE.created, validation.secret),
        ),
        warn_create=validation.warn_secret,
        warn_update=lambda secret, old, ctx: validation.warn_secret(secret, ctx),
    ),
    selectable={"type": field("type")},
    table_row=row(field("type"), count("data")),
)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("", "ConfigMap"): CONFIG_MAPS,
        ("", "Secret"): SECRETS,
    }
