"""The order of API versions: v2, v1, v2beta1, v1alpha1, then other names (upstream: `apimachinery/pkg/version`)."""

from __future__ import annotations

import re

from understudy.machinery.util.regex import regex

_VERSION = regex(r"v(\d+)(?:(alpha|beta)(\d+))?", re.ASCII)
_STABILITY = {"": 2, "beta": 1, "alpha": 0}


def priority_key(version: str) -> tuple[int, int, int, int, str]:
    """Return the key that sorts versions with the preferred one first (`CompareKubeAwareVersionStrings`)."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 1, 0, 0, 0, version
    major, stability, minor = match.groups(default="")
    return 0, -_STABILITY[stability], -int(major), -int(minor or 0), ""
