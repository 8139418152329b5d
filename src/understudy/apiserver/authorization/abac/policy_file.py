"""Reads the file of `--authorization-policy-file`: a policy in JSON a line. Upstream: `abac.NewFromFile`."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from understudy.apiserver.authorization.abac.authorizer import ANY, Policy
from understudy.machinery.auth.users import AUTHENTICATED
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.serializer.json import parse_json, read_type_meta
from understudy.machinery.typeinfo.scheme import gvk_with_defaults, not_registered
from understudy.machinery.types import GroupVersionKind, Obj

log = logging.getLogger("understudy")
SCHEME = "k8s.io/kubernetes/pkg/apis/abac/register.go:33"  # in every release
UNVERSIONED = GroupVersionKind("abac.authorization.kubernetes.io", "v0", "Policy")
VERSIONED = UNVERSIONED._replace(version="v1beta1")
_SUBJECT = {"user": str, "group": str, "readonly": bool, "resource": str, "namespace": str}
_SPEC = {**_SUBJECT, "apiGroup": str, "nonResourcePath": str}
_GO = {str: "string", bool: "bool"}


def read_policies(path: Path) -> list[Policy]:
    """Return the policies of a file. Raises ValueError with the text of kube-apiserver, OSError."""
    policies, old = [], 0
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        text = line.decode("utf-8", "replace").removesuffix("\r")
        if not text.strip() or text.strip().startswith("#"):
            continue
        try:
            kind, policy = _decoded(line)
        except DecodeError as error:
            raise ValueError(f"error reading policy file {path}, line {number}: {text}: {error}") from None
        old += kind == UNVERSIONED
        policies.append(_of_v0(policy) if kind == UNVERSIONED else _of_v1beta1(policy.get("spec") or {}))
    if old:
        log.warning("Policy file %s contained unversioned rules: each is for all API groups", path)
    return policies


def _decoded(line: bytes) -> tuple[GroupVersionKind, Obj]:
    """Return the kind of a line, v0 if it names none, and its object. Raises DecodeError."""
    parsed = parse_json(line)
    api_version, kind = read_type_meta(parsed)
    gvk = gvk_with_defaults(api_version, kind, UNVERSIONED)
    if gvk not in (UNVERSIONED, VERSIONED):
        raise not_registered(gvk, SCHEME)
    if gvk == VERSIONED and not kind:
        raise DecodeError("converting (v1beta1.Policy) to (v0.Policy): unknown conversion")
    obj: Obj = json.loads(line)
    if gvk == UNVERSIONED:
        _check(obj, _SUBJECT, "Policy.")
        return gvk, obj
    spec = obj.get("spec")
    if not isinstance(spec, dict | None):
        found_type = _json_type(spec)
        raise DecodeError(
            f"json: cannot unmarshal {found_type} into Go struct field Policy.spec of type v1beta1.PolicySpec"
        )
    _check(spec or {}, _SPEC, "PolicySpec.spec.")
    return gvk, obj


def _check(values: Obj, fields: Mapping[str, type], where: str) -> None:
    """Raise DecodeError, with Go's text, for the first value of a wrong type. Other fields are ignored."""
    for name, value in values.items():
        expected = fields.get(name)
        if expected is not None and not isinstance(value, expected | None):
            type_ = _json_type(value)
            text = f"json: cannot unmarshal {type_} into Go struct field {where}{name} of type {_GO[expected]}"
            raise DecodeError(text)


def _json_type(value: object) -> str:
    """Return the name that Go gives the type of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    names = {str: "string", list: "array", dict: "object"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "number")


def _of_v1beta1(spec: Obj) -> Policy:
    """Return the policy of a spec; a star for users or groups is everybody who is known."""
    user, group = spec.get("user") or "", spec.get("group") or ""
    if ANY in (user, group):
        user, group = "", AUTHENTICATED
    readonly = bool(spec.get("readonly"))
    others = (spec.get(name) or "" for name in ("resource", "apiGroup", "namespace", "nonResourcePath"))
    return Policy(user, group, readonly, *others)


def _of_v0(old: Obj) -> Policy:
    """Return the policy of a line without a version, in which what is empty matches everything."""
    user, group = old.get("user") or "", old.get("group") or ""
    if ANY in (user, group) or not (user or group):
        user, group = "", AUTHENTICATED
    resource, namespace = old.get("resource") or "", old.get("namespace") or ""
    path = "" if resource or namespace else ANY
    return Policy(user, group, bool(old.get("readonly")), resource or ANY, ANY, namespace or ANY, path)
