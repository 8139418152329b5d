"""Flags of the programs that envtest starts: read, refused and passed on as by kube-apiserver and etcd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from scripts.record.program_flags import flags_in
from understudy.apiserver.server.options.config import ServerConfig
from understudy.cli.envtest import etcd, kube_apiserver
from understudy.cli.envtest.command_line import parse_go_flags, parse_pflags, recorded_flags
from understudy.cli.envtest.options import server_options, without_effect

# What kube-apiserver 1.37.2 and etcd 3.5.21 print on stderr.
REFUSED = [
    ("kube-apiserver", ["--nonsense=3"], "Error: unknown flag: --nonsense"),
    ("kube-apiserver", ["--etcd-servers"], "Error: flag needs an argument: --etcd-servers"),
    ("kube-apiserver", ["--event_ttl"], "Error: flag needs an argument: --event_ttl"),
    ("kube-apiserver", ["-z"], "Error: unknown shorthand flag: 'z' in -z"),
    ("kube-apiserver", ["-v"], "Error: flag needs an argument: 'v' in -v"),
    ("kube-apiserver", ["--=x"], "Error: bad flag syntax: --=x"),
    ("kube-apiserver", ["---x"], "Error: bad flag syntax: ---x"),
    (
        "kube-apiserver",
        ["--allow_privileged=maybe"],
        'Error: invalid argument "maybe" for "--allow-privileged" flag: strconv.ParseBool: parsing "maybe": '
        "invalid syntax",
    ),
    (
        "kube-apiserver",
        ["--secure-port=x"],
        'Error: invalid argument "x" for "--secure-port" flag: strconv.ParseInt: parsing "x": invalid syntax',
    ),
    (
        "kube-apiserver",
        ["-vx"],
        'Error: invalid argument "x" for "-v, --v" flag: strconv.ParseUint: parsing "x": invalid syntax',
    ),
    ("kube-apiserver", ["a", "b"], 'Error: "kube-apiserver" does not take any arguments, got ["a" "b"]'),
    ("etcd", ["--nonsense=3"], "flag provided but not defined: -nonsense"),
    ("etcd", ["-data-dir"], "flag needs an argument: -data-dir"),
    ("etcd", ["--pre-vote=maybe"], 'invalid boolean value "maybe" for -pre-vote: parse error'),
]


@pytest.mark.parametrize(("program", "argv", "error"), REFUSED, ids=lambda value: str(value)[:40])
def test_refused_flags(program: str, argv: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong flag has the error and the exit code of the real program."""
    main, code = {"kube-apiserver": (kube_apiserver.main, 1), "etcd": (etcd.main, 2)}[program]
    assert main(argv) == code
    assert capsys.readouterr().err.splitlines()[0] == error


