"""Fill the references of requests, {{3.metadata.uid}}, with values of earlier answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

REFERENCE = re.compile(r"\{\{([\w.-]+)\}\}")


def filled(node: Any, value_of: Callable[[str], Any]) -> Any:
    """Return a value whose references are replaced; a text that is one reference becomes the value itself.

    value_of   returns the value of a reference, given what stands between its braces
    """
    if isinstance(node, dict):
        return {key: filled(value, value_of) for key, value in node.items()}
    if isinstance(node, list):
        return [filled(item, value_of) for item in node]
    if not isinstance(node, str):
        return node
    if whole := REFERENCE.fullmatch(node):
        return value_of(whole[1])
    return REFERENCE.sub(lambda match: str(value_of(match[1])), node)
