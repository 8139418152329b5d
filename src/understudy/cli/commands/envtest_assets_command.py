"""`understudy envtest-assets`: lays down the programs that controller-runtime's envtest starts.

Exit code 0: written; 2: wrong flags, or a folder that cannot be written.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.cli.flags import add_server_flags
from understudy.cli.output import print_error

if TYPE_CHECKING:
    from understudy.cli.program import AddParser

CONTROLLERS = "namespace"
SCRIPT = """\
#!/bin/sh
# Runs understudy in place of {name}. Written by `understudy envtest-assets`; the folder may be moved.
python={python}
if [ ! -x "$python" ]; then
  echo "{name}: $python is gone, and understudy with it: run \\`understudy envtest-assets\\` again" >&2
  exit 1
fi
unset PYTHONDONTWRITEBYTECODE # as in container images: each start would compile all modules again
exec "$python" -P -m {command} "$@"
"""
NO_KUBECTL = """\
#!/bin/sh
# Written by `understudy envtest-assets`, which found no kubectl on PATH.
echo "kubectl: there was none on PATH when understudy wrote this file: put one in its place" >&2
exit 1
"""


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    about = "Lays down etcd, kube-apiserver and kubectl for suites in Go that use envtest (KUBEBUILDER_ASSETS=DIR)."
    parser = add_parser(description=about)
    parser.add_argument("dir", metavar="DIR", type=Path, help="where to write them")
    add_server_flags(parser, ("emulated_version", "controllers"), {"controllers": CONTROLLERS})
    parser.add_argument("--kubectl", metavar="PATH", help="the kubectl to link to (default: the one on PATH)")
    parser.set_defaults(run=run, controllers=None)


def run(args: argparse.Namespace) -> int:
    """Write the programs; return the exit code."""
    from understudy.apiserver.serving.release import Release
    from understudy.controlplane.controllers import short_names

    try:
        release = Release.named(args.emulated_version).version
        controllers = ",".join(short_names([CONTROLLERS] if args.controllers is None else args.controllers))
        kubectl = _kubectl(args.kubectl)
        args.dir.mkdir(parents=True, exist_ok=True)
        _write_program(args.dir / "etcd", "etcd")
        flags = [f"--emulated-version={release}", f"--controllers={controllers}"]
        _write_program(args.dir / "kube-apiserver", "kube_apiserver", flags)
        _write_kubectl(args.dir / "kubectl", kubectl)
    except (ValueError, OSError) as why:
        print_error(why)
        return 2
    print(f"export KUBEBUILDER_ASSETS={shlex.quote(str(args.dir.absolute()))}")
    return 0


def _kubectl(path: str | None) -> Path | None:
    """Return the kubectl to link to, None if there is none. Raises ValueError for one that cannot be run."""
    program = shutil.which(path or "kubectl")
    if path and program is None:
        raise ValueError(f"--kubectl: {path} is no program")
    return Path(program).absolute() if program else None


def _write_program(file: Path, module: str, flags: Sequence[str] = ()) -> None:
    """Write a shell script that runs a module of understudy with this Python. Raises OSError."""
    command = shlex.join([f"understudy.cli.envtest.{module}", *flags])
    _write(file, SCRIPT.format(name=file.name, python=shlex.quote(sys.executable), command=command))


def _write_kubectl(file: Path, kubectl: Path | None) -> None:
    """Link to a kubectl, or write a script that says that there is none. Raises OSError."""
    if kubectl is None:
        _write(file, NO_KUBECTL)
    elif file.absolute() != kubectl:
        new = file.with_name("kubectl.new")
        new.unlink(missing_ok=True)
        new.symlink_to(kubectl)
        os.replace(new, file)


def _write(file: Path, text: str) -> None:
    """Write a script, which replaces a file or a link at once: a program may be running."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text)
    new.chmod(0o755)
    os.replace(new, file)
