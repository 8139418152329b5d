"""Node selectors: which nodes they match, and what is wrong with them."""

from __future__ import annotations

import pytest

from understudy.machinery.releases.version import V1_33, V1_34
from understudy.machinery.selectors.nodes import NodeSelector

NODE = {"metadata": {"name": "n1", "labels": {"zone": "a", "size": "4"}}}


def expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([], False),
        ([{}], False),
        ([{}, {"matchExpressions": [expression("zone", "In", "a", "b")]}], True),
        (
            [
                {"matchExpressions": [expression("zone", "In", "b")]},
                {"matchExpressions": [expression("size", "Gt", "3")]},
            ],
            True,
        ),
        ([{"matchExpressions": [expression("zone", "In", "a"), expression("size", "Lt", "4")]}], False),
        ([{"matchExpressions": [expression("gpu", "DoesNotExist"), expression("zone", "NotIn", "b")]}], True),
        ([{"matchExpressions": [expression("zone", "Gt", "3")]}], False),
        ([{"matchFields": [expression("metadata.name", "In", "n1")]}], True),
        ([{"matchFields": [expression("metadata.name", "NotIn", "n1")]}], False),
        (
            [
                {
                    "matchExpressions": [expression("zone", "Exists")],
                    "matchFields": [expression("metadata.name", "In", "n2")],
                }
            ],
            False,
        ),
    ],
)
def test_node_selector(terms: list[dict[str, object]], matches: bool) -> None:
    """A node meets a selector if it meets all requirements of one term; a term without any is met by no node."""
    selector = NodeSelector({"nodeSelectorTerms": terms})
    assert (selector.matches(NODE), selector.error(V1_34)) == (matches, "")


OPERATORS = '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("of_labels", "error"),
    [
        (expression("a", "Near", "1"), f'.operator: Unsupported value: "Near": supported values: {OPERATORS}'),
        ({"key": "a"}, f'.operator: Unsupported value: "": supported values: {OPERATORS}'),
        (
            expression("a", "Gt", "x"),
            ".values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            expression("a", "Lt"),
            ".values: Invalid value: null: for 'Gt', 'Lt' operators, exactly one value is required",
        ),
        (expression("a", "In"), ".values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        (
            expression("a", "Exists", "1"),
            '.values: Invalid value: ["1"]: values set must be empty for exists and does not exist',
        ),
        (expression("a", "NotIn", "a b"), f'.values[0][a]: Invalid value: "a b": {LABEL}'),
    ],
)
def test_wrong_requirement(of_labels: dict[str, object], error: str) -> None:
    """A requirement that is wrong is an error, and the term that has it matches no node; other terms may."""
    wrong = {"matchExpressions": [expression("zone", "Exists"), of_labels]}
    selector = NodeSelector({"nodeSelectorTerms": [wrong, {"matchExpressions": [expression("gpu", "Exists")]}]})
    assert selector.error(V1_34) == f"nodeSelectorTerms[0].matchExpressions[1]{error}"
    assert not selector.matches(NODE)
    assert NodeSelector({"nodeSelectorTerms": [wrong, {"matchExpressions": [expression("zone", "Exists")]}]}).matches(
        NODE
    )


def test_wrong_fields() -> None:
    """Fields know two operators, each with one value; several errors stand in brackets."""
    fields = [expression("metadata.name", "Exists"), expression("metadata.name", "In", "a", "b")]
    selector = NodeSelector({"nodeSelectorTerms": [{}, {"matchFields": fields}]})
    of_operator = '[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"'
    of_values = '[1].values: Invalid value: []string{"a", "b"}: must have one element'
    at = "nodeSelectorTerms[1].matchFields"
    assert selector.error(V1_33) == f"[{at}{of_operator}, {at}{of_values}]"


def test_node_without_a_name() -> None:
    """Requirements of fields are not looked at for a node without a name, as upstream has it."""
    selector = NodeSelector({"nodeSelectorTerms": [{"matchFields": [expression("metadata.name", "In", "other")]}]})
    assert selector.matches({"metadata": {}})
    assert not selector.matches(NODE)
