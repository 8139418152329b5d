"""Validation of network policies."""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.admission.validation import label_selectors
from understudy.admission.validation.formats import (
    choice,
    cidr,
    indexed,
    invalid_texts,
    parse_cidr,
    port_name_texts,
    port_number_texts,
)
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, required

_SPEC = Path("spec")
_PROTOCOLS, _TYPES = ("TCP", "UDP", "SCTP"), ("Ingress", "Egress")


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a NetworkPolicy (upstream: `ValidateNetworkPolicy`)."""
    spec = obj.get("spec") or {}
    errors = label_selectors.validate(spec.get("podSelector"), _SPEC.child("podSelector"))
    for kind, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(spec.get(kind) or ()):
            where = _SPEC.child(kind).index(i)
            errors += indexed(rule.get("ports"), where.child("ports"), _port)
            errors += indexed(rule.get(peers), where.child(peers), _peer)
    types, where = spec.get("policyTypes") or [], _SPEC.child("policyTypes")
    if len(types) > len(_TYPES):
        bad_value = Typed(types, "[]k8s.io/kubernetes/pkg/apis/networking.PolicyType")
        return [*errors, invalid(where, bad_value, "may not specify more than two policyTypes")]
    return errors + indexed(types, where, lambda value, path: choice(value, _TYPES, path))


def _port(entry: Obj, path: Path) -> Errors:
    protocol, port, end = (entry.get(name) for name in ("protocol", "port", "endPort"))
    where, where_end = path.child("port"), path.child("endPort")
    errors = [] if protocol is None else choice(protocol, _PROTOCOLS, path.child("protocol"))
    if isinstance(port, int):
        errors += invalid_texts(port_number_texts(port), port, where)
        if end is not None and end < port:
            errors.append(invalid(where_end, port, "must be greater than or equal to `port`"))
        return errors + ([] if end is None else invalid_texts(port_number_texts(end), end, where_end))
    if end is not None:
        why = "specified" if port is None else "non-numeric"
        text = f"may not be specified when `port` is {'not ' if port is None else ''}{why}"
        errors.append(invalid(where_end, end, text))
    return errors + ([] if port is None else invalid_texts(port_name_texts(port), port, where))


def _peer(peer: Obj, path: Path) -> Errors:
    errors: Errors = []
    for name in ("podSelector", "namespaceSelector"):
        errors += label_selectors.validate(peer.get(name), path.child(name))
    block = peer.get("ipBlock")
    if block is not None:
        errors += _block(block, path.child("ipBlock"))
    others = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    if block is None and not others:
        errors.append(required(path, "must specify a peer"))
    elif block is not None and others:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return errors


def _block(block: Obj, path: Path) -> Errors:
    value, where = block.get("cidr", ""), path.child("cidr")
    if not value:
        return [required(where)]
    errors, whole = cidr(value, where), parse_cidr(value)
    if whole is None:
        return errors
    for i, excepted in enumerate(block.get("except") or ()):
        here, part = path.child("except").index(i), parse_cidr(excepted)
        errors += cidr(excepted, here)
        if part is None:
            continue
        inside = part.network_address in whole and part.prefixlen > whole.prefixlen
        if not inside:
            errors.append(invalid(here, excepted, "must be a strict subset of `cidr`"))
    return errors
