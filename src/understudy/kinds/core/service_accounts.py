"""Service accounts: strategy, table cells."""

from __future__ import annotations

from dataclasses import replace

from understudy.kinds.common.compose import all_of, as_on_create
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import count, row
from understudy.kinds.context import Context
from understudy.kinds.core.namespaces import validation as namespaces
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.machinery.releases.version import V1_31, V1_35, ByRelease, Version
from understudy.machinery.types import Obj


def _only_names_of_secrets(account: Obj, ctx: Context) -> None:
    """Keep only the names of a service account's secrets, which are in its own namespace."""
    if account.get("secrets"):
        account["secrets"] = [{"name": ref["name"]} if ref.get("name") else {} for ref in account["secrets"]]


_ROWS = ByRelease({V1_31: row(count("secrets")), V1_35: row()})  # secrets are no longer counted
SERVICE_ACCOUNTS = Behavior(
    strategy=Strategy(
        prepare_for_create=_only_names_of_secrets,
        prepare_for_update=lambda account, old, ctx: _only_names_of_secrets(account, ctx),
        validate_update=all_of(CORE.updated, as_on_create(CORE.created)),
        warn_create=lambda account, ctx: namespaces.warn_account(account, None, ctx),
        warn_update=namespaces.warn_account,
    ),
    delete_returns_object=True,
)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of the kind by (group, kind)."""
    return {("", "ServiceAccount"): replace(SERVICE_ACCOUNTS, table_row=_ROWS[version])}
