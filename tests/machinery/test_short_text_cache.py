"""Caches of what clients send are bounded in bytes, and are emptied together."""

from __future__ import annotations

from collections.abc import Callable

from understudy.machinery.util.caches import (
    LONGEST_KEPT,
    SHORT_KEPT,
    Results,
    cache_results,
    cache_short_texts,
    forget_results,
)


def test_few_longer_texts_are_kept() -> None:
    """A cache keeps a sixteenth as many texts if they are sixteen times as long."""
    texts: list[str] = []

    @cache_short_texts(32)
    def measure(text: str) -> int:
        texts.append(text[0])
        return len(text)

    for _ in range(2):
        for letter in "abcdef":
            measure(letter * SHORT_KEPT)
            measure(letter.upper() * (SHORT_KEPT + 1))
    assert "".join(texts) == "aAbBcCdDeEfFABCDEF"


def test_long_texts_are_not_kept() -> None:
    """The result for a short text is kept, that for a long one is not."""
    texts: list[str] = []

    @cache_short_texts(2)
    def measure(text: str, factor: int) -> int:
        texts.append(text)
        return factor * len(text)

    short, long = "a" * LONGEST_KEPT, "a" * (LONGEST_KEPT + 1)
    for text in (short, long, short, long):
        assert measure(text, 2) == 2 * len(text)
    assert texts == [short, long, long]


def test_results_are_forgotten_together() -> None:
    """Results are computed anew after `forget_results`, in caches of every kind."""
    asked: list[object] = []

    def note(value: object) -> object:
        asked.append(value)
        return value

    functions: list[Callable[[str], object]] = [cache_short_texts(2)(note), cache_results(2, note)]
    results: Results[str, int] = Results()
    results["a"] = 1
    for _ in range(2):
        for function in functions * 2:
            function("text")
            function("t" * (SHORT_KEPT + 1))
        forget_results()
    assert len(asked) == 8
    assert not results
