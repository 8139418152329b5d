"""`understudy serve | validate`: flags are named as kube-apiserver comma_separated them."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from understudy.apiserver.cmd.flags import comma_separated, switches
from understudy.apiserver.kinds import release

USAGE_ERROR = 2


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with a flag, and exits with 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"want a port from 0 to 65535, not {text!r}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="understudy", description="A stand-in for the Kubernetes API server.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="serve the API", description="Serves the Kubernetes API until stopped.")
    add = serve.add_argument
    add("--bind-address", default="127.0.0.1", metavar="IP", help="where to listen (default: %(default)s)")
    add("--port", type=_port, default=8001, help="0 takes a free one (default: %(default)s)")
    known = ", ".join(map(str, release.releases()))
    add("--emulated-version", default=release.DEFAULT, metavar="VERSION", help=f"{known} (default: %(default)s)")
    add("--feature-gates", type=switches, default={}, metavar="A=true,B=false", help="AllAlpha and AllBeta too")
    add("--runtime-config", type=switches, default={}, metavar="GROUP/VERSION=false", help="what is not to be served")
    add("--load", action="append", default=[], metavar="FILE|DIR", help="manifests to begin with; can be repeated")
    add("--kubeconfig", metavar="PATH", help="write a kubeconfig that points here (mode 0600)")
    add("--token-auth-file", metavar="PATH", help="lines of token,user,uid,groups")
    add("--tls-cert-file", metavar="PATH")
    add("--tls-private-key-file", metavar="PATH")
    add("--tls", action="store_true", help="HTTPS, with a self-signed certificate")
    add("--control", action="store_true", help="serve /understudy/ (feature gates, compact, reset)")
    add(
        "--controllers",
        type=comma_separated,
        default=[],
        metavar="A,B",
        help="namespace, garbage-collector (default: none)",
    )
    add("-v", "--verbose", action="store_true", help="one line on stderr per request")
    serve.set_defaults(run=_serve)
    from understudy.apiserver.cmd import validate_command

    about = "Tells what a server would refuse in manifests, without one: 0 nothing, 1 something, 2 an unreadable file."
    validate = commands.add_parser("validate", help="check manifests without a server", description=about)
    validate_command.add_arguments(validate)
    validate.set_defaults(run=validate_command.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    """The command; answers its exit code."""
    args = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    return run(args)


def _serve(args: argparse.Namespace) -> int:
    from understudy.apiserver.client.manifests import LoadError
    from understudy.apiserver.server.server import Server, new_loop

    logging.basicConfig(format="%(message)s", level=logging.DEBUG if args.verbose else logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    options = {
        name: getattr(args, name)
        for name in (
            "emulated_version",
            "feature_gates",
            "runtime_config",
            "load",
            "bind_address",
            "port",
            "tls",
            "tls_cert_file",
            "tls_private_key_file",
            "token_auth_file",
            "control",
            "controllers",
        )
    }
    try:
        server = Server(**options)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(_until_stopped(server, args.kubeconfig))
    except (ValueError, LoadError, OSError) as why:
        told = f"{why.filename}: {why.strerror}" if isinstance(why, OSError) and why.filename else str(why)
        print("understudy:", " ".join(told.splitlines()), file=sys.stderr)
        return USAGE_ERROR


async def _until_stopped(server: object, kubeconfig: str | None) -> int:
    from understudy.apiserver.server.server import Server

    assert isinstance(server, Server)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await server.start()
    try:
        if kubeconfig:
            server.write_kubeconfig(kubeconfig)
        print(f"understudy: Kubernetes {server.state.release.version} API at {server.url}", flush=True)
        await stopped.wait()
    finally:
        await server.stop()
    return 0
