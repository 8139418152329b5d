"""The function `jsonpatch.escapeKey`, for the keys in the paths of JSON patches (RFC 6901)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.values import Value

FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "string_jsonpatch_escapeKey_string": lambda text: text.replace("~", "~0").replace("/", "~1")
}
