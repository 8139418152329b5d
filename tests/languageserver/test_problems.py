"""Problems of a text: the server's errors and warnings at their places, and what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.apiserver.serving.release import DEFAULT
from understudy.languageserver.problems import Judge
from understudy.languageserver.session import Session, definitions_in, files_with_definitions, read_definitions
from understudy.offline.checks import Checks, validators_of

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {size: {type: integer, maximum: 3, description: How large it is.}}
"""
WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nsize: 4\n"


def checks(*releases: str, skip: str = "", ignore_missing: bool = False) -> Checks:
    return Checks(validators_of(list(releases or [DEFAULT]), {}), frozenset([skip]), ignore_missing)


def shown(text: str, judged_by: Checks) -> list[tuple[str, str, str]]:
    """Return (severity, what is underlined, beginning of the message) of each problem."""
    problems = Judge(judged_by).problems(text)
    return [(each.severity.name, text[each.start : each.end], each.message) for each in problems]


# (text, what is underlined, the beginning of the message)
ERRORS = {
    "a wrong value": (
        f'{POD}  - {{name: a, image: "😀", imagePullPolicy: Some}}\n',
        "Some",
        'spec.containers[0].imagePullPolicy: Unsupported value: "Some"',
    ),
    "a missing field": (
        f"{POD}  - name: a\n    image: b\n  - image: c\n",
        "image: c",
        "spec.containers[1].name: Required value",
    ),
    "an unknown field": (
        f"{POD}  - name: a\n    image: b\n    imgae: c\n",
        "imgae",
        'spec.containers[0].imgae: unknown field "spec.containers[0].imgae"',
    ),
    "a wrong type": (
        f"{POD}  - name: a\n    image: b\n    tty: true\n  - name: b\n    image: b\n    tty: 'true'\n",
        "'true'",
        "spec.containers.tty: json: cannot unmarshal string into",
    ),
    "a wrong type of a collection": (
        f"{POD}  - name: a\n    image: b\n    args: c\n",
        "c",
        "spec.containers.args: json: cannot unmarshal string into",
    ),
    "a repeated key": (f"{POD}  - name: a\n    image: b\n    image: c\n", "image: c", 'key "image" already set in map'),
    "no YAML": (f"{POD}  - name: a\n    image: b: c\n", "image: b: c", "yaml: mapping values are not allowed"),
    "an unknown kind": ("apiVersion: v1\nkind: Pot\nmetadata: {name: p}\n", "Pot", 'no matches for kind "Pot"'),
    "an item of a List": (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: A}}\n",
        "A",
        "metadata.name: Invalid value",
    ),
    "JSON": (
        '{"apiVersion": "v1",\n"kind": "Secret", "metadata": {"name": "A"}}',
        '"A"',
        "metadata.name: Invalid value",
    ),
}


@pytest.mark.parametrize("row", ERRORS)
def test_an_error_is_at_its_field(row: str) -> None:
    """A wrong value, an unknown key, or what lacks a field is underlined; for no YAML the line is."""
    text, underlined, message = ERRORS[row]
    [problem] = shown(text, checks())
    assert problem[:2] == ("ERROR", underlined)
    assert problem[2].startswith(message)


LEFT_ALONE = {
    "no object": "services:\n  a: {image: b}\n",
    "no object and no YAML": '{\n // comment\n "a": 1 "b"}',
    "only a version": "apiVersion: v2\nname: chart\n",
    "a template of Helm": f"{POD}  - name: a\n    image: {{{{ .Values.image }}}}\n---\napiVersion: v1\nkind: Pot\n",
    "nothing": "",
    "nothing between documents": "---\n---\n# comment\n---\n",
    "directives": "%TAG !y! tag:yaml.org,2002:\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: !y!str 1}\n",
}


@pytest.mark.parametrize("row", LEFT_ALONE)
def test_other_texts_are_left_alone(row: str) -> None:
    """A text without an object of Kubernetes has no problems, even if it is no YAML."""
    assert shown(LEFT_ALONE[row], checks()) == []


def test_warnings_are_at_their_fields() -> None:
    """The server's warnings are shown: those of deprecated versions, and those that name a field."""
    endpoints = "apiVersion: v1\nkind: Endpoints\nmetadata: {name: e}\n"
    deprecated = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    assert shown(endpoints, checks()) == [("WARNING", "v1", deprecated)]
    pod = f"{POD}  - name: a\n    image: b\n    env:\n    - name: A\n    - name: A\n"
    [(severity, underlined, message)] = shown(pod, checks())
    assert (severity, underlined) == ("WARNING", "name: A")
    assert message.startswith("spec.containers[0].env[1]: hides previous definition")


def test_a_broken_document_hides_nothing_of_others() -> None:
    """Each document is judged by itself, at its place in the text."""
    text = f"{POD}  - name: A\n    image: b\n---\napiVersion: [\n---\n{POD}  - name: B\n    image: b\n"
    assert [(each[1], each[2][:4]) for each in shown(text, checks())] == [
        ("A", "spec"),
        ("apiVersion: [", "yaml"),
        ("B", "spec"),
    ]


