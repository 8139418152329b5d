"""Show which types and fields of OpenAPI documents have no description yet, and keep the files with descriptions tidy.

    python -m scripts.record descriptions                    counts by package, over all releases
    python -m scripts.record descriptions io.k8s.api.apps    what is missing of a package: {type: {field: its schema}}
    python -m scripts.record descriptions --tidy             sort types and fields in all files

Descriptions stand in `src/understudy/schemas/descriptions`. They are shared by all versions and releases, and written
in our own words: facts of the interface are upstream's, its prose is not copied.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from understudy.apiserver.endpoints.openapi.descriptions import described, package_and_type
from understudy.apiserver.serving.release import previews, releases
from understudy.machinery.types import Obj

SCHEMAS = Path(__file__).resolve().parents[2] / "src/understudy/schemas"


def types(release: str) -> Iterator[tuple[str, Obj]]:
    """Yield the name and schema of each type of a release, without descriptions."""
    for path in sorted((SCHEMAS / release / "openapi").glob("*.json")):
        yield from json.loads(path.read_text())["components"]["schemas"].items()


def missing(release: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (type, field, schema of the field) of what has no description in a release; the field "" is the type."""
    for name, schema in types(release):
        shown = described(name, schema)
        if "description" not in shown:
            yield name, "", {"type": schema.get("type", "")}
        for field, shape in shown.get("properties", {}).items():
            if "description" not in shape:
                yield name, field, shape


def tidy(path: Path) -> None:
    """Sort types and fields of a file with descriptions."""
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("package", nargs="?")
    parser.add_argument("--tidy", action="store_true", help="sort all files")


def run(args: argparse.Namespace) -> int:
    if args.tidy:
        for path in sorted((SCHEMAS / "descriptions").glob("*.json")):
            tidy(path)
    packages: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for release in (*releases(), *previews()):
        for name, field, shape in missing(str(release)):
            package, plain = package_and_type(name)
            packages[package][plain][field] = shape
    if args.package:
        print(json.dumps(packages[args.package], indent=1, sort_keys=True))
    else:
        for package, lacking in sorted(packages.items()):
            print(f"{sum(map(len, lacking.values())):5} {package}")
    return 0
