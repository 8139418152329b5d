"""`understudy drivers test`: puts a DRA driver through what a node and a control plane do to it.

Exit code 0: no case failed, 1: one did, 2: wrong flags or files, a command that cannot be started, or no gRPC library.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.apiserver.serving.release import DEFAULT
from understudy.cli.flags import add_release_flags, add_server_flags
from understudy.cli.output import print_error
from understudy.controlplane.drivers.verdicts import TIMEOUT
from understudy.machinery.util.spelling import did_you_mean

if TYPE_CHECKING:
    from understudy.cli.program import AddParser
    from understudy.controlplane.drivers.objects import ClaimForm
    from understudy.controlplane.drivers.runner import Outcome, Plan

PASSED, FAILED, UNUSABLE = 0, 1, 2


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    about = (
        "`understudy drivers test` puts a DRA driver through what a node and a control plane do to it: registration,"
        " publishing, preparing again, shared claims, restarts, a reboot, taints, fifty pods at once and more."
    )
    parser = add_parser(description=about)
    parser.add_argument("action", choices=("test",), help="what to do")
    text = "starts the driver; {kubeconfig}, {node}, {root}, {registry}, {plugins}, {cdi} and {instance} are filled in"
    parser.add_argument("--driver-command", metavar="COMMAND", help=f"{text} (required, but for --list)")
    add_release_flags(parser, default=DEFAULT)
    text = "run this case only, and those that all others need; may be repeated"
    parser.add_argument("--case", metavar="NAME", action="append", default=[], help=text)
    text = "leave this case out; may be repeated"
    parser.add_argument("--skip", metavar="NAME", action="append", default=[], help=text)
    parser.add_argument("--list", action="store_true", help="list the cases and their rules, and run none")
    text = "ResourceClaim or ResourceClaimTemplate whose spec all claims have (default: any one device of the driver)"
    parser.add_argument("--claim", metavar="FILE", type=Path, help=text)
    add_server_flags(parser, ("load",))
    text = "that the driver has for each thing that is waited for (default: %(default)g)"
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=TIMEOUT, help=text)
    text = "how many cases run at the same time, each with a process of the driver (default: %(default)s)"
    parser.add_argument("--jobs", metavar="COUNT", type=int, default=1, help=text)
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write a report for build servers")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write a report as a table for people")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the cases; return the exit code."""
    from understudy.apiserver.client.manifests import LoadError

    logging.basicConfig(format="%(name)s: %(message)s", level=logging.ERROR)
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # the library reports every connection that a driver ends
    try:
        from understudy.controlplane.drivers.reports import summary

        if args.list:
            return _list()
        made = asyncio.run(_outcomes(_plan(args)))
        print(summary(made))
        _write_reports(args, made)
    except ImportError as why:
        if why.name != "grpc":
            raise
        print_error(f"drivers test {why}")
    except (ValueError, LoadError, OSError) as why:
        print_error(why)
    else:
        return FAILED if any(outcome.verdict == "failed" for outcome in made) else PASSED
    return UNUSABLE


def _list() -> int:
    from understudy.controlplane.drivers.cases import CASES

    for case in CASES:
        print(f"{case.name}: {case.rule}")
    return PASSED


def _plan(args: argparse.Namespace) -> Plan:
    """Return the test that the flags describe. Raises ValueError, OSError."""
    from understudy.controlplane.drivers.cases import CASES
    from understudy.controlplane.drivers.places import words_of
    from understudy.controlplane.drivers.process import starts
    from understudy.controlplane.drivers.runner import Plan

    if not args.driver_command:
        raise ValueError("--driver-command is missing: the command that starts the driver")
    names = [case.name for case in CASES]
    for name in [*args.case, *args.skip]:
        if name not in names:
            raise ValueError(f"unknown case {name}, there are: {', '.join(names)}{did_you_mean(name, names)}")
    chosen = [
        case for case in CASES
        if (case.required or not args.case or case.name in args.case) and case.name not in args.skip
    ]  # fmt: skip
    return Plan(
        starts(words_of(args.driver_command)),
        args.emulated_version if isinstance(args.emulated_version, list) else [args.emulated_version],
        chosen,
        args.feature_gates,
        args.load or (),
        _claim(args.claim) if args.claim else None,
        args.timeout,
        max(1, args.jobs),
    )


def _claim(path: Path) -> ClaimForm:
    """Return the spec of the claim in a file. Raises ValueError, OSError."""
    import yaml

    from understudy.controlplane.drivers.objects import ClaimForm

    try:
        manifest = yaml.safe_load(path.read_text())
        if not isinstance(manifest, dict):
            raise ValueError("the file has no object")
        return ClaimForm.read(manifest)
    except (ValueError, yaml.YAMLError) as why:
        raise ValueError(f"{path}: {' '.join(str(why).split())}") from why


async def _outcomes(plan: Plan) -> list[Outcome]:
    from understudy.controlplane.drivers.reports import line
    from understudy.controlplane.drivers.runner import Servers, outcomes

    made = []
    with Servers() as servers:
        async for outcome in outcomes(plan, servers):
            made.append(outcome)
            print(line(outcome), flush=True)
    return made


def _write_reports(args: argparse.Namespace, made: list[Outcome]) -> None:
    from understudy.controlplane.drivers.reports import junit, markdown

    for path, report in ((args.junit, junit), (args.markdown, markdown)):
        if path:
            path.write_text(report(made), encoding="utf-8")
