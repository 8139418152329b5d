"""Config maps and secrets: defaults, strategies, table cells."""

from __future__ import annotations

from base64 import b64encode

from understudy.admission.context import Context
from understudy.admission.validation.compose import all_of, as_on_create
from understudy.admission.validation.core import config_maps_and_secrets
from understudy.admission.validation.objectmeta import CORE
from understudy.apiserver.kinds.printers import count, field, row
from understudy.apiserver.registry.kind import Behavior, Strategy
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
        validate=config_maps_and_secrets.config_map,
        validate_update=all_of(
            CORE.updated,
            config_maps_and_secrets.config_map_changes,
            as_on_create(CORE.created, config_maps_and_secrets.config_map),
        ),
    ),
    table_row=row(lambda c: len(c.get("data") or ()) + len(c.get("binaryData") or ())),
)
SECRETS = Behavior(
    defaults=_default_secret,
    strategy=Strategy(
        validate=config_maps_and_secrets.secret,
        validate_update=all_of(
            CORE.updated,
            config_maps_and_secrets.secret_changes,
            as_on_create(CORE.created, config_maps_and_secrets.secret),
        ),
        warn_create=config_maps_and_secrets.warn_secret,
        warn_update=lambda secret, old, ctx: config_maps_and_secrets.warn_secret(secret, ctx),
    ),
    selectable={"type": field("type")},
    table_row=row(field("type"), count("data")),
)


def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("", "ConfigMap"): CONFIG_MAPS,
        ("", "Secret"): SECRETS,
    }
