"""The frame of the page: markup, style and one script, made of the files in `page`.

The script is the modules of `SCRIPTS` in one file, so that a page on a disk, which cannot load modules, has the same
one. Modules export functions and constants by `export` in front of them, and import them by names, one line for each
module that they use. Nothing is compiled.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex

# In the order in which they are run: a module imports those before.
SCRIPTS = (
    *("vendor/preact.js", "text.js", "yaml.js", "place.js", "past.js", "source.js", "report.js", "parts.js"),
    *("changes.js", "diff.js", "lifetime.js", "life.js"),
    *("objects.js", "editor.js", "object.js", "inventory.js", "devices.js"),
    *("commands.js", "request.js", "watches.js", "requests.js", "app.js"),
)
STYLE = "style.css"
_IMPORT = regex(r'^import (\{[^}]*\}) from "\./([^"]+)";$', re.MULTILINE)
_EXPORT = regex(r"^export (async function|function|const|class) (\w+)", re.MULTILINE)
_EXPORTS = regex(r"export\{([^}]*)\};?\s*$")  # at the end of a module that others have made
_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src {connect}; img-src data:; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_LINKS = '<link rel="stylesheet" href="style.css">\n<script src="app.js" defer></script>\n'


class Asset(NamedTuple):
    """A file of the frame, as it is sent. `tag` names its content (ETag)."""

    body: bytes
    content_type: str
    tag: str


@cache
def text_of(name: str) -> str:
    """Return the text of a file in `page`."""
    return Path(__file__).with_name("page").joinpath(name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """Return all modules as one script."""
    return "\n".join(['"use strict";', "const modules = {};", *map(_module, SCRIPTS)])


def _module(name: str) -> str:
    """Return a module as a function that puts what it exports into `modules`."""
    exported: list[str] = []

    def named(match: re.Match[str]) -> str:
        exported.append(match[2])
        return f"{match[1]} {match[2]}"

    def renamed(match: re.Match[str]) -> str:
        pairs = (each.split(" as ") for each in match[1].split(","))
        exported.extend(f"{outside}: {inside}" for inside, outside in pairs)
        return ""

    text = _IMPORT.sub(lambda match: f'const {match[1]} = modules["{match[2]}"];', text_of(name))
    text = _EXPORTS.sub(renamed, _EXPORT.sub(named, text))
    return f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {", ".join(exported)} }};\n}})();'


@cache
def assets() -> dict[str, Asset]:
    """Return the files of the frame by their paths below /ui/."""
    made = {
        "": (text_of("index.html"), "text/html; charset=utf-8"),
        "app.js": (script(), "text/javascript; charset=utf-8"),
        STYLE: (text_of(STYLE), "text/css; charset=utf-8"),
    }
    return {path: _asset(text.encode(), content_type) for path, (text, content_type) in made.items()}


def _asset(body: bytes, content_type: str) -> Asset:
    return Asset(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:20]}"')


def content_security_policy() -> str:
    """Return the policy of the page that a server sends: it runs its own script, and asks its own server."""
    policy = _POLICY.format(script="'self'", style="'self'", connect="'self'")
    return f"{policy}; frame-ancestors 'none'"


def report(data: str) -> str:
    """Return the page as one file that shows some data: base64 of packed JSON, which `report.js` reads.

    Its policy lets it run its own script, and load and ask nothing.
    """
    style = text_of(STYLE)
    policy = _POLICY.format(script=_source_hash(script()), style=_source_hash(style), connect="'none'")
    head, body = text_of("index.html").replace("Asking the server …", "Reading the report …").split(_LINKS)
    frame, end = body.split("</body>")
    return "".join(
        [
            head.replace("<title>", f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>'),
            f"<style>{style}</style>\n{frame}",
            f'<script type="application/octet-stream" id="report">{data}</script>\n',
            f"<script>{script()}</script>\n</body>{end}",
        ]
    )


def _source_hash(text: str) -> str:
    """Return the source expression of an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
