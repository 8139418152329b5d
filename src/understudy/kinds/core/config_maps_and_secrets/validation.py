"""Validation of config maps and secrets."""

from __future__ import annotations

import base64
import binascii

from understudy.kinds.common.formats import config_key_texts, invalid_texts
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.machinery.golang.json_reader import DecodeError, parse, to_text
from understudy.machinery.golang.json_scalars import python_value
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, required, too_long
from understudy.machinery.validation.names import size

MAX_SIZE = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"
_ACCOUNT = "kubernetes.io/service-account.name"
_REDACTED = "<secret contents redacted>"

# {type of a secret: keys that its data must have}
_NEEDED = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _keys(data: dict[str, str] | None, path: Path) -> Errors:
    return [error for key in data or () for error in invalid_texts(config_key_texts(key), key, path.key(key))]


def _bytes(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "")
    except binascii.Error:
        return b""


def config_map(obj: Obj, ctx: Context) -> Errors:
    """Check a config map (upstream: `ValidateConfigMap`)."""
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    path = Path("data")
    errors: Errors = []
    for key in data:
        errors += invalid_texts(config_key_texts(key), key, path.key(key))
        if key in binary:
            errors.append(invalid(path.key(key), key, "duplicate of key present in binaryData"))
    errors += _keys(binary, Path("binaryData"))
    if sum(map(size, data.values())) + sum(len(_bytes(text)) for text in binary.values()) > MAX_SIZE:
        errors.append(too_long(Path().key(""), MAX_SIZE, in_bytes=True))
    return errors


def _frozen(obj: Obj, old: Obj, *names: str) -> Errors:
    if not old.get("immutable"):
        return []
    errors = [] if obj.get("immutable") else [forbidden(Path("immutable"), _FROZEN)]
    return errors + [forbidden(Path(n), _FROZEN) for n in names if (obj.get(n) or {}) != (old.get(n) or {})]


def config_map_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that an immutable config map stays as it is."""
    return _frozen(obj, old, "data", "binaryData")


def secret(obj: Obj, ctx: Context) -> Errors:
    """Check a secret (upstream: `ValidateSecret`)."""
    data, kind, path = obj.get("data") or {}, obj.get("type", ""), Path("data")
    errors = _keys(data, path)
    if sum(len(_bytes(text)) for text in data.values()) > MAX_SIZE:
        errors.append(too_long(path, MAX_SIZE, in_bytes=True))
    errors += [required(path.key(key)) for key in _NEEDED.get(kind, ()) if key not in data]
    if kind == "kubernetes.io/service-account-token":
        if not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT):
            errors.append(required(Path("metadata", "annotations").key(_ACCOUNT)))
    elif kind == "kubernetes.io/basic-auth":
        if data.keys().isdisjoint(("username", "password")):
            errors += [required(path.key(key)) for key in ("username", "password")]
    elif kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        errors.append(required(path.key("ssh-privatekey")))
    elif kind.startswith("kubernetes.io/docker"):
        errors += [error for key in _NEEDED.get(kind, ()) if key in data for error in _json(data[key], path.key(key))]
    return errors


def _json(text: str, path: Path) -> Errors:
    """Check that the credentials of a registry are a JSON object."""
    try:
        value = python_value(parse(to_text(_bytes(text))))
    except DecodeError as error:
        return [invalid(path, _REDACTED, str(error))]
    if isinstance(value, dict) or value is None:
        return []
    kind = {str: "string", bool: "bool", list: "array"}.get(type(value), "number")
    return [invalid(path, _REDACTED, f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")]


def secret_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a secret keeps its type and, if it is immutable, its data."""
    errors: Errors = []
    if obj.get("type", "") != old.get("type", ""):
        errors.append(invalid(Path("type"), obj.get("type", ""), IMMUTABLE))
    return errors + _frozen(obj, old, "data")


def warn_secret(obj: Obj, ctx: Context) -> None:
    """Warn of a certificate and key that cannot be parsed."""
    if obj.get("type") != "kubernetes.io/tls":
        return
    data = obj.get("data") or {}
    for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN" not in _bytes(data.get(key)):
            ctx.warn(f"tls: failed to find any PEM data in {what} input")
            return
