"""Completion and hover: what may stand at a place, in text that is being typed, and what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.languageserver.completion import complete
from understudy.languageserver.hover import hover
from understudy.languageserver.outline import Entry, outline
from understudy.languageserver.parts import parse, parts_of
from understudy.languageserver.schema import Schemas
from understudy.languageserver.symbols import symbols
from understudy.offline.validator import Validator

ROOT = Path(__file__).parent.parent.parent
POD = "apiVersion: v1\nkind: Pod\n"
SERVICE = "apiVersion: v1\nkind: Service\n"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["state"],
                        "properties": {
                            "age": {"type": "integer", "description": "How old it is."},
                            "state": {"type": "string", "enum": ["On", "Broken"], "default": "Broken"},
                            "template": {
                                "type": "object",
                                "x-kubernetes-embedded-resource": True,
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    return Schemas(Validator.of(str(NEWEST)).with_definitions([DEFINITION]).serving)


def place(marked: str) -> tuple[str, int]:
    """Return a text without its cursor, which is ▮, and the offset of that."""
    return marked.replace("▮", ""), marked.index("▮")


def typed(marked: str, schemas: Schemas) -> dict[str, str]:
    """Return {label: the line with the choice taken} in the order in which an editor shows them."""
    text, offset = place(marked)
    completed = complete(text, offset, schemas)
    if completed is None:
        return {}
    lines = {}
    for choice in sorted(completed.choices, key=lambda choice: choice.rank):
        after = text[: completed.start] + choice.text + text[completed.end :]
        lines[choice.label] = after[text.rfind("\n", 0, offset) + 1 :].partition("\n")[0]
    return lines


# (text with the cursor, the first choices, and the line with the first one)
ROWS = {
    "nothing is there": ("▮", ["apiVersion", "kind", "metadata"], "apiVersion: "),
    "the next document": ("a: b\n---\n▮\n", ["apiVersion", "kind", "metadata"], "apiVersion: "),
    "the kind is unknown": ("apiVersion: v1\n▮", ["kind", "metadata"], "kind: "),
    "version of a kind": ("kind: Deployment\napiVersion: ▮", ["apps/v1"], "apiVersion: apps/v1"),
    "versions of several groups": (
        "apiVersion: ev▮\nkind: Event\n",
        ["v1", "events.k8s.io/v1"],
        "apiVersion: v1",
    ),
    "kinds of a version": (
        "apiVersion: apps/v1\nkind: ▮",
        ["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"],
        "kind: ControllerRevision",
    ),
    "kinds of a definition": ("apiVersion: example.com/v1\nkind: ▮", ["Widget"], "kind: Widget"),
    "fields of an object": (f"{POD}▮", ["metadata", "spec", "status"], "metadata:"),
    "a word is begun": (f"{POD}sp▮", ["metadata", "spec", "status"], "metadata:"),
    "required fields first": (f"{SERVICE}spec:\n  ports:\n  - ▮", ["port", "appProtocol", "name"], "  - port: "),
    "an item after its first line": (
        f"{SERVICE}spec:\n  ports:\n  - port: 80\n    ▮\n  type: ClusterIP\n",
        ["appProtocol", "name", "nodePort"],
        "    appProtocol: ",
    ),
    "fields that are there are left out": (
        f"{SERVICE}spec:\n  ports:\n  - name: a\n    ▮\n    port: 80\n    appProtocol: x\n",
        ["nodePort", "protocol", "targetPort"],
        "    nodePort: ",
    ),
    "a list without an item": (
        f"{SERVICE}spec:\n  ports:\n    ▮\n",
        ["port", "appProtocol", "name"],
        "    - port: ",
    ),
    "a key is changed": (f"{SERVICE}sp▮ek:\n  type: x\n", ["metadata", "spec", "status"], "metadata:"),
    "a choice": (
        f"{POD}spec:\n  containers:\n  - imagePullPolicy: ▮\n    name: x",
        ["Always", "IfNotPresent", "Never"],
        "  - imagePullPolicy: Always",
    ),
    "a boolean": (f"{POD}spec:\n  hostNetwork: t▮\n", ["false", "true"], "  hostNetwork: false"),
    "after lines that are no YAML": (
        f"{POD}metadata:\n  name: x\n  labels\nspec:\n  dnsPolicy: [ {{\n  tolerations:\n  - ke▮",
        ["effect", "key", "operator"],
        "  - effect: ",
    ),
    "in braces": (
        f"{SERVICE}spec:\n  ports: [{{port: 80, ▮}}]\n",
        ["appProtocol"],
        "  ports: [{port: 80, appProtocol: }]",
    ),
    "a value in braces that do not end": (
        f"{SERVICE}spec:\n  ports: [{{protocol: ▮\n  type: x\n",
        ["SCTP", "TCP", "UDP"],
        "  ports: [{protocol: SCTP",
    ),
    "below a list in the column of its key": (
        f"{POD}spec:\n  containers:\n  - name: x\n  ▮",
        ["activeDeadlineSeconds", "affinity"],
        "  activeDeadlineSeconds: ",
    ),
    "an item of a List": (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  spec:\n    ▮",
        ["allocateLoadBalancerNodePorts", "clusterIP"],
        "    allocateLoadBalancerNodePorts: ",
    ),
    "a custom resource": (
        "apiVersion: example.com/v1\nkind: Widget\n▮",
        ["metadata", "state", "age", "template"],
        "metadata:",
    ),
    "a text that YAML takes for a boolean": (
        "apiVersion: example.com/v1\nkind: Widget\nstate: ▮",
        ["Broken", "On"],
        "state: Broken",
    ),
    "an object in a custom resource": (
        "apiVersion: example.com/v1\nkind: Widget\ntemplate:\n  apiVersion: v1\n  kind: Pod\n  spec:\n    hostIPC: ▮",
        ["false", "true"],
        "    hostIPC: false",
    ),
    "JSON, a field": (
        '{"apiVersion": "v1", "kind": "Pod",\n"▮"}',
        ["metadata", "spec", "status"],
        '"metadata"}',
    ),
    "JSON, a field without quotes": ('{"apiVersion": "v1", "kind": "Pod",\n▮}', ["metadata"], '"metadata": }'),
    "JSON, a value": (
        '{"apiVersion": "v1", "kind": "Pod", "spec": {\n"dnsPolicy": ▮',
        ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        '"dnsPolicy": "ClusterFirst"',
    ),
    "a comment": (f"{POD}spec:\n  # ▮", [], ""),
    "a literal text": ("apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    kind: ▮", [], ""),
    "a value that may be anything": (f"{POD}metadata:\n  name: ▮", [], ""),
    "a kind that is not there": ("apiVersion: v1\nkind: Pot\nspec:\n  ▮", [], ""),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_may_stand_is_offered(row: str, schemas: Schemas) -> None:
    """Fields and values are those of the schema at the place, in the order of their use, as they are to be written."""
    marked, first, line = ROWS[row]
    lines = typed(marked, schemas)
    assert list(lines)[: len(first)] == first
    assert next(iter(lines.values()), "") == line
    assert bool(lines) == bool(first)


def test_a_text_that_is_no_text_in_yaml_is_quoted(schemas: Schemas) -> None:
    """`On` is a boolean in YAML 1.1, so the choice has quotes."""
    assert typed("apiVersion: example.com/v1\nkind: Widget\nstate: ▮", schemas)["On"] == 'state: "On"'


def test_a_choice_tells_its_type_and_meaning(schemas: Schemas) -> None:
    """Fields are offered with their type and description."""
    text, offset = place("apiVersion: example.com/v1\nkind: Widget\n▮")
    completed = complete(text, offset, schemas)
    assert completed is not None
    about = {choice.label: (choice.type, choice.about.partition("\n\n")[2]) for choice in completed.choices}
    assert about["age"] == ("integer", "How old it is.")
    assert about["state"] == ("string (required)", 'One of `On`, `Broken`\n\nDefault: `"Broken"`')
    assert about["metadata"][0] == "ObjectMeta"


HOVERS = {
    "a field": (f"{POD}sp▮ec:\n  containers: []\n", "**spec** `PodSpec`\n\n"),
    "a required one": (f"{POD}spec:\n  contain▮ers: []\n", "**containers** `[]Container`, required\n\n"),
    "a value": (f"{SERVICE}spec: {{ports: [{{protocol: T▮CP}}]}}\n", "**protocol** `string`\n\n"),
    "a kind": ("apiVersion: v1\nkind: Po▮d", "**Pod** `v1`\n\n"),
    "a custom field": ("apiVersion: example.com/v1\nkind: Widget\nag▮e: 3", "**age** `integer`\n\nHow old it is."),
    "a custom kind": (
        "apiVersion: example.com/v1\nki▮nd: Widget\n",
        "**Widget** `example.com/v1`",
    ),
    "a version": ("apiVersion: policy/▮v1\n", "**policy/v1**\n\nServed in Kubernetes 1.31 and later: "),
    "JSON": ('{"apiVersion": "v1", "kind": "Pod", "sp▮ec": {}}', "**spec** `PodSpec`\n\n"),
    "a broken text": (f"{POD}spec:\n  a: {{\n  hostN▮etwork\n  : true\n  dnsPolicy▮", ""),
    "an unknown field": (f"{POD}spek▮: 3", ""),
    "a comment": (f"{POD}# sp▮ec:", ""),
}


@pytest.mark.parametrize("row", HOVERS)
def test_what_is_pointed_at_is_described(row: str, schemas: Schemas) -> None:
    """A field, a kind or a version is described where the mouse is upon it."""
    marked, about = HOVERS[row]
    text, offset = place(marked)
    shown = hover(text, offset, schemas)
    assert (shown.text if shown else "")[: len(about) or None] == about


def test_releases_that_know_it_are_named(schemas: Schemas) -> None:
    """A kind tells which releases serve it; a field that not all of them have tells which do."""
    claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceCl▮aim\n"
    assert _shown(claim, schemas).endswith("Served in Kubernetes 1.34 and later")
    rules = f"{POD}spec:\n  containers:\n  - restartPolicyRul▮es: []\n"
    assert _shown(rules, schemas).endswith("In Kubernetes 1.34 and later")
    assert "In Kubernetes" not in _shown(f"{POD}sp▮ec: {{}}", schemas)


def test_a_deprecated_kind_says_so(schemas: Schemas) -> None:
    """The kind's description holds the warning that the server would send."""
    shown = _shown("apiVersion: v1\nkind: Endpo▮ints\n", schemas)
    assert "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice" in shown


