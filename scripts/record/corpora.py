"""Record the exchanges of a release: send the recordings of the release before to its kube-apiserver.

    python -m scripts.record corpora v1.38.0                       all of tests/recordings, some minutes
    python -m scripts.record corpora v1.38.0 machinery policies    some corpora
    python -m scripts.record corpora v1.38.0 gates/1.34            recordings of another release, or one of them

The facts of the release are recorded first (`python -m scripts.record release`), by which kube-apiserver has been
built. For all recordings whose first lines name the same flags, gates and tokens one server is started, with the gates
and versions among them that the release still has; `again` does the rest, and tells of each line that is answered
otherwise: these are what the release changed. The files are written to CORPUS/RELEASE, or CORPUS/RELEASE-VARIANT, where
the tests find them. Of a preview nothing is written: the lines are told, and counted.

Where gates change in a recording its server is started again with others, on the storage that it had; a recording with
gates that the release does not start with is left out, and told of, as is one with a request that gets no answer, since
the server panics. Not among them
are verdicts on CEL selectors and sessions of kubectl: `again` records them, from a server that
`python -m scripts.record serve` runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from scripts.common.commands import UsageError
from scripts.common.comparing import Server
from scripts.record.again import Means, record_again
from scripts.record.files import save
from scripts.record.flags import gates_of, served_of, switches, written
from scripts.record.release import add_build_arguments, modules_of
from scripts.record.upstream.modules import build_etcd
from scripts.record.upstream.server import api_server
from tests.recordings.recorded import HERE, ONLY_ADMIN, Recording, recordings
from understudy.apiserver.serving.release import previews, releases
from understudy.machinery.releases.version import Version

OTHERS = {"cel", "kubectl", "scenarios"}  # corpora that need more than a server, or stay as they are


class Started(NamedTuple):
    """The options of a server: flags, and the content of its token file."""

    flags: tuple[str, ...]
    tokens: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_build_arguments(parser)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="CORPUS[/RELEASE[/SCENARIO]]",
        help="folders or recordings of tests/recordings (default: all); of the release before if they name no release",
    )


def run(options: argparse.Namespace) -> int:
    modules = modules_of(options)
    version = modules.release
    if version not in (*releases(), *previews()):
        raise UsageError(f"record the facts of {version} first: python -m scripts.record release {modules.version}")
    program, etcd = modules.build(("kube-apiserver",)) / "kube-apiserver", build_etcd(modules.cache)
    chosen = chosen_of(version, recordings(), options.names)
    if not chosen:
        raise UsageError("no recording is chosen: name folders of tests/recordings")
    lines = differing = 0
    for started, group in by_server(version, chosen).items():
        with api_server(program, etcd, *started.flags, tokens=started.tokens) as server:
            asked = Server(server.url, server.token)
            means = Means(asked, server.set_gates)
            for each in group:
                print(each.name, flush=True)
                try:
                    _, new = record_again(each.path, means, {})
                except UsageError as why:
                    print(f"{each.name}: left out: {why}", file=sys.stderr)
                    server.reset_gates()
                    asked.close()
                    continue
                lines += len(new) - 2
                differing += sum(line != old for line, old in zip(new[1:-1], each.lines()[1:-1], strict=True))
                if not version.is_preview:
                    save(target(version, each), new)
    print(f"{version}: {lines} steps of {len(chosen)} recordings, {differing} answered otherwise")
    return 0


def chosen_of(version: Version, every: Iterable[Recording], names: Collection[str]) -> list[Recording]:
    """Return the recordings of some names; without names, those of the release before that need a server only."""
    before = [each for each in every if each.version == version.previous]
    if not names:
        return [each for each in before if each.corpus not in OTHERS]
    within = tuple(f"{name}/" for name in names if "/" in name)
    named = (each for each in every if f"{each.name}/".startswith(within))
    return [*(each for each in before if each.corpus in names), *named]


def target(version: Version, recording: Recording) -> Path:
    """Return the file for a recording of another release, whose folder is made."""
    corpus, _, of = recording.folder.partition("/")
    variant = of.partition("-")[2]
    folder = HERE / corpus / (f"{version}-{variant}" if variant else str(version))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / recording.path.name


def by_server(version: Version, chosen: Iterable[Recording]) -> dict[Started, list[Recording]]:
    """Return the recordings by what their server is started with."""
    groups: dict[Started, list[Recording]] = {}
    for each in chosen:
        groups.setdefault(started(version, each.head.get("about", {})), []).append(each)
    return groups


def started(version: Version, about: Mapping[str, object]) -> Started:
    """Return the options of a server of a release for a recording of the release before."""
    gates = gates_of(version, switches(str(about.get("feature-gates") or about.get("gates") or "")))
    served = served_of(version, switches(str(about.get("runtime-config") or "")), gates)
    flags = about.get("flags") or ()
    assert isinstance(flags, list | tuple)
    return Started(
        (f"--feature-gates={written(gates)}", f"--runtime-config={written(served)}", *flags),
        str(about.get("token-file") or ONLY_ADMIN),
    )
