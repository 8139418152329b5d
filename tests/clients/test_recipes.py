"""The recipes of docs/howto/clients.md are executed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "howto" / "clients.md"
RECIPES = re.findall(r"^## (\w+)$.*?^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("client", "code"), RECIPES, ids=[client for client, _ in RECIPES])
def test_recipe_passes(pytester: pytest.Pytester, client: str, code: str) -> None:
    """A test of a recipe passes in a project that holds nothing else, without a KUBECONFIG from the start."""
    if find_spec(client) is None:
        pytest.skip(f"the client `{client}` is not installed")
    pytester.makepyfile(code)
    options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "--strict-markers")
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)


def test_every_client_has_a_recipe() -> None:
    """Each client that is tested has a recipe."""
    modules = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    tested = modules - {"recipes", "client_method", "a_day"}
    assert {client for client, _ in RECIPES} == tested
