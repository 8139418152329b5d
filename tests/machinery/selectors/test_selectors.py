"""Label and field selectors: which objects they match, and the errors of malformed ones."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.releases import NEWEST
from understudy.machinery.selectors.fields import parse_fields
from understudy.machinery.selectors.labels import SelectorError, parse_labels
from understudy.machinery.selectors.selector import Selector

LABELS = {"app": "web", "tier": "", "size": "7"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("app=web", True),
        ("app==web,tier=", True),
        ("app!=web", False),
        ("none!=web", True),
        ("app in (web, db)", True),
        ("app notin (web)", False),
        ("none notin (web)", True),
        ("none in (web)", False),
        ("size>5,size<8", True),
        ("size>7", False),
        ("app>1", False),
        ("tier in ()", True),
        ("in in (a)", False),
    ],
)
def test_label_operators(text: str, matches: bool) -> None:
    """Every operator of a label selector matches as upstream does."""
    assert Selector(parse_labels(text, NEWEST)).matches({"metadata": {"labels": LABELS}}) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
    ],
)
def test_malformed_label_selectors_are_refused(text: str, message: str) -> None:
    """A malformed label selector is refused in the real server's words."""
    with pytest.raises(SelectorError) as error:
        parse_labels(text, NEWEST)
    assert str(error.value) == message


def test_field_selectors() -> None:
    """A field selector has terms with = and !=, escapes, and the fields that the kind offers."""
    selector = Selector((), parse_fields(r"metadata.name=a\,b,spec.node!=n1"), {"spec.node": lambda obj: obj["node"]})
    assert selector.matches({"metadata": {"name": "a,b"}, "node": "n2"})
    assert not selector.matches({"metadata": {"name": "a,b"}, "node": "n1"})
    assert selector.name == "a,b"
    with pytest.raises(SelectorError, match="invalid selector: 'x'; can't understand 'x'"):
        parse_fields("x")


@given(st.text(alphabet="ab=!,()<> in\\/", max_size=20))
def test_any_text_is_a_selector_or_an_error(text: str) -> None:
    """Any text is a selector or raises SelectorError."""
    for parse in (lambda text: parse_labels(text, NEWEST), parse_fields):
        with suppress(SelectorError):
            assert all(parse(text))