@pytest.mark.parametrize("main", [kube_apiserver.main, etcd.main])
def test_help(main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` has a line that begins with each flag, which envtest looks for, and succeeds."""
    assert main(["--help"]) == 0
    lines = [line.split()[:1] for line in capsys.readouterr().out.splitlines()]
    program, flag = ("etcd", "--unsafe-no-fsync") if main is etcd.main else ("kube-apiserver", "--secure-port")
    assert [flag] in lines
    assert all([f"--{name}"] in lines for name in recorded_flags(program))
    assert ["--insecure-port"] not in lines


@pytest.mark.parametrize(
    ("argv", "version"),
    [(["--version"], "Kubernetes v1.37."), (["--emulated-version=kube=1.34", "--version=true"], "Kubernetes v1.34.")],
)
def test_version(argv: list[str], version: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints the emulated release as kube-apiserver does."""
    assert kube_apiserver.main(argv) == 0
    assert capsys.readouterr().out.startswith(version)


def test_values_of_flags() -> None:
    """Values stand behind `=` or in the next argument; flags may be repeated, and written with underscores."""
    argv = ["--a=1", "--b", "--a", "", "--c_d", "x=y", "-v=2", "-v3", "--", "--a=2"]
    types = {"a": "string", "b": "bool", "c-d": "string", "v": "Level"}
    flags = {"a": ["1", ""], "b": ["true"], "c-d": ["x=y"], "v": ["2", "3"]}
    assert parse_pflags(argv, types) == (flags, ["--a=2"])
    assert parse_go_flags(["-a=1", "--b", "-a", "x"], types) == {"a": ["1", "x"], "b": ["true"]}


def test_every_option_of_a_server_is_a_flag() -> None:
    """Whatever `understudy serve` can be told, kube-apiserver can, but for `--port`, `--tls` and where objects are."""
    places = {"storage", "sqlite-synchronous", "etcd-snapshot", "etcd-snapshot-revision", "writable"}
    options = {option.name.replace("_", "-") for option in fields(ServerConfig) if option.metadata}
    own = options - {"port", "tls"} - places - recorded_flags("kube-apiserver").keys()
    assert own == kube_apiserver.OWN_FLAGS.keys()


def test_flags_become_options(tmp_path: Path) -> None:
    """Lists add up, of other flags the last value counts, relative paths begin in the program's folder."""
    for name in ("apiserver.crt", "apiserver.key"):
        (tmp_path / name).touch()
    flags = {
        "cert-dir": ["."],
        "secure-port": ["1", "2"],
        "feature-gates": ["kube:A=true,B=false", "C=true"],
        "client-ca-file": ["ca.crt"],
        "service-account-key-file": ["a.key", "/b.key"],
        "disable-admission-plugins": ["ServiceAccount"],
        "enable-admission-plugins": [""],
        "emulated-version": ["1.36", "kube=1.34"],
        "load": ["dev", "apiserver.crt"],
    }
    assert server_options(flags, str(tmp_path)) == {
        "port": "2",
        "feature_gates": "A=true,B=false,C=true",
        "client_ca_file": str(tmp_path / "ca.crt"),
        "service_account_key_file": f"{tmp_path}/a.key,/b.key",
        "disable_admission_plugins": "ServiceAccount",
        "enable_admission_plugins": None,
        "emulated_version": "1.34",
        "controllers": "namespace",
        "load": ["dev", str(tmp_path / "apiserver.crt")],
        "tls_cert_file": f"{tmp_path}/./apiserver.crt",
        "tls_private_key_file": f"{tmp_path}/./apiserver.key",
        "program_flags": {"cert-dir": ".", "secure-port": "2"},
    }


def test_admission_of_service_accounts_is_on_by_default() -> None:
    """The plugin runs unless it is disabled, as in kube-apiserver; a certificate is made if there is none.

    Controllers can be switched off.
    """
    options = server_options({"controllers": ["namespace", ""], "cert-dir": ["."]}, "/nowhere")
    assert options["enable_admission_plugins"] == ["ServiceAccount"]
    assert (options["controllers"], options["port"], options["tls"]) == ("", "6443", True)


def test_flags_without_effect() -> None:
    """Flags that do nothing are named, but for those that every envtest passes."""
    flags = {name: ["x"] for name in ("etcd-servers", "allow-privileged", "profiling", "client-ca-file")}
    assert without_effect({**flags, "service-cluster-ip-range": ["10.0.0.0/24"]}) == ["--profiling"]
    assert without_effect({"service-cluster-ip-range": ["10.1.0.0/16"]}) == ["--service-cluster-ip-range"]


def test_flags_are_recorded_with_types() -> None:
    """The types of flags are read from usages of pflag and of etcd."""
    usage = """
      --audit-log-path string     If set, all requests go to this file. --nonsense is not a flag
      --allow-privileged          If true
  -v, --v Level                   number
      --version version[=true]    --version, --version=raw
  --snapshot-count '10000'
    Number of --transactions
  --pre-vote 'true'
"""
    assert flags_in(usage) == {
        "audit-log-path": "string",
        "allow-privileged": "bool",
        "v": "Level",
        "version": "version",
        "snapshot-count": "string",
        "pre-vote": "bool",
    }
