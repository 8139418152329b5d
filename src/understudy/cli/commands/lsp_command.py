"""`understudy lsp`: a language server for editors, which judges manifests as `understudy validate` does."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from understudy.apiserver.serving.release import DEFAULT
from understudy.cli.commands.validate_command import add_check_arguments, add_release_arguments
from understudy.cli.documents import all_objects, is_excluded, read_all
from understudy.cli.output import print_error, print_places
from understudy.cli.program import USAGE_ERROR
from understudy.machinery.serializer.rpc.installation import install_command
from understudy.offline.checks import Checks, validators_of

if TYPE_CHECKING:
    from understudy.cli.program import AddParser

_ABOUT = "Serves an editor by the Language Server Protocol: errors, completion, descriptions. Needs understudy[lsp]."


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    parser = add_parser(description=_ABOUT)
    text = "wait for an editor there, and serve that one (default: standard input and output)"
    parser.add_argument("--tcp", type=_address, metavar="HOST:PORT", help=text)
    parser.add_argument("--stdio", action="store_true", help="standard input and output, as without --tcp")
    add_release_arguments(parser, DEFAULT)
    add_check_arguments(parser, "the files of the workspace")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell on stderr what is asked")
    parser.set_defaults(run=run)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and int(port) < 65536):
        raise argparse.ArgumentTypeError(f"want HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def run(args: argparse.Namespace) -> int:
    """Serve an editor until it leaves; return the exit code."""
    if args.tcp and args.stdio:
        print_error("--stdio and --tcp exclude each other")
        return USAGE_ERROR
    try:
        from understudy.languageserver.server import ManifestServer
    except ModuleNotFoundError as why:
        if (why.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        print_error(f"lsp needs pygls: {install_command('lsp', 'pygls')}")
        return USAGE_ERROR
    try:
        checks = Checks(
            validators_of(args.emulated_version, args.feature_gates), frozenset(args.skip), args.ignore_missing_schemas
        )
    except ValueError as why:
        print_error(why)
        return USAGE_ERROR
    definitions, no_definitions = read_all(args.crds or [])
    policies, no_policies = read_all(args.policies or [])
    if unreadable := [*no_definitions, *no_policies]:
        print_places(unreadable)
        return USAGE_ERROR
    checks = checks.with_definitions(all_objects(definitions))
    if args.policies:
        checks = checks.with_policies(all_objects(policies))
    logging.basicConfig(format="%(message)s", level=logging.INFO if args.verbose else logging.ERROR)
    server = ManifestServer(checks, lambda path: is_excluded(path, args.exclude))
    try:
        server.start_tcp(*args.tcp) if args.tcp else server.start_io()
    except OSError as why:
        print_error(why)
        return USAGE_ERROR
    return 0
