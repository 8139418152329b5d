"""The configurations of single plugins: the folder in which the manifests of their webhooks or policies are, and the
file of the users as whom webhooks are called.

Upstream: `LoadConfig` of k8s.io/apiserver/pkg/admission/plugin/webhook/config, `LoadValidatingConfig` and
`LoadMutatingConfig` of plugin/policy/config, and `ValidateStaticManifestsDir` of plugin/manifest.
"""

from __future__ import annotations

import os
from stat import S_ISDIR

from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_36, Version
from understudy.machinery.serializer.configuration import TYPE_META, ConfigurationTypes, decode_named
from understudy.machinery.serializer.json import DecodeError
from understudy.machinery.typeinfo.scheme import scheme_name
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.validation.field import FieldError, forbidden, invalid
from understudy.machinery.validation.field import Path as FieldPath

MUTATING_POLICY, VALIDATING_POLICY = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"
MUTATING_WEBHOOK, VALIDATING_WEBHOOK = "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"
POLICIES = frozenset((MUTATING_POLICY, VALIDATING_POLICY))

_GROUP = "apiserver.config.k8s.io/v1"
_PACKAGE = "k8s.io/apiserver/pkg/admission/plugin"
_WEBHOOK_PACKAGE = f"{_PACKAGE}/webhook/config/apis/webhookadmission/v1"
_POLICY_PACKAGE = f"{_PACKAGE}/policy/config/apis/policyconfig/v1"
_FOLDER = ["StaticManifestsDir", "staticManifestsDir", "o", "string", 0]
_WEBHOOKS = ConfigurationTypes(
    {f"{_GROUP}/WebhookAdmissionConfiguration": f"{_WEBHOOK_PACKAGE}.WebhookAdmission"},
    {
        f"{_WEBHOOK_PACKAGE}.WebhookAdmission": [
            TYPE_META,
            ["KubeConfigFile", "kubeConfigFile", "", "string", 0],
            _FOLDER,
        ]
    },
)
_POLICIES = ConfigurationTypes(
    {f"{_GROUP}/{plugin}Configuration": f"{_POLICY_PACKAGE}.{plugin}Configuration" for plugin in POLICIES},
    {f"{_POLICY_PACKAGE}.{plugin}Configuration": [TYPE_META, _FOLDER] for plugin in POLICIES},
)


class NamedFiles(NamedTuple):
    """The files that the configuration of a plugin names, each "" for none.

    folder      with its manifests
    kubeconfig  with the users as whom webhooks are called
    """

    folder: str = ""
    kubeconfig: str = ""


def named_files(plugin: str, data: bytes, version: Version, gates: Gates) -> NamedFiles:
    """Return the files that the configuration of a plugin names. Raises ValueError.

    data  the configuration of the plugin
    """
    if plugin in POLICIES:
        files = NamedFiles(_of_policies(plugin, data, version) if version >= V1_36 else "")
    elif plugin in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK):
        files = _of_webhooks(data, version)
    else:
        return NamedFiles()  # it reads no configuration
    if files.folder and (error := _wrong_folder(files.folder, gates)) is not None:
        raise ValueError(error.text(version))
    return files


def _of_policies(plugin: str, data: bytes, version: Version) -> str:
    struct, obj = decode_named(data, _POLICIES.find, scheme_name(version, "policyconfig"))
    if struct.type_name != f"{plugin}Configuration":
        raise DecodeError(f"unexpected type: *policyconfig.{struct.type_name}")
    return _text(obj, "staticManifestsDir")


def _of_webhooks(data: bytes, version: Version) -> NamedFiles:
    has_folder = version >= V1_36
    _, obj = decode_named(data, _WEBHOOKS.find, scheme_name(version, "webhookadmission"), strict=has_folder)
    kubeconfig, folder = _text(obj, "kubeConfigFile"), _text(obj, "staticManifestsDir") if has_folder else ""
    if not kubeconfig and has_folder:
        return NamedFiles(folder)
    if not os.path.isabs(kubeconfig):
        path = FieldPath("kubeConfigFile")
        raise ValueError(invalid(path, kubeconfig, "must be an absolute file path").text(version))
    if not os.path.exists(kubeconfig):
        raise ValueError(f"stat {kubeconfig}: no such file or directory")
    return NamedFiles(folder, kubeconfig)


def _text(obj: Obj, name: str) -> str:
    text: str = obj.get(name) or ""
    return text


def _wrong_folder(folder: str, gates: Gates) -> FieldError | None:
    """Return the error of a folder that cannot be read, None for a good one (`ValidateStaticManifestsDir`)."""
    path = FieldPath("staticManifestsDir")
    if not gates[features.MANIFEST_BASED_ADMISSION_CONTROL_CONFIG]:
        text = "requires the ManifestBasedAdmissionControlConfig feature gate to be enabled"
        return forbidden(path, f"staticManifestsDir {text}")
    if not os.path.isabs(folder):
        return invalid(path, folder, "must be an absolute file path")
    try:
        is_folder = S_ISDIR(os.stat(folder).st_mode)
    except OSError as error:
        return invalid(path, folder, f"unable to read: stat {folder}: {(error.strerror or '').lower()}")
    return None if is_folder else invalid(path, folder, "must be a directory")
