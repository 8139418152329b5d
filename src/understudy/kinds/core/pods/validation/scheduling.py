"""Validation of what places pods: affinity, tolerations and taints, topology spread, gates.

https://kubernetes.io/docs/concepts/scheduling-eviction/
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from understudy.kinds.common import label_selectors
from understudy.kinds.common.formats import choice, invalid_texts, qualified
from understudy.kinds.core import nodeselector
from understudy.kinds.core.pods.pod_options import Options
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_32, V1_35, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import LabelText, Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, forbidden, invalid, not_supported, required
from understudy.machinery.validation.names import label_name, label_value_texts, subdomain_name

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_WEIGHT = "must be in the range 1-100"
_POSITIVE = "must be greater than zero"
_NO_SELECTOR = "must not be specified when labelSelector is not set"
_IN_SELECTOR = "exists in both matchLabelKeys and labelSelector"


def affinity(affinity_spec: Obj | None, path: Path, opts: Options) -> Errors:
    """Check an Affinity (upstream: `validateAffinity`)."""
    affinity_spec = affinity_spec or {}
    errors: Errors = []
    if affinity_spec.get("nodeAffinity") is not None:
        errors += _node_affinity(affinity_spec["nodeAffinity"], path.child("nodeAffinity"), opts)
    for name in ("podAffinity", "podAntiAffinity"):
        if affinity_spec.get(name) is not None:
            errors += _pod_affinity(affinity_spec[name], path.child(name))
    return errors


def _node_affinity(rules: Obj, path: Path, opts: Options) -> Errors:
    errors: Errors = []
    if rules.get(_REQUIRED) is not None:
        any_values = opts.any_affinity_values
        errors += nodeselector.validate(rules[_REQUIRED], path.child(_REQUIRED), any_values=any_values)
    for i, term in enumerate(rules.get(_PREFERRED) or ()):
        here = path.child(_PREFERRED).index(i)
        errors += _weight(term, here)
        errors += nodeselector.validate_term(term.get("preference") or {}, here.child("preference"), True)
    return errors


def _weight(term: Obj, path: Path) -> Errors:
    weight = term.get("weight", 0)
    return [] if 0 < weight <= 100 else [invalid(path.child("weight"), weight, _WEIGHT)]


def _pod_affinity(rules: Obj, path: Path) -> Errors:
    errors: Errors = []
    for i, term in enumerate(rules.get(_REQUIRED) or ()):
        errors += _pod_term(term, path.child(_REQUIRED).index(i))
    for i, weighted in enumerate(rules.get(_PREFERRED) or ()):
        here = path.child(_PREFERRED).index(i)
        errors += _weight(weighted, here)
        errors += _pod_term(weighted.get("podAffinityTerm") or {}, here.child("podAffinityTerm"))
    return errors


def _pod_term(term: Obj, path: Path) -> Errors:
    key = term.get("topologyKey", "")
    errors = label_selectors.validate(term.get("labelSelector"), path.child("labelSelector"))
    errors += label_selectors.validate(term.get("namespaceSelector"), path.child("namespaceSelector"))
    for name in term.get("namespaces") or ():
        errors += invalid_texts(label_name(name, False), name, path.child("namespace"))
    errors += _label_keys(term, path)
    if not key:
        errors.append(required(path.child("topologyKey"), "can not be empty"))
    return errors + qualified(key, path.child("topologyKey"))


def _label_keys(term: Obj, path: Path) -> Errors:
    selector = term.get("labelSelector")
    errors: Errors = []
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        keys, here = term.get(name) or [], path.child(name)
        if keys and selector is None:
            errors.append(forbidden(here, _NO_SELECTOR))
        elif keys:
            errors += [error for i, key in enumerate(keys) for error in qualified(key, here.index(i))]
    matched, mismatched = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    known = set((selector or {}).get("matchLabels") or ())
    for item in (selector or {}).get("matchExpressions") or ():
        key = item.get("key", "")
        if key in matched and key in known:
            errors.append(invalid(path.index(_last(matched, key)), key, _IN_SELECTOR))
        known.add(key)
    text = "exists in both matchLabelKeys and mismatchLabelKeys"
    both = [(i, key) for i, key in enumerate(matched) if key in mismatched]
    return errors + [invalid(path.child("matchLabelKeys").index(i), key, text) for i, key in both]


def _last(keys: list[str], key: str) -> int:
    return len(keys) - 1 - keys[::-1].index(key)


def tolerations(items: Sequence[Obj] | None, path: Path, version: Version, *, comparing: bool = False) -> Errors:
    """Check tolerations (upstream: `ValidateTolerations`). `comparing` allows those that compare numbers."""
    errors: Errors = []
    for i, toleration in enumerate(items or ()):
        here = path.index(i)
        key, operator, effect = (toleration.get(name, "") for name in ("key", "operator", "effect"))
        if key:
            errors += qualified(key, here.child("key"))
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(here.child("operator"), operator, text))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(here.child("effect"), effect, text))
        errors += _toleration_value(toleration, here, version, comparing)
        if effect:
            errors += choice(effect, EFFECTS, here.child("effect"))
    return errors


def _toleration_value(toleration: Obj, here: Path, version: Version, comparing: bool) -> Errors:
    operator, value, path = toleration.get("operator", ""), toleration.get("value", ""), here.child("operator")
    if operator in ("Equal", ""):
        texts = label_value_texts(value)
        return [invalid(path, value, _joined(texts))] if texts else []
    if operator == "Exists":
        # 1.31 shows all of the toleration.
        whole = version < V1_32 and Typed(toleration, "k8s.io/kubernetes/pkg/apis/core.Toleration")
        return [invalid(path, whole or value, "value must be empty when `operator` is 'Exists'")] if value else []
    if operator in ("Lt", "Gt") and comparing:
        return _number(value, here.child("value"))
    if operator in ("Lt", "Gt") and version >= V1_35:
        return [not_supported(path, operator, ("Equal", "Exists", "Lt", "Gt"))]
    return choice(operator, ("Equal", "Exists"), path)


_NOT_DECIMAL = "must be a valid decimal integer in canonical form"
_MAX_DIGITS = 4000  # of the texts that Python converts to integers


def _number(value: str, path: Path) -> Errors:
    """Check a value that tolerations compare: an integer of 64 bits in decimal form."""
    decimal = re.fullmatch(r"0|-?[1-9][0-9]*", value, re.ASCII)
    texts = [] if decimal else [_NOT_DECIMAL if value else "must be non-empty"]
    if not re.fullmatch(r"[+-]?[0-9]+", value):
        texts.append(f"strconv.ParseInt: parsing {go_quote(value)}: invalid syntax")
    elif len(value) > _MAX_DIGITS or not -(2**63) <= int(value) < 2**63:
        texts.append(f"strconv.ParseInt: parsing {go_quote(value)}: value out of range")
    return invalid_texts(texts, value, path)


def _joined(texts: Sequence[str]) -> LabelText:
    """Return the texts about the value of a label as one."""
    return LabelText(";".join(texts), ";".join(text.newer if isinstance(text, LabelText) else text for text in texts))


def taints(items: Sequence[Obj] | None, path: Path) -> Errors:
    """Check the taints of a node: each key once for every effect (upstream: `validateNodeTaints`)."""
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(items or ()):
        here, key, value, effect = path.index(i), taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += qualified(key, here.child("key"))
        texts = label_value_texts(value)
        if texts:
            errors.append(invalid(here.child("value"), value, _joined(texts)))
        errors += choice(effect, EFFECTS, here.child("effect"), needed=True)
        if (key, effect) in seen:
            error = duplicate(here, Typed(taint, "k8s.io/kubernetes/pkg/apis/core.Taint"))
            errors.append(replace(error, detail="taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return errors


def spread(constraints: Sequence[Obj] | None, path: Path, opts: Options) -> Errors:
    """Check `topologySpreadConstraints` (upstream: `validateTopologySpreadConstraints`)."""
    items = constraints or ()
    errors: Errors = []
    spread_keys = _rule_of_keys(opts) if items else _spread_keys
    for i, item in enumerate(items):
        here, skew, key = path.index(i), item.get("maxSkew", 0), item.get("topologyKey", "")
        action = item.get("whenUnsatisfiable", "")
        if skew <= 0:
            errors.append(invalid(here.child("maxSkew"), skew, _POSITIVE))
        if not key:
            errors.append(required(here.child("topologyKey"), "can not be empty"))
        errors += choice(action, ("DoNotSchedule", "ScheduleAnyway"), here.child("whenUnsatisfiable"))
        if any((o.get("topologyKey", ""), o.get("whenUnsatisfiable", "")) == (key, action) for o in items[i + 1 :]):
            errors.append(duplicate(here.child("{topologyKey, whenUnsatisfiable}"), f"{{{key}, {action}}}"))
        errors += _domains(item.get("minDomains"), action, here.child("minDomains"))
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if item.get(name) is not None:
                errors += choice(item[name], ("Honor", "Ignore"), here.child(name))
        errors += spread_keys(item, here)
        errors += label_selectors.validate(item.get("labelSelector"), here.child("labelSelector"))
    return errors


def _domains(least: int | None, action: str, path: Path) -> Errors:
    if least is None:
        return []
    errors = [invalid(path, least, _POSITIVE)] if least <= 0 else []
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, least, text))
    return errors


def _rule_of_keys(opts: Options) -> Callable[[Obj, Path], Errors]:
    """Return the check of matchLabelKeys: from 1.34 on that of affinity, since the keys become part of the selector.

    A stored pod that does not meet it is checked by the other rule, so that it can be updated.
    """
    merged = opts.gates[features.MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD_SELECTOR_MERGE]
    preferred, other = (_label_keys, _spread_keys) if merged else (_spread_keys, _label_keys)
    if not opts.gates[features.MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD]:
        return _spread_keys
    stored = opts.old.get("topologySpreadConstraints") or ()
    return other if any(preferred(item, Path()) for item in stored) else preferred


def _spread_keys(item: Obj, path: Path) -> Errors:
    keys, selector, path = item.get("matchLabelKeys") or [], item.get("labelSelector"), path.child("matchLabelKeys")
    if not keys:
        return []
    errors: Errors = [] if selector is not None else [forbidden(path, _NO_SELECTOR)]
    known = {*((selector or {}).get("matchLabels") or ())}
    known |= {e.get("key", "") for e in (selector or {}).get("matchExpressions") or ()}
    for i, key in enumerate(keys):
        errors += qualified(key, path.index(i))
        if key in known:
            errors.append(invalid(path.index(i), key, _IN_SELECTOR))
    return errors


def workload(spec: Obj, path: Path) -> Errors:
    """Check which group of pods, or which workload, a pod is scheduled with (upstream: `validateSchedulingGroup`)."""
    group, reference, errors = spec.get("schedulingGroup"), spec.get("workloadRef"), []
    if group is not None:
        name, here = group.get("podGroupName"), path.child("schedulingGroup", "podGroupName")
        if name is None:
            errors.append(invalid(here, None, "must specify one of: `podGroupName`"))
        else:
            errors += invalid_texts(subdomain_name(name, False), name, here)
        if spec.get("evictionResponders"):
            errors.append(forbidden(path.child("schedulingGroup"), "may not be set when evictionResponders is set"))
    if reference is not None:
        rules = {"name": subdomain_name, "podGroup": label_name, "podGroupReplicaKey": label_name}
        for field, rule in rules.items():
            name = reference.get(field, "")
            if name or field != "podGroupReplicaKey":
                errors += invalid_texts(rule(name, False), name, path.child("workloadRef", field))
    return errors


def gates(items: Sequence[Obj] | None, path: Path) -> Errors:
    """Check `schedulingGates` (upstream: `validateSchedulingGates`)."""
    errors: Errors = []
    seen: set[Any] = set()
    for i, gate in enumerate(items or ()):
        name = gate.get("name", "")
        errors += qualified(name, path.index(i))
        if name in seen:
            errors.append(duplicate(path.index(i), name))
        seen.add(name)
    return errors
