"""Makes options of a server from the flags of kube-apiserver."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any

from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.server.options.values import pair_texts
from understudy.apiserver.serving.release import DEFAULT
from understudy.cli.envtest.command_line import Flags, last

SECURE_PORT = "6443"  # the default of --secure-port
CERT_DIR = "/var/run/kubernetes"  # the default of --cert-dir
CONTROLLERS = "namespace"  # so that namespaces can be deleted; kube-controller-manager is not there to do it
# Flags that say what is so in any case, or something that a server without a cluster has no use for.
UNREMARKABLE = {
    *("allow-privileged", "cert-dir", "emulated-version", "etcd-servers", "secure-port", "v", "vmodule"),
    *("advertise-address", "external-hostname", "endpoint-reconciler-type"),
}
SERVICE_CIDR = "10.0.0.0/24"


def emulated_version(flags: Flags) -> str:
    """Return the release of `--emulated-version=1.34` or `=kube=1.34`."""
    return last(flags, "emulated-version", DEFAULT).rpartition("=")[2]


def server_options(flags: Flags, folder: str) -> dict[str, Any]:
    """Return the options of a server; relative paths begin in a folder. The server refuses wrong values."""
    options = {option.name: _value(option, values, folder) for option, values in _given(flags)}
    options["port"] = last(flags, "secure-port", SECURE_PORT)
    options["emulated_version"] = emulated_version(flags)
    options["controllers"] = last(flags, "controllers", CONTROLLERS)  # that of the test, not that of the script
    if "ServiceAccount" not in _names(options, "disable_admission_plugins"):  # is off in `understudy serve`
        options["enable_admission_plugins"] = [*_names(options, "enable_admission_plugins"), "ServiceAccount"]
    options["program_flags"] = {name: flags[name][-1] for name in flags.keys() - _known(flags)}
    if not options.get("tls_cert_file"):
        options |= _certificate(os.path.join(folder, last(flags, "cert-dir", CERT_DIR)))
    return options


def without_effect(flags: Flags) -> list[str]:
    """Return the flags that are accepted and change nothing, though they would change kube-apiserver."""
    used = _known(flags) | UNREMARKABLE
    if flags.get("service-cluster-ip-range") == [SERVICE_CIDR]:
        used.add("service-cluster-ip-range")
    return sorted(f"--{name}" for name in flags.keys() - used)


def _known(flags: Flags) -> set[str]:
    """Return the names of the flags that set options of a server."""
    return {option.name.replace("_", "-") for option, _ in _given(flags)}


def _given(flags: Flags) -> Iterator[tuple[Field[Any], list[str]]]:
    """Yield the options of a server that flags set, with the texts of the flag."""
    for option in fields(ServerConfig):
        name = option.name.replace("_", "-")
        if option.metadata and name in flags:
            yield option, flags[name]


def _value(option: Field[Any], values: list[str], folder: str) -> Any:
    """Return the value of an option: flags that take lists may be repeated, the last one counts of others."""
    metavar, type_ = option.metadata["metavar"] or "", str(option.type)
    if type_ == "Sequence[Manifest]":
        return [path if os.path.exists(path) else each for each in values for path in [os.path.join(folder, each)]]
    if type_ == "Sequence[NamedCertKey]":
        from understudy.apiserver.server.options.tls.server_names import NamedFiles  # imports ssl

        return [NamedFiles.parse(value).inside(folder) for value in values]
    if type_ == "Mapping[str, str] | None":
        return [pair for value in values for pair in pair_texts(value)]
    if not type_.startswith(("Sequence", "Mapping")):
        values = values[-1:]
    if "PATH" in metavar or "FILE" in metavar:
        paths = [path for value in values for path in value.split(",") if path]
        values = [path if path == "-" else os.path.join(folder, path) for path in paths]
    if option.name == "feature_gates":
        values = [gate.removeprefix("kube:") for value in values for gate in value.split(",")]
    return ",".join(values) or None


def _names(options: dict[str, Any], option: str) -> list[str]:
    return [name for name in (options.get(option) or "").split(",") if name]


def _certificate(folder: str) -> dict[str, Any]:
    """Return the options of the certificate that stands in --cert-dir, or those of one that is made."""
    files = [os.path.join(folder, name) for name in ("apiserver.crt", "apiserver.key")]
    if not all(map(os.path.exists, files)):
        return {"tls": True}
    return dict(zip(("tls_cert_file", "tls_private_key_file"), files, strict=True))
