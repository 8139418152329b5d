"""Record the exchanges of a release: send the recordings of the release before to its kube-apiserver.

    python -m scripts.record corpora v1.38.0                       all of tests/recordings, some minutes
    python -m scripts.record corpora v1.38.0 machinery policies    some corpora

The facts of the release are recorded first (`python -m scripts.record release`), by which kube-apiserver has been
built. For all recordings whose first lines name the same flags, gates and tokens one server is started, with the gates
and versions among them that the release still has; `again` does the rest, and tells of each line that is answered
otherwise: these are what the release changed. The files are written to CORPUS/RELEASE, or CORPUS/RELEASE-VARIANT, where
the tests find them. Of a preview nothing is written: the lines are told, and counted.

Not among them are recordings whose gates change while they run, and those of kubectl: `again` records them, from a
server that `python -m scripts.record serve` runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from scripts.common.commands import UsageError
from scripts.common.comparing import Server
from scripts.record.again import record_again
from scripts.record.files import save
from scripts.record.release import add_build_arguments, modules_of
from scripts.record.upstream.modules import build_etcd
from scripts.record.upstream.server import api_server
from tests.recordings.recorded import HERE, ONLY_ADMIN, Recording, recordings
from understudy.apiserver.serving.release import Release, previews, releases
from understudy.machinery.releases.features import Gates, LockedGateError
from understudy.machinery.releases.version import Version

OTHERS = {"cel", "kubectl", "gates", "scenarios"}  # corpora that need more than a server
_OWN_GROUP = "resource.k8s.io"  # which is served in every version, as understudy does


class Started(NamedTuple):
    """The options of a server: flags, and the content of its token file."""

    flags: tuple[str, ...]
    tokens: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_build_arguments(parser)
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help="folders of tests/recordings (default: all)")


def run(options: argparse.Namespace) -> int:
    modules = modules_of(options)
    version = modules.release
    if version not in (*releases(), *previews()):
        raise UsageError(f"record the facts of {version} first: python -m scripts.record release {modules.version}")
    program, etcd = modules.build(("kube-apiserver",)) / "kube-apiserver", build_etcd(modules.cache)
    chosen = [each for each in of_release_before(version, recordings()) if in_corpora(each, options.corpora)]
    if not chosen:
        raise UsageError("no recording is chosen: corpora are folders of tests/recordings")
    lines = differing = 0
    for started, group in by_server(version, chosen).items():
        with api_server(program, etcd, *started.flags, tokens=started.tokens) as server:
            asked = Server(server.url, server.token)
            for each in group:
                print(each.name, flush=True)
                new = record_again(each.path, asked, kubectl="", on_control="", changes={})
                lines += len(new) - 2
                differing += sum(line != old for line, old in zip(new[1:-1], each.lines()[1:-1], strict=True))
                if not version.is_preview:
                    save(target(version, each), new)
    print(f"{version}: {lines} steps of {len(chosen)} recordings, {differing} answered otherwise")
    return 0


def in_corpora(recording: Recording, names: Iterable[str]) -> bool:
    """Report whether a recording is of one of some corpora; without names, of one that needs a server only."""
    return recording.corpus in names if names else recording.corpus not in OTHERS


def of_release_before(version: Version, every: Iterable[Recording]) -> Iterator[Recording]:
    """Yield the recordings of the release before a release."""
    return (each for each in every if each.version == version.previous)


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
    served = served_of(version, switches(str(about.get("runtime-config") or "")))
    flags = about.get("flags") or ()
    assert isinstance(flags, list | tuple)
    return Started(
        (f"--feature-gates={written(gates)}", f"--runtime-config={written(served)}", *flags),
        str(about.get("token-file") or ONLY_ADMIN),
    )


def switches(text: str) -> dict[str, bool]:
    """Return the switches of "A=true,B=false"."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {name: value == "true" for name, _, value in pairs}


def written(values: Mapping[str, bool]) -> str:
    """Return "A=true,B=false"."""
    return ",".join(f"{name}={str(on).lower()}" for name, on in values.items())


def gates_of(version: Version, gates: Mapping[str, bool]) -> dict[str, bool]:
    """Return the gates that a release has, and that can be as they are to be."""
    known = Gates.of(version).in_force()
    return {name: on for name, on in gates.items() if name in known and not is_locked(version, name, on)}


def is_locked(version: Version, gate: str, on: bool) -> bool:
    """Report whether a gate of a release is locked to the other value."""
    try:
        Gates.of(version, {gate: on})
    except LockedGateError:
        return True
    except ValueError:
        return False  # it needs others, which are set with it
    return False


def served_of(version: Version, config: Mapping[str, bool]) -> dict[str, bool]:
    """Return the runtime configuration of a release for that of another, and all of resource.k8s.io.

    All versions of a group stand for one that is gone: what came in its place is off by default, too.
    """
    release = Release.of(version)
    served: dict[str, bool] = {}
    for name, on in {_OWN_GROUP: True, **config}.items():
        group = release.group(name.partition("/")[0])
        if release.serves(*name.partition("/")[::2]):
            served[name] = on
        elif group is not None:
            served |= {f"{group.name}/{each}": on for each in group.versions}
    return served
