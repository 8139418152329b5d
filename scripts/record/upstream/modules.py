"""Build programs of a release of Kubernetes from its published Go modules.

    home = Modules("v1.37.2").build(("kube-apiserver", "gotypes"))      # the folder with both programs

It takes Go, a gigabyte below ~/.cache/understudy, and ten minutes of two cores the first time; then it is at hand. The
modules that k8s.io/kubernetes keeps in its own repository (`k8s.io/api` and others) are taken in the version that
belongs to it. One that is not published in this version, as some alphas are not, is taken in the newest version of the
release before, and told of: those that kube-apiserver needs are always there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.common.commands import UsageError
from understudy.machinery.releases.version import Version

KUBERNETES = "k8s.io/kubernetes"
OWN = ("gotypes", "gopolicy")  # our programs, which are built with the modules of the release
ETCD = "v3.5.21"  # every release that is served works with it
CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "understudy"
_HERE = Path(__file__).resolve().parents[1]
_VERSION = re.compile(r"v1\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?")
_ETCD_MAIN = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""


@dataclass(frozen=True)
class Modules:
    """The Go modules of `version`, such as "v1.37.2" or "v1.38.0-alpha.0"; raises UsageError for another text.

    replaced   {module: version or folder} of modules to use instead
    cache      the folder below which everything is built
    """

    version: str
    replaced: Mapping[str, str] = field(default_factory=dict)
    cache: Path = CACHE

    def __post_init__(self) -> None:
        if not _VERSION.fullmatch(self.version):
            raise UsageError(f"{self.version!r} is no version of Kubernetes, such as v1.37.2 or v1.38.0-alpha.0")

    @property
    def release(self) -> Version:
        """Return the release of the version, "1.38-alpha" before there is 1.38.0."""
        return Version.of_build(self.version)

    @property
    def home(self) -> Path:
        return self.cache / f"kubernetes-{self.version}"

    def build(self, programs: Collection[str]) -> Path:
        """Return the folder with programs, built if they are not there: those of `OWN`, and of kubernetes' cmd."""
        missing = [name for name in programs if not (self.home / "bin" / name).exists()]
        if missing:
            self._write_module()
            tell(f"building {', '.join(missing)} of {self.version}")
            go(self.home, "mod", "tidy")
            go(self.home, "mod", "vendor")  # error texts name source files, as published programs do only so
            packages = [f"./{name}" if name in OWN else f"{KUBERNETES}/cmd/{name}" for name in missing]
            flags = ["-mod=vendor", "-tags", self._tags(), "-ldflags", self._stamps()]
            go(self.home, "build", *flags, "-o", f"{self.home}/bin/", *packages)
            shutil.rmtree(self.home / "vendor")
        return self.home / "bin"

    def source(self, module: str) -> Path:
        """Return the folder with the source of a module, as it is used."""
        return Path(go(self.home, "list", "-mod=mod", "-m", "-f", "{{.Dir}}", module).strip())

    def _write_module(self) -> None:
        """Write a module that requires Kubernetes, with our programs in it."""
        replaced = self._replacements()
        for name in OWN:
            shutil.rmtree(self.home / name, ignore_errors=True)
            shutil.copytree(_HERE / name, self.home / name)
        if not (self._folder_of("k8s.io/api", replaced) / "apidiscovery" / "v2beta1").exists():
            (self.home / "gotypes" / "v2beta1.go").unlink()  # `go mod tidy` looks for what any tag would import
        imports = "".join(f'\t_ "{KUBERNETES}/cmd/{name}"\n' for name in ("kube-apiserver", "kube-controller-manager"))
        (self.home / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\nimport (\n{imports})\n")
        pairs = sorted(replaced.items())
        lines = "".join(f"\t{name} => {name if is_version(where) else ''} {where}\n" for name, where in pairs)
        text = f"module tools\n\ngo 1.24\n\nrequire {KUBERNETES} {self.version}\n\nreplace (\n{lines})\n"
        (self.home / "go.mod").write_text(text)

    def _folder_of(self, module: str, replaced: Mapping[str, str]) -> Path:
        """Return the folder of a module in the version that replaces it, or the folder that does."""
        where = replaced[module]
        if not is_version(where):
            return Path(where)
        described = json.loads(go(self.home, "mod", "download", "-json", f"{module}@{where}", alone=True))
        return Path(described["Dir"])

    def _replacements(self) -> dict[str, str]:
        """Return {module: version or folder} of what Kubernetes has in its own repository."""
        described = json.loads(go(self.home, "mod", "download", "-json", f"{KUBERNETES}@{self.version}", alone=True))
        own = re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", Path(described["GoMod"]).read_text(), re.M)
        version = self.version.replace("v1.", "v0.", 1)
        asked = [f"{module}@{version}" for module in own if module not in self.replaced]
        answers = decoded(go(self.home, "list", "-m", "-e", "-json", *asked, alone=True))
        out = {}
        for module, answer in zip((each.partition("@")[0] for each in asked), answers, strict=True):
            out[module] = version if "Error" not in answer else self._of_release_before(module) or version
            if out[module] != version:
                tell(f"{module} {version} is not published: {out[module]} instead")
        return out | dict(self.replaced)

    def _of_release_before(self, module: str) -> str | None:
        """Return the newest published version of a module of an earlier release, None if there is none."""
        minor = int(self.version.split(".")[1])
        (answer,) = decoded(go(self.home, "list", "-m", "-e", "-versions", "-json", module, alone=True))
        older = [each for each in answer.get("Versions") or () if int(each.split(".")[1]) < minor]
        return older[-1] if older else None

    def _tags(self) -> str:
        return "" if (self.home / "gotypes" / "v2beta1.go").exists() else "without_v2beta1"

    def _stamps(self) -> str:
        """Return the flags of the linker that write the version into programs."""
        _, minor, _ = self.version.split(".", 2)
        values = {"gitVersion": self.version, "gitMajor": "1", "gitMinor": minor, "gitTreeState": "clean"}
        stamps = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items()]
        return " ".join(("-s -w", *stamps, f"-X k8s.io/client-go/pkg/version.gitVersion={self.version}"))


