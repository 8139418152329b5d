"""The scopes of ResourceQuotas."""

from __future__ import annotations

import pytest

from tests.http import send
from understudy import Server
from understudy.machinery.validation import bad_values

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_unknown_scopes_are_printed_once(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    """Every unknown scope is an error that shows all scopes: they are printed once, not once for each error."""
    printed = 0
    text = bad_values.Typed.text

    def counted(*args: object) -> str:
        nonlocal printed
        printed += 1
        return text(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(bad_values.Typed, "text", counted)
    scopes = [f"scope-{number}" for number in range(30)]
    quota = {"metadata": {"name": "scopes"}, "spec": {"hard": {"pods": "1"}, "scopes": scopes}}
    with Server(emulated_version=release) as server:
        answer = send(server, "POST", QUOTAS, quota)
    causes = answer.json()["details"]["causes"]
    assert answer.status == 422
    assert answer.json()["message"].count("unsupported scope") == 1
    assert len(causes) == (30 if release == "1.32" else 1)
    assert printed == 1
