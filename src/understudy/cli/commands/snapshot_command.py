"""`understudy snapshot save|restore|diff`: copies what a server keeps, and compares two states.

    understudy snapshot save etcd.snapshot cluster.db            into a file for `serve --storage sqlite:cluster.db`
    understudy snapshot restore cluster.db etcd:http://localhost:2379
    understudy snapshot diff before.snapshot after.snapshot

Exit code 0: done, no difference; 1: the states differ, or objects cannot be read; 2: a place that cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.cli.output import counted, print_error

if TYPE_CHECKING:
    from understudy.apiserver.storage.engine import Contents
    from understudy.cli.program import AddParser
    from understudy.controlplane.recorder.storage_places import State
    from understudy.machinery.types import Obj

SAME, DIFFERENT, UNUSABLE = 0, 1, 2
_PLACE = "sqlite:FILE, etcd:URL,URL, a snapshot of etcd, the URL of a server, or kubeconfig:FILE"
_OF_ONE_SERVER = ("resourceVersion", "managedFields")  # metadata that is not compared


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    about = "Copies what a server keeps, and compares two states: 0 done or the same, 1 different, 2 unusable."
    parser = add_parser(description=about)
    todo = parser.add_subparsers(dest="todo", metavar="save|restore|diff", required=True, help="what to do")
    save = todo.add_parser("save", help="copy a place into a file", description="Copies a place into a new file.")
    save.add_argument("place", metavar="FROM", help=_PLACE)
    save.add_argument("file", metavar="FILE", help="a new file, for `serve --storage sqlite:FILE`")
    restore = todo.add_parser("restore", help="copy a file to a place", description="Replaces what a place holds.")
    restore.add_argument("place", metavar="FROM", help=_PLACE)
    restore.add_argument("to", metavar="TO", help="sqlite:FILE or etcd:URL,URL: everything that it holds is replaced")
    restore.add_argument("--replace", action="store_true", help="even if the place holds objects already")
    compare = todo.add_parser("diff", help="compare two places", description="Compares the objects of two places.")
    for name in ("before", "after"):
        compare.add_argument(name, metavar=name.upper(), help=_PLACE)
    compare.add_argument(
        "--all-fields", action="store_true", help="compare apiVersion, resourceVersion and managedFields, too"
    )
    runs: dict[argparse.ArgumentParser, Callable[[argparse.Namespace], Awaitable[int]]]
    runs = {save: _save, restore: _restore, compare: _diff}
    for command, run_one in runs.items():
        text = "the release whose kinds and versions are stored (default: the newest)"
        command.add_argument("--emulated-version", metavar="VERSION", help=text)
        command.set_defaults(run=partial(run, run_one))


def run(run_one: Callable[[argparse.Namespace], Awaitable[int]], args: argparse.Namespace) -> int:
    """Run one of the commands; return the exit code."""
    from understudy.machinery.errors import StatusError

    async def run_it() -> int:
        return await run_one(args)

    try:
        return asyncio.run(run_it())
    except (OSError, ValueError, StatusError) as why:
        print_error(why)
        return UNUSABLE


async def _save(args: argparse.Namespace) -> int:
    file = Path(args.file)
    if file.exists():
        raise ValueError(f"{file}: there is such a file already")
    contents = await _contents(args)
    try:
        return await _write(contents, f"sqlite:{file}", replace=False)
    except BaseException:
        for suffix in ("", "-wal", "-shm", "-lock"):
            Path(f"{file}{suffix}").unlink(missing_ok=True)
        raise


async def _restore(args: argparse.Namespace) -> int:
    return await _write(await _contents(args), args.to, replace=args.replace)


async def _contents(args: argparse.Namespace) -> Contents:
    """Return the contents to copy; without history if several writes share a revision, as when a lease ends."""
    from understudy.apiserver.serving.release import DEFAULT, Release
    from understudy.apiserver.storage.engine import Contents, only_last
    from understudy.controlplane.recorder.storage_places import contents_of

    writes, revision, compacted = await contents_of(args.place, Release.named(args.emulated_version or DEFAULT))
    if len({write.revision for write in writes}) < len(writes):
        writes, compacted = only_last(writes, revision), revision
    writes = [write._replace(value=None if write.value is None else bytes(write.value)) for write in writes]
    return Contents(writes, revision, compacted)


async def _write(contents: Contents, to: str, *, replace: bool) -> int:
    """Let a place hold some contents."""
    from understudy.apiserver.storage.engine import only_last
    from understudy.controlplane.recorder.storage_places import Nobody, engine_of

    engine = engine_of(to, new=True)
    held = await engine.open(Nobody())
    try:
        if held.writes and not replace:
            raise ValueError(f"{to}: it holds objects already, which --replace replaces")
        await engine.replace(contents, partial(counted, what="writes copied"))
    finally:
        await engine.close()
    objects = len(only_last(contents.writes, contents.revision))
    print(f"understudy: {objects} objects up to revision {contents.revision}", file=sys.stderr)
    return SAME


async def _diff(args: argparse.Namespace) -> int:
    from understudy.apiserver.serving.release import DEFAULT, Release
    from understudy.controlplane.recorder.storage_places import state_of

    release = Release.named(args.emulated_version or DEFAULT)
    show = partial(counted, what="objects read")
    before, after = await state_of(args.before, release, show), await state_of(args.after, release, show)
    lines = [*difference_lines(before, after, all_fields=args.all_fields)]
    for line in lines:
        print(line)
    for unread in (*before.unread, *after.unread):
        print_error(unread)
    return DIFFERENT if lines or before.unread or after.unread else SAME


def difference_lines(before: State, after: State, *, all_fields: bool = False) -> Iterator[str]:
    """Yield a line for each object that only one state has (-, +), and lines for one that differs (~) and its fields.

    all_fields  whether versions are compared, too: apiVersion, resourceVersion and managedFields
    """
    for key in sorted(before.objects.keys() | after.objects.keys()):
        old, new = before.objects.get(key), after.objects.get(key)
        if old is None or new is None:
            yield f"{'+' if old is None else '-'} {key}"
            continue
        if not all_fields:
            old, new = _compared(old), _compared(new)
        changes = [*_changes(old, new, "")]
        if changes:
            yield f"~ {key}"
            yield from (f"    {change}" for change in changes)


def _compared(obj: Obj) -> Obj:
    """Return an object without what differs between servers anyway."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _OF_ONE_SERVER}
    return {**{name: value for name, value in obj.items() if name != "apiVersion"}, "metadata": metadata}


def _changes(old: Any, new: Any, path: str) -> Iterator[str]:
    """Yield a text for each field that differs: `spec.replicas: 1 -> 2`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            inner = f"{path}.{name}" if path else name
            if name not in old:
                yield f"{inner}: added {_shown(new[name])}"
            elif name not in new:
                yield f"{inner}: removed {_shown(old[name])}"
            else:
                yield from _changes(old[name], new[name], inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _changes(one, other, f"{path}[{index}]")
    elif old != new:
        yield f"{path}: {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
