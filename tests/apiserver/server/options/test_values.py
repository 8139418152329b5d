"""The values of options: what Python programs mean by them, texts of flags among it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from understudy import Server
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.server.options.values import READERS
from understudy.apiserver.serving.release import release_names
from understudy.machinery.releases.version import V1_34

OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("emulated_version", 1.34, "1.34"),
        ("emulated_version", V1_34, "1.34"),
        ("load", "world.yaml", ["world.yaml"]),
        ("load", Path("worlds"), [Path("worlds")]),
        ("load", OBJECT, [OBJECT]),
        ("load", iter(["a.yaml", OBJECT]), ["a.yaml", OBJECT]),
        ("controllers", "namespace", ["namespace"]),
        ("controllers", "namespace, scheduler", ["namespace", "scheduler"]),
        ("controllers", ("scheduler",), ["scheduler"]),
        ("controllers", None, ()),
        (
            "feature_gates",
            "AllBeta=true,DRAResourcePoolStatus=false",
            {"AllBeta": True, "DRAResourcePoolStatus": False},
        ),
        ("feature_gates", ["AllBeta=true", "AllAlpha=false"], {"AllBeta": True, "AllAlpha": False}),
        ("feature_gates", {"AllBeta": "true"}, {"AllBeta": True}),
        ("runtime_config", "api/all=true", {"api/all": True}),
        ("service_addresses", "default/a=127.0.0.1:9443", {"default/a": "127.0.0.1:9443"}),
        ("service_addresses", {"default/a": "127.0.0.1:9443"}, {"default/a": "127.0.0.1:9443"}),
        ("authorization_mode", "Node,RBAC", ["Node", "RBAC"]),
        ("enable_admission_plugins", "NodeRestriction", ["NodeRestriction"]),
        ("accept_hosts", "one", ["one"]),
        ("port", "8001", 8001),
        ("tls", "false", False),
        ("control", "true", True),
        ("etcd_compaction_interval", 0, "0"),
    ],
)
def test_value_is_read_as_it_is_meant(option: str, value: Any, expected: object) -> None:
    """A text where a list or a mapping is meant is that of the flag, and a release may be a number."""
    assert getattr(ServerConfig(**{option: value}), option) == expected


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("emulated_version", ["1.34"], "emulated_version: want a text, not ['1.34']"),
        ("emulated_version", True, "emulated_version: want a text, not True"),
        ("load", 5, "load: want a list of paths, texts or objects, not 5"),
        ("load", [5], "load: want paths, texts or objects, not 5"),
        ("controllers", {"scheduler": True}, "controllers: want a list of names, not {'scheduler': True}"),
        ("controllers", [None], "controllers: want a text, not None"),
        ("feature_gates", "AllAlpha", "feature_gates: want NAME=true or NAME=false, not 'AllAlpha'"),
        ("feature_gates", {"AllAlpha": 7}, "feature_gates: want NAME=true or NAME=false, not 'AllAlpha=7'"),
        ("service_addresses", "default/a", "service_addresses: want NAME=VALUE, not 'default/a'"),
        ("port", "http", "port: want a number, not 'http'"),
        ("tls", "maybe", "tls: want true or false, not 'maybe'"),
        ("token_auth_file", 5, "token_auth_file: want a path, not 5"),
    ],
)
def test_value_that_means_nothing_is_refused(option: str, value: Any, message: str) -> None:
    """The error names the option and says what it takes."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ServerConfig(**{option: value})


def test_every_type_of_option_is_read() -> None:
    """Every option with a flag has a type that texts are read as."""
    assert [option.name for option in fields(ServerConfig) if option.metadata and option.type not in READERS] == []


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"feature_gates": {"DRAAdminAcess": True}}, "; did you mean 'DRAAdminAccess'?"),
        ({"feature_gates": {"DRADeviceTaints": True}, "emulated_version": "1.32"}, "; it came with 1.33"),
        ({"feature_gates": {"DRAControlPlaneController": True}}, "; it went with 1.32"),
        ({"emulated_version": "136"}, "; did you mean '1.36'?"),
        ({"emulated_version": "1.99"}, f"unknown release '1.99': there are {release_names()}"),
        ({"enable_admission_plugins": "noderestriction"}, "; did you mean 'NodeRestriction'?"),
        ({"disable_admission_plugins": "PodSecurityPolicy"}, "; did you mean 'PodSecurity'?"),
        ({"authorization_mode": "rbac"}, "; did you mean 'RBAC'?"),
    ],
)
def test_mistyped_name_has_a_hint(options: dict[str, Any], hint: str) -> None:
    """An unknown name is answered with the known one that is most like it, or with the releases that have it."""
    with pytest.raises(ValueError, match=f"{re.escape(hint)}$"):
        ServerConfig(**options)


def test_mistyped_option_has_a_hint() -> None:
    """An option that there is not is a TypeError, as for any function, with the one that may be meant."""
    start: Callable[..., Server] = Server
    with pytest.raises(
        TypeError, match=r"^Server has no option 'emulated_versions'; did you mean 'emulated_version'\?$"
    ):
        start(emulated_versions="1.34")
    with pytest.raises(TypeError, match=r"^Server has no option 'xyzzy'$"):
        start(xyzzy=1)