def build_etcd(cache: Path = CACHE) -> Path:
    """Return the program etcd, built if it is not there."""
    home = cache / f"etcd-{ETCD}"
    if not (home / "etcd").exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "go.mod").write_text(f"module tools\n\ngo 1.24\n\nrequire go.etcd.io/etcd/server/v3 {ETCD}\n")
        (home / "main.go").write_text(_ETCD_MAIN)
        tell(f"building etcd {ETCD}")
        go(home, "mod", "tidy")
        go(home, "build", "-ldflags", "-s -w", "-o", f"{home}/etcd", ".")
    return home / "etcd"


def go(home: Path, *arguments: str, alone: bool = False) -> str:
    """Return the output of a command of Go. Raises SystemExit, with its errors, if it fails.

    alone   run it outside of the module in `home`, which may not be written yet
    """
    home.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    if alone:
        environment |= {"GOFLAGS": "-buildvcs=false -mod=mod", "GO111MODULE": "on"}
        home = home / "none"
        home.mkdir(exist_ok=True)
        (home / "go.mod").write_text("module none\n\ngo 1.24\n")
    try:
        done = subprocess.run(["go", *arguments], cwd=home, capture_output=True, text=True, env=environment)
    except FileNotFoundError:
        raise UsageError("Go is needed: https://go.dev/dl") from None
    if done.returncode:
        sys.exit(f"go {' '.join(arguments)}, in {home}:\n{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def is_version(text: str) -> bool:
    """Report whether a text is the version of a module, and not a folder."""
    return re.match(r"v\d", text) is not None


def decoded(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects that stand one after another in a text."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


def tell(text: str) -> None:
    """Say on stderr what takes its time."""
    print(f"{text} …", file=sys.stderr, flush=True)