def _shown(marked: str, schemas: Schemas) -> str:
    text, offset = place(marked)
    shown = hover(text, offset, schemas)
    assert shown is not None
    return shown.text


def test_objects_of_a_text_are_listed() -> None:
    """Each object has a symbol, those in a List too, and those of a text that is no YAML."""
    text = (
        f"{POD}metadata: {{name: a}}\n---\n{POD}metadata:\n  generateName: b-\n  x\n---\n"
        "apiVersion: v1\nkind: List\nitems:\n- kind: Node\n  metadata: {name: c}\n- kind: Secret\n"
    )
    listed = [(each.kind, each.name, text[each.kind_start : each.kind_end]) for each in symbols(text)]
    assert listed == [("Pod", "a", "Pod"), ("Pod", "b-", "Pod"), ("Node", "c", "Node"), ("Secret", "", "Secret")]
    assert all(each.start <= each.kind_start and each.kind_end <= each.end for each in symbols(text))


# --- the outline


def skeleton(value: Any) -> Any:
    """Return the keys and items of a value, without scalars and empty collections."""
    if isinstance(value, dict):
        return {key: skeleton(item) for key, item in value.items()} or None
    return [skeleton(item) for item in value] or None if isinstance(value, list) else None


def outlined(entry: Entry) -> Any:
    children = [child for child in entry.children if child.step is not None]
    if children and isinstance(children[0].step, int):
        return [outlined(child) for child in children]
    return {child.step: outlined(child) for child in children} or None


