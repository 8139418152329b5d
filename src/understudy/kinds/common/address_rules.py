"""Rules for addresses and networks in fields that once took them in any form (upstream: `IsValidIPForLegacyField`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from understudy.kinds.common.formats import cidr, ip
from understudy.kinds.context import Context
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33
from understudy.machinery.validation.field import Errors, Path

AddressRule = Callable[[str, Path], Errors]


class AddressRules:
    """The rules of a release: whether other forms than the canonical one are refused, and whether stored ones may stay.

    rule = AddressRules(ctx).ip_rule(stored_addresses)
    errors += rule("10.0.0.1", path)
    """

    def __init__(self, ctx: Context) -> None:
        self.strict = ctx.gates[features.STRICT_IP_CIDR_VALIDATION]
        self.keeps_stored = ctx.release >= V1_33

    def ip_rule(self, stored: Sequence[str] | None = ()) -> AddressRule:
        """Return the rule for addresses that accepts those that are stored."""
        return partial(ip, strict=self.strict, stored=frozenset((stored or ()) if self.keeps_stored else ()))

    def cidr_rule(self, stored: Sequence[str] | None = ()) -> AddressRule:
        """Return the rule for networks that accepts those that are stored."""
        return partial(cidr, strict=self.strict, stored=frozenset((stored or ()) if self.keeps_stored else ()))
