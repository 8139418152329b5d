"""Predicting alternatives of the grammar takes little, however deep the brackets of a broken expression are."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.cel.checker.environment import device_environment
from understudy.cel.compiler import compile_anew
from understudy.cel.parser import antlr_parser
from understudy.cel.parser.atn import cel_atn
from understudy.cel.parser.atn_simulator import ATNConfig, ParserATNSimulator
from understudy.machinery.releases.version import V1_36


@pytest.mark.parametrize("opening", ["-1[", "-1.a(", "--1[", "[[-1["])
def test_signs_before_brackets_double_nothing(opening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configurations that are looked at grow with the number of brackets, not with its powers of two."""
    looked_at: list[ATNConfig] = []
    add_closure = ParserATNSimulator._add_closure

    def counted(self: ParserATNSimulator, start: ATNConfig, *rest: Any) -> None:
        looked_at.append(start)
        add_closure(self, start, *rest)

    def count(depth: int) -> int:
        looked_at.clear()
        simulators = {quoted: ParserATNSimulator(cel_atn(quoted)) for quoted in (False, True)}
        monkeypatch.setattr(antlr_parser, "atn_simulator", simulators.__getitem__)
        error = compile_anew(opening * depth, device_environment(V1_36)).error
        assert error is not None
        assert "Syntax error: mismatched input '<EOF>'" in error
        return len(looked_at)

    monkeypatch.setattr(ParserATNSimulator, "_add_closure", counted)
    assert count(8) - count(7) == count(7) - count(6)
