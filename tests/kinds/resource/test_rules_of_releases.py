"""Rules for parts that kinds of resource.k8s.io share, in the releases that differ: expressions, shortened keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from understudy.kinds.resource.common import each, expression, selector
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.releases.version import V1_31, V1_32, V1_36, V1_37, Version
from understudy.machinery.validation.field import Errors, Path, invalid

SELECTOR = "device.driver.startsWith('a')"


@pytest.mark.parametrize(("release", "is_compiled"), [(V1_37, False), (V1_36, True)])
def test_stored_expressions_are_not_compiled_since_1_37(release: Version, is_compiled: bool) -> None:
    """An expression that is unchanged since it was stored is not compiled again."""
    wrong, rules = {"cel": {"expression": "x("}}, ReleaseRules.of(release)
    assert bool(selector.validate(wrong, Path("s"), rules, stored=True)) is is_compiled
    assert len(selector.validate(wrong, Path("s"), rules)) == 1


@pytest.mark.parametrize(("below", "texts"), [(0, []), (1, ["e: Forbidden: too complex, exceeds cost limit"])])
def test_expression_may_cost_its_limit(below: int, texts: list[str]) -> None:
    rules = ReleaseRules.of(V1_37)
    errors, cost = expression.derived_attribute_errors(SELECTOR, Path("e"), rules)
    assert errors == []
    limited = replace(rules, expression_cost=cost - below)
    errors, _ = expression.derived_attribute_errors(SELECTOR, Path("e"), limited)
    assert [error.text(V1_37) for error in errors] == texts


@pytest.mark.parametrize(
    ("text", "short"), [("x" * 10, "x" * 10), ("abcdefghijk", "abcd...ijk"), ("é" * 6, "éé...\ufffdé")]
)
def test_long_keys_are_shortened_to_their_limit(text: str, short: str) -> None:
    """A text of just its limit in bytes stays; of a character that is cut in two each byte is replaced."""
    assert each.shortened(text, 10) == short


@pytest.mark.parametrize(("release", "key"), [(V1_32, "abcd...ijk"), (V1_31, "abcdefghijk")])
def test_paths_shorten_long_keys_since_1_32(release: Version, key: str) -> None:
    def refuse(value: object, path: Path) -> Errors:
        return [invalid(path, str(value), "no")]

    def accept(value: object, path: Path) -> Errors:
        return []

    errors = each.validate_map({"abcdefghijk": "v"}, 10, accept, refuse, Path("m"), ReleaseRules.of(release))
    assert [error.field for error in errors] == [f"m[{key}]"]
