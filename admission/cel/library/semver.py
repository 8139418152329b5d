"""Semantic versions: `semver("1.2.3")` and what can be asked of one."""

from __future__ import annotations

DECLARATIONS = """
compareTo
    semver_compare_to: kubernetes.Semver.(kubernetes.Semver) -> int
isGreaterThan
    semver_is_greater_than: kubernetes.Semver.(kubernetes.Semver) -> bool
isLessThan
    semver_is_less_than: kubernetes.Semver.(kubernetes.Semver) -> bool
isSemver
    is_semver_string: (string) -> bool
major
    semver_major: kubernetes.Semver.() -> int
minor
    semver_minor: kubernetes.Semver.() -> int
patch
    semver_patch: kubernetes.Semver.() -> int
semver
    string_to_semver: (string) -> kubernetes.Semver
"""
