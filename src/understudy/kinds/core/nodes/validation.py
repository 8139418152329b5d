"""Validation of nodes."""

from __future__ import annotations

import re

from understudy.kinds.common.address_rules import AddressRules
from understudy.kinds.common.address_warnings import warn_of_cidr
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers import resources
from understudy.kinds.core.pods.validation import scheduling
from understudy.machinery.golang.netip import parse_cidr
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_33
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, forbidden, internal, invalid
from understudy.machinery.validation.names import SUBDOMAIN_LENGTH, size

_TAINTS = Path("metadata", "taints")
_CIDRS = Path("spec", "podCIDRs")


def create(node: Obj, ctx: Context) -> Errors:
    """Check a node (upstream: `ValidateNode`)."""
    spec = node["spec"]
    errors = scheduling.taints(spec.get("taints"), _TAINTS) + _amounts(node, ctx)
    errors += _swap(node) + _declared_features(node)
    return errors + _pod_cidrs(spec.get("podCIDRs") or [], ctx)


def _swap(node: Obj) -> Errors:
    capacity = nested_field(node, "status", "nodeInfo", "swap", "capacity")
    if capacity is None or capacity > 0:
        return []
    return [invalid(Path("metadata", "nodeSwapStatus", "capacity"), capacity, "must be greater than zero")]


def _declared_features(node: Obj) -> Errors:
    """Check the features that a node declares: names in order (upstream: `validateNodeDeclaredFeatures`)."""
    names, path = nested_field(node, "status", "declaredFeatures", default=()), Path("status", "declaredFeatures")
    errors: Errors = []
    for i, name in enumerate(names):
        if i and name == names[i - 1]:
            errors.append(duplicate(path.index(i), name))
        elif i and name < names[i - 1]:
            errors.append(invalid(path.index(i), name, "list must be sorted alphabetically"))
        if size(name) > SUBDOMAIN_LENGTH:
            text = f"must be no more than {SUBDOMAIN_LENGTH} characters"
        elif not _FEATURE.fullmatch(name):
            text = _FEATURE_TEXT
        else:
            continue
        errors.append(invalid(path.index(i), name, f"invalid feature name {go_quote(name)}: {text}"))
    return errors


_FEATURE = regex(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*", re.ASCII)
_FEATURE_TEXT = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' "
    "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)


def _amounts(node: Obj, ctx: Context) -> Errors:
    status = node.get("status") or {}
    return [
        error
        for kind in ("capacity", "allocatable")
        for name, text in (status.get(kind) or {}).items()
        for error in resources.amount(name, text, Path("status", kind, name))
    ]


def _pod_cidrs(cidrs: list[str], ctx: Context) -> Errors:
    rule = AddressRules(ctx).cidr_rule()
    errors = [error for i, value in enumerate(cidrs) for error in rule(value, _CIDRS.index(i))]
    if len(cidrs) > 1:
        networks = [parse_cidr(value) for value in cidrs]
        if None in networks:
            wrong = networks.index(None)
            text = f"invalid CIDR[{wrong}]: <nil> (invalid CIDR address: {cidrs[wrong]})"
            errors.append(internal(_CIDRS, f"invalid PodCIDRs. failed to check with dual stack with error:{text}"))
        families = {network.version if network else 0 for network in networks}
        if len(cidrs) > 2 or 0 in families or len(families) < 2:
            bad_value = Typed(cidrs, "[]string")
            errors.append(invalid(_CIDRS, bad_value, "may specify no more than one CIDR for each IP family"))
        if ctx.release < V1_33:
            errors += [duplicate(_CIDRS.index(i), value) for i, value in enumerate(cidrs) if value in cidrs[:i]]
    return errors


def changed(node: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed node or status: what identifies the node stays (upstream: `ValidateNodeUpdate`)."""
    spec, before = node["spec"], old["spec"]
    errors = _amounts(node, ctx) + _declared_features(node)
    seen: list[Obj] = []
    for i, address in enumerate((node.get("status") or {}).get("addresses") or ()):
        if address in seen:
            bad_value = Typed(address, "k8s.io/kubernetes/pkg/apis/core.NodeAddress")
            errors.append(duplicate(Path("status", "addresses").index(i), bad_value))
        seen.append(address)
    errors += _fixed_cidrs(spec.get("podCIDRs") or [], before.get("podCIDRs") or [])
    if before.get("providerID") and before["providerID"] != spec.get("providerID", ""):
        text = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden(Path("spec", "providerID"), text))
    errors += scheduling.taints(spec.get("taints"), _TAINTS)
    if spec.get("externalID", "") != before.get("externalID", ""):
        errors.append(forbidden(Path("spec", "externalID"), "may not be updated"))
    return errors


def _fixed_cidrs(cidrs: list[str], before: list[str]) -> Errors:
    error = forbidden(_CIDRS, 'node updates may not change podCIDR except from "" to valid')
    if not before:
        return []
    if len(cidrs) != len(before):
        return [error]
    return [error for now, then in zip(cidrs, before, strict=True) if now != then]


def warn(node: Obj, ctx: Context) -> None:
    """Warn of what is deprecated in a node."""
    if node["spec"].get("configSource") is not None:
        ctx.warn("spec.configSource: the feature is removed")
    if node["spec"].get("externalID"):
        ctx.warn("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    for i, value in enumerate(node["spec"].get("podCIDRs") or ()):
        warn_of_cidr(value, _CIDRS.index(i), ctx)
