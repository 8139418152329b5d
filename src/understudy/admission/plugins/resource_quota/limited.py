"""The configuration of ResourceQuota: resources that nobody may use without a quota for them.

Upstream: k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.machinery.golang.text import aggregate
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.configuration import TYPE_META, ConfigurationTypes, decode_named
from understudy.machinery.typeinfo.scheme import scheme_name
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.validation.field import Path, required

_OLD_GROUP = "resourcequota.admission.k8s.io"
_PACKAGE = "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
_SELECTOR = "k8s.io/api/core/v1.ScopedResourceSelectorRequirement"
_TYPES = ConfigurationTypes(
    {
        "apiserver.config.k8s.io/v1/ResourceQuotaConfiguration": f"{_PACKAGE}/v1.Configuration",
        f"{_OLD_GROUP}/v1beta1/Configuration": f"{_PACKAGE}/v1beta1.Configuration",
        f"{_OLD_GROUP}/v1alpha1/Configuration": f"{_PACKAGE}/v1alpha1.Configuration",
    },
    {
        f"{_PACKAGE}/{version}.{name}": fields
        for version in ("v1", "v1beta1", "v1alpha1")
        for name, fields in {
            "Configuration": [
                TYPE_META,
                ["LimitedResources", "limitedResources", "", f"[]{_PACKAGE}/{version}.LimitedResource", 0],
            ],
            "LimitedResource": [
                ["APIGroup", "apiGroup", "o", "string", 0],
                ["Resource", "resource", "", "string", 0],
                ["MatchContains", "matchContains", "o", "[]string", 0],
                ["MatchScopes", "matchScopes", "o", f"[]{_SELECTOR}", 0],
            ],
        }.items()
    }
    | {
        _SELECTOR: [
            ["ScopeName", "scopeName", "", "string", 1],
            ["Operator", "operator", "", "string", 2],
            ["Values", "values", "o", "[]string", 3],
        ]
    },
)


@dataclass(frozen=True, slots=True)
class LimitedResource:
    """A resource that is limited by default.

    parts   texts of which the names of its amounts in quotas contain one
    scopes  scopes of objects that need a quota with such a scope, of whatever resource these are
    """

    group: str
    resource: str
    parts: Sequence[str]
    scopes: Sequence[Obj]

    def names(self, amount: str) -> bool:
        """Report whether the name of an amount is one that is limited."""
        return any(part in amount for part in self.parts)


@dataclass(frozen=True, slots=True)
class Limited:
    """The resources that a configuration limits."""

    resources: Sequence[LimitedResource] = ()


def read_limited_resources(data: bytes | None, version: Version) -> Limited:
    """Read the resources that a configuration limits. Raises ValueError."""
    if data is None:
        return Limited()
    _, obj = decode_named(data, _TYPES.find, scheme_name(version, "resourcequota"))
    path, fields = Path("limitedResources"), obj.get("limitedResources") or ()
    missing = [i for i, each in enumerate(fields) if not each.get("resource")]
    if missing:
        raise ValueError(aggregate([required(path.index(i).child("resource")).text(version) for i in missing]))
    return Limited(
        [
            LimitedResource(
                each.get("apiGroup", ""),
                each["resource"],
                each.get("matchContains") or (),
                [{"operator": "", "scopeName": "", **scope} for scope in each.get("matchScopes") or ()],
            )
            for each in fields
        ]
    )


def go_text(scope: Obj) -> str:
    """Return a scope as Go prints the struct."""
    return f"{{{scope['scopeName']} {scope['operator']} [{' '.join(scope.get('values') or ())}]}}"