def test_problems_name_the_releases_that_have_them() -> None:
    """With several releases a problem ends with those that have it, unless all do."""
    claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: A}\nspec: {}\n"
    by_two = [(message[:13], message[-7:]) for _, _, message in shown(claim, checks("1.33", "1.34"))]
    assert ("no matches fo", " [1.33]") in by_two
    assert ("metadata.name", " [1.34]") in by_two
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: A}\n"
    assert [message[-2:] for _, _, message in shown(secret, checks("1.33", "1.34"))] == ["')"]


def test_what_is_skipped_has_no_problems() -> None:
    """The flags of `validate` hold: kinds that are skipped, custom resources that no definition defines."""
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: A}\n"
    assert shown(secret, checks(skip="Secret")) == []
    [unknown] = shown(WIDGET, checks())
    assert unknown[:2] == ("WARNING", "Widget")
    assert shown(WIDGET, checks(ignore_missing=True)) == []


def test_parts_that_stay_are_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change costs as much as the document that it is in."""
    judge, judged = Judge(checks()), []
    monkeypatch.setattr(judge, "_judged", lambda text, parsed: iter(judged.append(text) or ()))  # type: ignore[func-returns-value]
    documents = [f"---\n{POD}  - name: a{i}\n" for i in range(5)]
    judge.problems("".join(documents))
    judge.problems("".join([*documents[:2], "---\nnew: 1\n", *documents[3:]]))
    assert judged == [*documents, "---\nnew: 1\n"]
    judge.forget_all_but([documents[0]])
    judge.problems(documents[0] + documents[1])
    assert judged[6:] == [documents[1]]


# --- definitions


def problems_of(session: Session, uri: str) -> list[str]:
    return [problem.message for problem in session.problems(uri)]


TOO_LARGE = "size: Invalid value: 4: size in body should be less than or equal to {}"


def test_definitions_that_are_being_written_count_at_once() -> None:
    """An open definition stands for its file, unsaved; when it is closed, the file counts again."""
    session = Session(checks())
    assert session.set_text("file:///w.yaml", "/w.yaml", WIDGET) is False
    assert problems_of(session, "file:///w.yaml")[0].startswith('no matches for kind "Widget"')
    assert session.set_files({"/crd.yaml": definitions_in(DEFINITION) or []}) is True
    assert problems_of(session, "file:///w.yaml") == [TOO_LARGE.format(3)]
    assert session.schemas.of("example.com/v1", "Widget") is not None
    assert session.set_text("file:///crd.yaml", "/crd.yaml", DEFINITION) is True
    assert session.set_text("file:///crd.yaml", "/crd.yaml", DEFINITION + "# comment") is False
    assert session.set_text("file:///crd.yaml", "/crd.yaml", DEFINITION.replace("m: 3", "m: 2")) is True
    assert problems_of(session, "file:///w.yaml") == [TOO_LARGE.format(2)]
    assert session.set_text("file:///crd.yaml", "/crd.yaml", "# all gone") is True
    assert problems_of(session, "file:///w.yaml")[0].startswith('no matches for kind "Widget"')
    assert session.close("file:///crd.yaml") is True
    assert problems_of(session, "file:///w.yaml") == [TOO_LARGE.format(3)]
    assert session.set_files({"/crd.yaml": []}) is True
    assert problems_of(session, "file:///w.yaml")[0].startswith('no matches for kind "Widget"')


def test_a_definition_stays_while_it_is_no_yaml() -> None:
    """While a line of a definition is typed, custom resources keep their rules."""
    session = Session(checks())
    session.set_text("file:///w.yaml", "/w.yaml", WIDGET)
    session.set_text("file:///crd.yaml", "/crd.yaml", DEFINITION)
    assert session.set_text("file:///crd.yaml", "/crd.yaml", DEFINITION + "  names: [") is False
    assert problems_of(session, "file:///w.yaml") == [TOO_LARGE.format(3)]


def test_definitions_of_a_workspace(tmp_path: Path) -> None:
    """Definitions are found below a folder, but in hidden and excluded files; what cannot be read defines nothing."""
    for name in ("a/crd.yaml", ".git/crd.yaml", "node_modules/crd.yaml", "b/crd.yml", "b/text.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(DEFINITION)
    (tmp_path / "broken.yaml").write_text("kind: CustomResourceDefinition: [")
    (tmp_path / "bytes.yaml").write_bytes(b"# CustomResourceDefinition \xff")
    files = files_with_definitions(str(tmp_path), lambda path: path.endswith(".yml"))
    assert [Path(path).relative_to(tmp_path).as_posix() for path, _ in files] == ["a/crd.yaml"]
    assert read_definitions(str(tmp_path / "missing.yaml")) == []
