"""Validation of network policies."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.kinds.common import label_selectors
from understudy.kinds.common.address_warnings import warn_of_cidr
from understudy.kinds.common.formats import choice, cidr, indexed, invalid_texts, port_name_texts, port_number_texts
from understudy.kinds.context import Context
from understudy.machinery.golang.netip import parse_cidr
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33, V1_37, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, required

_SPEC = Path("spec")
_PROTOCOLS, _TYPES = ("TCP", "UDP", "SCTP"), ("Ingress", "Egress")


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a NetworkPolicy (upstream: `ValidateNetworkPolicy`)."""
    return update(obj, {}, ctx)


def update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a NetworkPolicy, whose networks may stay as they are stored since 1.33."""
    spec = obj.get("spec") or {}
    stored = [text for _, text in _networks(old)] if ctx.release >= V1_33 else []
    strict = ctx.gates[features.STRICT_IP_CIDR_VALIDATION]
    errors = label_selectors.validate(spec.get("podSelector"), _SPEC.child("podSelector"))
    for kind, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(spec.get(kind) or ()):
            where = _SPEC.child(kind).index(i)
            errors += indexed(
                rule.get("ports"), where.child("ports"), lambda port, path: _port(port, path, ctx.release)
            )
            errors += indexed(rule.get(peers), where.child(peers), lambda peer, path: _peer(peer, path, strict, stored))
    types, where = spec.get("policyTypes") or [], _SPEC.child("policyTypes")
    if len(types) > len(_TYPES):
        bad_value = Typed(types, "[]k8s.io/kubernetes/pkg/apis/networking.PolicyType")
        return [*errors, invalid(where, bad_value, "may not specify more than two policyTypes")]
    return errors + indexed(types, where, lambda value, path: choice(value, _TYPES, path))


def _networks(policy: Obj) -> Iterator[tuple[Path, str]]:
    """Yield every network of a policy with its path."""
    for kind, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate((policy.get("spec") or {}).get(kind) or ()):
            for j, peer in enumerate(rule.get(peers) or ()):
                block, path = (
                    peer.get("ipBlock") or {},
                    _SPEC.child(kind).index(i).child(peers).index(j).child("ipBlock"),
                )
                if "cidr" in block:
                    yield path.child("cidr"), block["cidr"]
                for k, excepted in enumerate(block.get("except") or ()):
                    yield path.child("except").index(k), excepted


def warn(obj: Obj, ctx: Context) -> None:
    """Warn of networks that are not in canonical form (upstream: `networkPolicyWarnings`)."""
    for path, text in _networks(obj):
        warn_of_cidr(text, path, ctx)


def _port(entry: Obj, path: Path, version: Version) -> Errors:
    protocol, port, end = (entry.get(name) for name in ("protocol", "port", "endPort"))
    where, where_end = path.child("port"), path.child("endPort")
    errors = [] if protocol is None else choice(protocol, _PROTOCOLS, path.child("protocol"))
    if isinstance(port, int):
        errors += invalid_texts(port_number_texts(port), port, where)
        if end is not None and end < port:
            errors.append(
                invalid(where_end, end if version >= V1_37 else port, "must be greater than or equal to `port`")
            )
        return errors + ([] if end is None else invalid_texts(port_number_texts(end), end, where_end))
    if end is not None:
        why = "specified" if port is None else "non-numeric"
        text = f"may not be specified when `port` is {'not ' if port is None else ''}{why}"
        errors.append(invalid(where_end, end, text))
    return errors + ([] if port is None else invalid_texts(port_name_texts(port), port, where))


def _peer(peer: Obj, path: Path, strict: bool, stored: list[str]) -> Errors:
    errors: Errors = []
    for name in ("podSelector", "namespaceSelector"):
        errors += label_selectors.validate(peer.get(name), path.child(name))
    block = peer.get("ipBlock")
    if block is not None:
        errors += _block(block, path.child("ipBlock"), strict, stored)
    others = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    if block is None and not others:
        errors.append(required(path, "must specify a peer"))
    elif block is not None and others:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return errors


def _block(block: Obj, path: Path, strict: bool, stored: list[str]) -> Errors:
    value, where = block.get("cidr", ""), path.child("cidr")
    if not value:
        return [required(where)]
    errors, whole = cidr(value, where, strict=strict, stored=stored), parse_cidr(value)
    if whole is None:
        return errors
    for i, excepted in enumerate(block.get("except") or ()):
        here, part = path.child("except").index(i), parse_cidr(excepted)
        errors += cidr(excepted, here, strict=strict, stored=stored)
        if part is None:
            continue
        inside = part.network_address in whole and part.prefixlen > whole.prefixlen
        if not inside:
            errors.append(invalid(here, excepted, "must be a strict subset of `cidr`"))
    return errors
