"""Record the facts of a release of Kubernetes: the first step of "Add a release" in CONTRIBUTING.md.

    python -m scripts.record release v1.38.0
    python -m scripts.record release v1.38.0-alpha.0 --replace k8s.io/component-base=../component-base

It builds kube-apiserver of that version, and two small programs of ours, from Go's published modules; runs one server
that serves everything and one without flags; and writes `src/understudy/schemas/RELEASE` and the release's part of the
files beside: `schemas.py` and `bootstrap_policy.py` tell what is in them.

A version with a stage, such as -alpha.0, makes a preview: `schemas/1.38-alpha` has the files that differ from those of
the release before. Recording the release itself removes it.

Go is needed, as new as the release asks for. The first build takes ten minutes on two cores, the rest a minute.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from scripts.record import bootstrap_policy, schemas
from scripts.record.again import replacement
from scripts.record.upstream.modules import CACHE, OWN, Modules, build_etcd, go, tell
from scripts.record.upstream.server import api_server
from understudy.machinery.releases.version import V1_37, Version

EVERYTHING = ("--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true")
# The source files that make the schemes which errors name.
SCHEMES = {
    "legacyscheme": "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go",
    "apiextensions": "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go",
    "aggregator": "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go",
    "internalversion": "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go",
    "webhook": "k8s.io/apiserver/pkg/util/webhook/client.go",
    "admission": "k8s.io/apiserver/pkg/server/options/admission.go",
    "webhookadmission": "k8s.io/apiserver/pkg/admission/plugin/webhook/config/kubeconfig.go",
    "policyconfig": "k8s.io/apiserver/pkg/admission/plugin/policy/config/config.go",
    "webhookmanifest": "k8s.io/kubernetes/pkg/admission/plugin/webhook/manifest/loader/loader.go",
    "policymanifest": "k8s.io/kubernetes/pkg/admission/plugin/policy/manifest/loader/validating_loader.go",
    "podsecurity": "k8s.io/pod-security-admission/admission/api/scheme/scheme.go",
    "podtolerationrestriction": "k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction/config.go",
    "eventratelimit": "k8s.io/kubernetes/plugin/pkg/admission/eventratelimit/config.go",
    "clientconfig": "k8s.io/client-go/tools/clientcmd/api/latest/latest.go",
    "exec": "k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go",
    "resourcequota": "k8s.io/apiserver/pkg/admission/plugin/resourcequota/config.go",
    "client": "k8s.io/client-go/kubernetes/scheme/register.go",
}
_POLICY = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
_GATE = re.compile(r"features\.([A-Z]\w*)")
_HERE = Path(__file__).parent


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_build_arguments(parser)


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which programs of Kubernetes are built, and where."""
    parser.add_argument("version", help="of k8s.io/kubernetes: v1.38.0, v1.38.0-alpha.0")
    parser.add_argument(
        "--replace",
        action="append",
        type=replacement,
        default=[],
        metavar="MODULE=VERSION",
        help="takes a module in another version, or from a folder; may be repeated",
    )
    parser.add_argument(
        "--cache", type=Path, default=CACHE, metavar="DIR", help="where to build (default: %(default)s)"
    )


def modules_of(options: argparse.Namespace) -> Modules:
    """Return the modules that the arguments name."""
    return Modules(options.version, dict(options.replace), options.cache.resolve())


def run(options: argparse.Namespace) -> int:
    modules = modules_of(options)
    version = modules.release
    programs, etcd = modules.build(("kube-apiserver", *OWN)), build_etcd(modules.cache)
    if not version.is_preview:
        remove_previews(version)
    go_types = json.loads(printed(programs / "gotypes")) | {"schemes": schemes(modules), "go": go_version(modules)}
    declared = json.loads(validations(modules)) if version >= V1_37 else None
    tell("asking two servers")
    with (
        api_server(programs / "kube-apiserver", etcd, *EVERYTHING) as server,
        api_server(programs / "kube-apiserver", etcd) as with_default_gates,
    ):
        schemas.record(version, server, with_default_gates, go_types, declared)
    gates = with_needed(gates_of_policy(modules.source("k8s.io/kubernetes") / _POLICY), go_types["depends"] or {})
    return bootstrap_policy.record(version, json.loads(printed(programs / "gopolicy", *gates)))


def remove_previews(version: Version) -> None:
    """Remove the recorded previews of a release."""
    for folder in schemas.SCHEMAS.glob(f"{version.number}-*"):
        shutil.rmtree(folder)


def printed(program: Path, *arguments: str) -> str:
    """Return the output of a program."""
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def validations(modules: Modules) -> str:
    """Return the declared rules in the sources of a release, as `govalidations` prints them."""
    folders = [str(modules.source(f"k8s.io/{name}")) for name in ("kubernetes", "api", "apimachinery")]
    return go(_HERE / "govalidations", "run", "main.go", *folders)


def schemes(modules: Modules) -> dict[str, str]:
    """Return {scheme: its name}, which is the line that makes it in the source of a release that has it."""
    found = {}
    for name, path in SCHEMES.items():
        module = "/".join(path.split("/")[:2])
        file = modules.source(module) / path.removeprefix(f"{module}/")
        if not file.exists():
            continue
        lines = file.read_text().splitlines()
        number = next(number for number, line in enumerate(lines, 1) if "runtime.NewScheme()" in line)
        found[name] = f"{path}:{number}"
    return found


def go_version(modules: Modules) -> str:
    """Return the version of Go with which the published programs of a release are built, such as "go1.26.5"."""
    return "go" + (modules.source("k8s.io/kubernetes") / ".go-version").read_text().strip()


def gates_of_policy(folder: Path) -> set[str]:
    """Return the feature gates that the source of the bootstrap policy asks for."""
    sources = [path.read_text() for path in folder.glob("*.go") if not path.name.endswith("_test.go")]
    return {gate for text in sources for gate in _GATE.findall(text)}


def with_needed(gates: set[str], depends: Mapping[str, list[str]]) -> list[str]:
    """Return gates, with all those without which they cannot be on, sorted."""
    needed = gates.union(*(depends.get(gate) or () for gate in gates))
    return sorted(gates) if needed == gates else with_needed(needed, depends)
