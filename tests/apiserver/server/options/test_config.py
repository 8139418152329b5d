"""The options of a server: one list behind flags, keyword arguments and the pytest marker."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import new_authority
from tests.clock import FixedClock
from understudy import Server
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.storage.memory import MemoryStore
from understudy.cli.flags import add_server_flags, server_options
from understudy.machinery.types import Obj

OPTIONS = [option.name for option in fields(ServerConfig)]
FLAGS = [option.name for option in fields(ServerConfig) if option.metadata]
CONFIG_MAP: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_a_server_takes_every_option() -> None:
    """`help(Server)` and editors show the options, all by keyword."""
    parameters = inspect.signature(Server).parameters
    assert list(parameters) == OPTIONS
    assert {parameter.kind for parameter in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_every_option_is_documented() -> None:
    """The docstrings have a line for each option."""
    text = "".join(str(each.__doc__) for each in ServerConfig.__mro__)
    assert [name for name in OPTIONS if name not in text] == []


def test_flags_without_values_set_nothing() -> None:
    """Flags that are not given leave an option's own default."""
    parser = ArgumentParser()
    add_server_flags(parser)
    default = ServerConfig()
    assert {name: getattr(default, name) for name in server_options(parser.parse_args([]))} == server_options(
        parser.parse_args([])
    )


@pytest.mark.parametrize(
    ("tokens", "tls", "expected"), [(True, None, True), (True, False, False), (False, None, False)]
)
def test_tokens_go_over_tls(tmp_path: Path, tokens: bool, tls: bool | None, expected: bool) -> None:
    """A server with a token file speaks HTTPS unless told otherwise: kubectl sends tokens over nothing else."""
    path = tmp_path / "tokens.csv"
    path.write_text("secret,ann,1\n")
    assert bool(ServerConfig(token_auth_file=path if tokens else None, tls=tls).certificates) == expected


@pytest.mark.parametrize(("argument", "expected"), [("--tls", True), ("--tls=true", True), ("--tls=false", False)])
def test_tls_is_switched_by_a_flag(argument: str, expected: bool) -> None:
    """A switch without a value is on, as with kube-apiserver's flags."""
    parser = ArgumentParser()
    add_server_flags(parser)
    assert server_options(parser.parse_args([argument, "--port", "7"]))["tls"] is expected


def test_flags_set_their_options() -> None:
    """Every type of option can be read from a flag."""
    parser = ArgumentParser()
    add_server_flags(parser)
    argv = ["--port", "7", "--tls", "--load", "a.yaml", "--load", "b", "--controllers", "namespace,x"]
    argv += ["--feature-gates", "A=true,B=false"]
    expected: dict[str, Any] = {
        "port": 7,
        "tls": True,
        "load": ["a.yaml", "b"],
        "controllers": ["namespace", "x"],
        "feature_gates": {"A": True, "B": False},
    }
    options = server_options(parser.parse_args(argv))
    assert {name: options[name] for name in expected} == expected
    assert set(options) <= set(FLAGS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 65536}, "want a port from 0 to 65535, not 65536"),
        ({"emulated_version": "1.2"}, "unknown release '1.2'"),
        ({"feature_gates": {"NoSuchGate": True}}, "unrecognized feature gate: NoSuchGate"),
        ({"runtime_config": {"apps/v9": True}}, "group version apps/v9 that has not been registered"),
        ({"tls_cert_file": "cert.pem"}, "--tls-cert-file and --tls-private-key-file go together"),
        ({"etcd_compaction_interval": "often"}, "want a compaction interval such as 5m or 0, not 'often'"),
        ({"etcd_compaction_interval": "-1s"}, "want a compaction interval that is not negative, not '-1s'"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    """Options that make no sense are refused in one place, before anything starts."""
    with pytest.raises(ValueError, match=message):
        ServerConfig(**options)


def test_a_store_with_data_survives_a_second_start() -> None:
    """A second start creates the initial objects that are missing, and changes nothing else."""
    store = MemoryStore()
    with Server(store=lambda: store) as first:
        first.apply(CONFIG_MAP)
        uids = {obj["metadata"]["uid"] for obj in first.list("namespaces")}
    with Server(store=lambda: store) as second:
        assert second.get("cm", "a")["metadata"]["name"] == "a"
        assert {obj["metadata"]["uid"] for obj in second.list("namespaces")} == uids


def test_a_reset_server_is_as_new() -> None:
    """Objects and revisions are those of the start."""
    with Server() as server:
        revision = server.state.registry.store.revision
        server.apply(CONFIG_MAP)
        server.reset()
        assert server.state.registry.store.revision == revision
        assert [obj["metadata"]["name"] for obj in server.list("cm", "default")] == []


def test_a_server_asks_its_clock() -> None:
    """Objects bear the time of the server's clock, which a test can move."""
    clock = FixedClock.at("2030-01-02T03:04:05Z")
    with Server(clock=clock) as server:
        assert server.apply(CONFIG_MAP)[0]["metadata"]["creationTimestamp"] == "2030-01-02T03:04:05Z"


def test_an_object_with_a_generated_name_is_created() -> None:
    """`apply` creates what has a generateName and no name: there is nothing to apply it to."""
    with Server() as server:
        (stored,) = server.apply({**CONFIG_MAP, "metadata": {"generateName": "a-"}})
        assert server.get("cm", stored["metadata"]["name"]) == stored


def test_client_certificates_need_tls_and_an_authority(tmp_path: Path) -> None:
    """A file without certificates is refused, and plain HTTP, over which no client shows one."""
    path = tmp_path / "ca.crt"
    with pytest.raises(ValueError, match=r"--client-ca-file: .*ca.crt: No such file or directory"):
        ServerConfig(client_ca_file=path)
    path.write_text("no certificate")
    with pytest.raises(ValueError, match=r"--client-ca-file: .*ca.crt: "):
        ServerConfig(client_ca_file=path)
    path.write_bytes(new_authority().pem)
    with pytest.raises(ValueError, match="--tls=false and --client-ca-file exclude each other"):
        ServerConfig(client_ca_file=path, tls=False)
    assert ServerConfig(client_ca_file=path).certificates