FILES = sorted((ROOT / "src/understudy/worlds").rglob("*.yaml"))


def test_outlines_are_those_of_the_parser() -> None:
    """Valid YAML that is made out line by line has the keys and items that the parser reads."""
    documents = [part.text for file in FILES for part in parts_of(file.read_text()) if parse(part.text).documents]
    assert len(documents) > 30
    for text in documents:
        assert outlined(outline(text)) == skeleton(parse(text).documents[0].value), text


@pytest.mark.parametrize(
    "text",
    [
        "--- {a: {b: [1, {c: }]}}",
        "--- # comment\na:\n- b: 1\n  c:\n  - d\n  - e: f\n- g\n",
        "a:\n  - - b: 1\n      c: 2\n    - d\n  -\n    e: f\n",
        '\'a b\': "c: d" # e: f\n"g": h#i\nj: !!str k\nl: &m\n  nn: o\n',
        "a: |\n  b: c\n\n  d: e\nf: >-\n  g: h\ni:\n- |\n  j: k\n- l\n",
        'a: {b: \'c}\', d: "e\\"]",\n  f: [g,\n h]}\ni: j\n',
        '{"a": {"b": [{"c": 1}, []]},\n\n "d": "e: {f"}',
        "a-b.c/d: e\n-f: g\n",
    ],
)
def test_outlines_of_unusual_texts(text: str) -> None:
    """Quotes, comments, literal texts, tags, lists in lists and braces over several lines are read as YAML has them."""
    assert outlined(outline(text)) == skeleton(parse(text).documents[0].value)
