"""An AdmissionConfiguration: the file of `--admission-control-config-file`, with the configurations of plugins.

Upstream: `ReadAdmissionConfiguration` of k8s.io/apiserver/pkg/admission.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from understudy.machinery.golang.text import go_quote, path_error
from understudy.machinery.golang.yaml_reader import to_json
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, ByRelease, Version
from understudy.machinery.serializer.configuration import (
    RAW,
    TYPE_META,
    ConfigurationTypes,
    UnnamedKindError,
    decode_named,
    raw_bytes,
)
from understudy.machinery.serializer.json import DecodeError
from understudy.machinery.typeinfo.go_types import Struct
from understudy.machinery.typeinfo.scheme import scheme_name
from understudy.machinery.types import GroupVersionKind, Obj

_PACKAGE = "k8s.io/apiserver/pkg/apis/apiserver"
_TYPES = ConfigurationTypes(
    {
        "apiserver.config.k8s.io/v1/AdmissionConfiguration": f"{_PACKAGE}/v1.AdmissionConfiguration",
        "apiserver.k8s.io/v1alpha1/AdmissionConfiguration": f"{_PACKAGE}/v1alpha1.AdmissionConfiguration",
    },
    {
        f"{_PACKAGE}/{version}.{name}": fields
        for version in ("v1", "v1alpha1")
        for name, fields in {
            "AdmissionConfiguration": [
                TYPE_META,
                ["Plugins", "plugins", "", f"[]{_PACKAGE}/{version}.AdmissionPluginConfiguration", 0],
            ],
            "AdmissionPluginConfiguration": [
                ["Name", "name", "", "string", 0],
                ["Path", "path", "", "string", 0],
                ["Configuration", "configuration", "", f"*{RAW}", 0],
            ],
        }.items()
    },
)
_IS_STRICT = ByRelease({V1_32: True, V1_31: False})
# Other kinds of files that the same reader knows: given here by mistake.
_OTHER_FILES = ByRelease(
    {
        V1_34: ("AuthenticationConfiguration", "AuthorizationConfiguration", "EncryptionConfiguration"),
        V1_31: ("EncryptionConfiguration",),
    }
)
# Plugins for which the file itself may be the configuration, as it was before files had kinds; and the field in it.
_LEGACY = {"ImagePolicyWebhook": "imagePolicy", "PodNodeSelector": "podNodeSelectorPluginConfig"}


class AdmissionConfiguration:
    """The configurations of admission plugins. The first one of a plugin counts."""

    def __init__(self, plugins: list[Obj], folder: Path) -> None:
        self._plugins = plugins
        self._folder = folder

    def of(self, plugin: str) -> bytes | None:
        """Return the configuration of a plugin (`ConfigFor`), None without one. Raises ValueError for a file that
        cannot be read."""
        for configuration in self._plugins:
            if configuration.get("name", "") != plugin:
                continue
            if configuration.get("configuration") is not None:
                return raw_bytes(configuration["configuration"])
            if path := configuration.get("path"):
                return self._read(self._folder / path)
            return None
        return None

    @staticmethod
    def _read(path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise ValueError(f"Couldn't open admission plugin configuration: {path_error(error, path)}") from None


def read_configuration(path: Path, version: Version) -> AdmissionConfiguration:
    """Return the configuration in a file. Raises ValueError with the text of a release."""
    try:
        data = path.read_bytes()
    except OSError as error:
        text = f"unable to read admission control configuration from {go_quote(str(path))} [{path_error(error, path)}]"
        raise ValueError(f"failed to read plugin config: {text}") from None
    try:
        return AdmissionConfiguration(_plugins(data, path, version), path.absolute().parent)
    except DecodeError as error:
        raise ValueError(f"failed to read plugin config: {error}") from None


def _plugins(data: bytes, path: Path, version: Version) -> list[Obj]:
    """Return the members of `plugins`. Raises DecodeError."""

    def find(kind: GroupVersionKind) -> Struct | None:
        if kind.api_version == "apiserver.config.k8s.io/v1" and kind.kind in _OTHER_FILES[version]:
            raise DecodeError(f"unexpected type: *apiserver.{kind.kind}")
        return _TYPES.find(kind)

    try:
        _, obj = decode_named(data, find, scheme_name(version, "admission"), strict=_IS_STRICT[version])
    except UnnamedKindError:
        if legacy := _legacy_plugins(data, path):
            return legacy
        raise
    return list(obj.get("plugins") or ())


def _legacy_plugins(data: bytes, path: Path) -> list[Obj]:
    """Return the plugins whose configuration the file itself is, none for another file."""
    try:
        fields = orjson.loads(to_json(data)[0])
    except DecodeError:
        return []
    is_legacy = isinstance(fields, dict) and any(field in fields for field in _LEGACY.values())
    return [{"name": plugin, "path": str(path.absolute())} for plugin in _LEGACY] if is_legacy else []
