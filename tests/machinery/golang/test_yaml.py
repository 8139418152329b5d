"""YAML as sigs.k8s.io/yaml reads and writes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.releases import NEWEST
from understudy.machinery.golang.yaml_reader import YAMLError, load_yaml
from understudy.machinery.golang.yaml_writer import dump_yaml, dump_yaml_v3
from understudy.machinery.serializer.json import DecodeError, decode_yaml, encode, yaml_to_json
from understudy.machinery.typeinfo.go_types import Schemas

CONFIG_MAP = Schemas.of(NEWEST).kind("", "v1", "ConfigMap")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes", "true"),
        ("y", "true"),
        ("off", "false"),
        ("~", "null"),
        ("", "null"),
        ("010", "8"),
        ("0o10", "8"),
        ("08", "8"),
        ("0x1F", "31"),
        ("-0b11", "-3"),
        ("1_000", "1000"),
        ("+1", "1"),
        ("1.", "1"),
        (".5", "0.5"),
        ("1e3", "1000"),
        ("1e400", '"1e400"'),
        ("18446744073709551615", "18446744073709551615"),
        ("99999999999999999999", "100000000000000000000"),
        ("1" * 5000, f'"{"1" * 5000}"'),
        ("12:30:45", '"12:30:45"'),
        ("2024-01-01", '"2024-01-01"'),
        ("2001-12-14t21:59:43.10-05:00", '"2001-12-14t21:59:43.10-05:00"'),
        ('"yes"', '"yes"'),
        ("!!str 5", '"5"'),
        ("!!float 5", "5"),
        ("!!binary eA==", '"x"'),
        ("!foo 5", '"5"'),
        ("5.5.5", '"5.5.5"'),
        (".", '"."'),
        ("-", None),
        ("{b: 1, a: <&>}", '{"a":"\\u003c\\u0026\\u003e","b":1}'),
    ],
)
def test_plain_scalars_have_types(text: str, expected: str | None) -> None:
    """Plain words and numbers are read as YAML 1.1 does in Go."""
    if expected is None:
        with pytest.raises(DecodeError):
            yaml_to_json(f"a: {text}".encode())
    else:
        assert yaml_to_json(f"a: {text}".encode()) == (f'{{"a":{expected}}}'.encode(), [])


def test_keys_are_read_as_strings() -> None:
    """Keys of every scalar type become strings, as JSON needs."""
    assert yaml_to_json(b"1: a\n1.5: b\nyes: c\n0x10: d")[0] == b'{"1":"a","1.5":"b","16":"d","true":"c"}'


def test_merge_keys_and_anchors() -> None:
    """The first of several merged mappings wins; a key that is set after a merge is a duplicate."""
    body = b"a: &a {x: 1, z: 2}\nb: {<<: *a, x: 3}\nc: {<<: [{x: 5}, *a]}\nd: *a"
    converted, strict = yaml_to_json(body)
    assert converted == b'{"a":{"x":1,"z":2},"b":{"x":3,"z":2},"c":{"x":5,"z":2},"d":{"x":1,"z":2}}'
    assert strict[0].startswith('yaml: unmarshal errors:\n  line 2: key "x" already set in map')


def test_duplicate_key_keeps_its_last_value() -> None:
    """The last value of a duplicate key counts; the strict error names all its lines before other errors."""
    body = b"metadata:\n  name: a\n  name: b\ndata: {x: y}\nextra: 1\ndata: {}"
    obj, strict = decode_yaml(body, CONFIG_MAP)
    assert obj["metadata"]["name"] == "b"
    assert strict == [
        'yaml: unmarshal errors:\n  line 3: key "name" already set in map\n  line 6: key "data" already set in map',
        'unknown field "extra"',
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a\nb: c", "yaml: line 2: mapping values are not allowed in this context"),
        ("a:\n  - b\n c: d", "yaml: line 2: did not find expected key"),
        ("- a\nb: c", "yaml: line 1: did not find expected '-' indicator"),
        ("{a", "yaml: line 1: did not find expected ',' or '}'"),
        ("a: [1\nb: 2", "yaml: line 1: did not find expected ',' or ']'"),
        ("@x", "yaml: found character that cannot start any token"),
        ('"x', "yaml: found unexpected end of stream"),
        ("a: 'x\n", "yaml: line 2: found unexpected end of stream"),
        ("}", "yaml: did not find expected node content"),
        ("a: - x", "yaml: block sequence entries are not allowed in this context"),
        ('a: "\\q"', "yaml: found unknown escape character"),
        ('a: "b\\/c"', "yaml: found unknown escape character"),
        ('a: b\nc: "d\n  e\\/f"', "yaml: line 3: found unknown escape character"),
        ('{"a":"b\\/c","d":"\\ud83d"}', "yaml: found unknown escape character"),
        ('{"a":"b\\\\/c","d":"\\ud83d"}', "yaml: found invalid Unicode character escape code"),
        ('a: "\\u12g4"', "yaml: did not find expected hexdecimal number"),
        ("a: *u", "yaml: unknown anchor 'u' referenced"),
        ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("a: !!binary '%'", "yaml: !!binary value contains invalid base64 data"),
        ("<<: 1", "yaml: map merge requires map or sequence of maps as the value"),
        ("~: 1", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 1"),
        ("? [a]\n: b", 'yaml: invalid map key: []interface {}{"a"}'),
        ("a: .inf", "json: unsupported value: +Inf"),
        ("a: \x01", "yaml: control characters are not allowed"),
        ("%YAML 1.2\n---\na: b", "yaml: found incompatible YAML document"),
        ("a: |\n\tx", "yaml: line 2: found a tab character where an indentation space is expected"),
        ("a: !a!b 1", "yaml: found undefined tag handle"),
        ("a: 'x\n---\n'", "yaml: line 2: found unexpected document indicator"),
        ("a: .nan\n_: .inf", "json: unsupported value: +Inf"),
    ],
)
def test_syntax_errors_are_those_of_go(text: str, expected: str) -> None:
    """Errors have the words and lines of go-yaml."""
    with pytest.raises(DecodeError) as raised:
        yaml_to_json(text.encode())
    assert str(raised.value) == expected


def test_excessive_aliases_are_refused() -> None:
    """A document that aliases make far larger than its text is refused."""
    levels = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10))
    with pytest.raises(DecodeError, match="document contains excessive aliasing"):
        yaml_to_json(f"a0: &a0 x\n{levels}".encode())


def test_merge_keys_that_multiply_are_refused() -> None:
    """Merged mappings count as aliased nodes: a few hundred bytes would be merged for minutes."""
    levels = "\n".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 4)}]}}" for i in range(1, 16))
    with pytest.raises(DecodeError, match="document contains excessive aliasing"):
        yaml_to_json(f"a0: &a0 {{a: b}}\n{levels}".encode())


def test_mapping_that_merges_itself_is_refused() -> None:
    """A merge key may not refer to the mapping that it stands in."""
    with pytest.raises(DecodeError, match="yaml: anchor 'a' value contains itself"):
        yaml_to_json(b"a: &a {<<: *a}")


DEEP: dict[str, Callable[[int], str]] = {
    "flow sequences": lambda depth: "a: " + "[" * depth + "]" * depth,
    "flow mappings": lambda depth: "a: " + "{a: " * depth + "}" * depth,
    "block sequences": lambda depth: "a:\n" + "- " * depth + "x",
}


@pytest.mark.parametrize(
    "collections",
    [
        "block sequences",
        *(pytest.param(name, marks=pytest.mark.maintenance) for name in DEEP if name.startswith("flow")),
    ],
)
def test_nesting_is_limited_as_in_go(collections: str) -> None:
    """Collections nest to 10,000 levels; JSON's reader refuses one more, and go-yaml what is beyond."""
    make = DEEP[collections]
    assert decode_yaml(make(9999).encode(), CONFIG_MAP)[1] == ['unknown field "a"']
    with pytest.raises(DecodeError, match=r"^invalid character '.' exceeded max depth$"):
        decode_yaml(make(10000).encode(), CONFIG_MAP)
    with pytest.raises(DecodeError, match=r"^yaml: (line 2: )?exceeded max depth of 10000$"):
        decode_yaml(make(10001).encode(), CONFIG_MAP)


def test_parser_in_python_is_used_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents are read by the parser in Python, and refused in its words, if PyYAML was built without libyaml."""
    monkeypatch.delattr("yaml.CSafeLoader")
    body = b"a: &a {x: yes, z: 010}\nb: [*a, ~]\n"
    assert yaml_to_json(body)[0] == b'{"a":{"x":true,"z":8},"b":[{"x":true,"z":8},null]}'
    for wrong in (b"a: b: c", b"a: \xff", b"%YAML 1.2\n---\na: b"):
        with pytest.raises(DecodeError, match=r"^yaml: "):
            yaml_to_json(wrong)


def test_body_is_its_first_document() -> None:
    """Later documents of a request body are ignored."""
    assert yaml_to_json(b"a: b\n---\nc: d: e")[0] == b'{"a":"b"}'


def test_manifest_documents_have_lines() -> None:
    """Each document of a manifest has the line on which it begins; empty documents are left out."""
    documents = load_yaml("# comment\na: 1\n---\n---\n- b\n...\n---\nc: {d: 1, d: 2}\n")
    assert [(document.root.line, document.value) for document in documents] == [
        (2, {"a": 1}),
        (5, ["b"]),
        (8, {"c": {"d": 2}}),
    ]
    assert documents[2].duplicates == ['line 8: key "d" already set in map']


WRITTEN: list[tuple[Any, str]] = [
    (
        {"b": 1, "a": [{"y": 1, "x": {}}, [], ["z", None]], "a10": True, "a2": 1.5},
        'a:\n- x: {}\n  "y": 1\n- []\n- - z\n  - null\na2: 1.5\na10: true\nb: 1\n',
    ),
    (
        {"a": "yes", "b": "010", "c": "", "d": "12:30", "e": "2024-01-01"},
        'a: "yes"\nb: "010"\nc: ""\nd: "12:30"\ne: "2024-01-01"\n',
    ),
    (
        {"a": "x: y", "b": "# no", "c": "it's", "d": "'q'", "e": "- x"},
        "a: 'x: y'\nb: '# no'\nc: it's\nd: '''q'''\ne: '- x'\n",
    ),
    (
        {"a": "one\ntwo", "b": "one\n", "c": "one\n\n", "d": " x\ny"},
        "a: |-\n  one\n  two\nb: |\n  one\nc: |+\n  one\n\nd: |2-\n   x\n  y\n",
    ),
    ({"a": "tab\tx", "b": "é", "c": "\x07 😀"}, 'a: "tab\\tx"\nb: é\nc: "\\a \\U0001F600"\n'),
    ({"k" * 129: {"a": 1}}, f"? {'k' * 129}\n: a: 1\n"),
    ({"a": "word " * 20 + "end"}, "a: " + "word " * 15 + "word\n  " + "word " * 4 + "end\n"),
    ("x", "x\n"),
    ({}, "{}\n"),
    (1e21, "1e+21\n"),
]


@pytest.mark.parametrize(("value", "expected"), WRITTEN)
def test_written_yaml_is_gos(value: Any, expected: str) -> None:
    """Keys are sorted naturally, strings quoted where needed, and long texts folded at 80 columns."""
    assert dump_yaml(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["x", {"b": ["1", {"c": "a\nb"}], "a": {"k": "yes"}}], """- x
- b:
    - "1"
    - c: |-
        a
        b
  a:
    k: yes
"""),
        ({"rule": "self.size > 0\n&& true\n", "message": "a: b", "e": [], "m": {}}, """rule: |
    self.size > 0
    && true
message: 'a: b'
e: []
m: {}
"""),
        (
            ["true", "null", "1.0", "", " x", "it's", "a\tb\nc", "a\tb", "2001-01-01", "<<", 1.5, 1e21, 1e16,
             True, None],
            """- "true"
- "null"
- "1.0"
- ""
- ' x'
- it's
- |-
  a\tb
  c
- "a\\tb"
- "2001-01-01"
- <<
- 1.5
- 1e+21
- 10000000000000000
- true
- null
""",
        ),
        ({"a": {"b": [["x"]]}}, "a:\n    b:\n        - - x\n"),
        ("a\nb", "|-\n    a\n    b\n"),
        ({"k" * 129: {"a": "word " * 30 + "end"}}, f"? {'k' * 129}\n:   a: {'word ' * 30}end\n"),
    ],
)  # fmt: skip
def test_yaml_v3(value: Any, expected: str) -> None:
    """Keys keep their order, lists and mappings are indented by 4 columns, and long texts are not folded."""
    assert dump_yaml_v3(value) == expected


TEXT = st.text("ab 0159.:-_#'\"\n\t,[]{}&*!|>%@`~yesnoTf\\=<+é", max_size=90)
KEYS = st.text(" ab01:-'\"\n~y", max_size=4)  # without <: the key << is written plain, and not read again
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_written_yaml_can_be_read_back(value: Any) -> None:
    """Any value that is written is read back unchanged."""
    converted, strict = yaml_to_json(dump_yaml(value).encode())
    assert strict == []
    assert converted == encode(in_order(value))


def in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: b\nc: [1\nd: e\n", 3),
        ("a:\n  - b\n c: d\n", 3),
        ("a: b\nc: [\n\n\n", 2),
        ("a\nb: c", 2),
        ("a: 'x\n---\n'", 2),
        ("---\na: 1\n---\nb: *c", 4),
        ("a: &a\n  b: 1\n  c: *a", 3),
        ("a:\n- 1\n- !!int x\n- 2", 3),
        ("a: 1\n~: 2", 2),
        ("a: 1\n<<: 2", 2),
        ("a: 1\nb: \x01", 2),
        ("# \n%YAML 1.2\n---\na: b", 2),
        ("a:\n" + "[" * 10001, 2),
    ],
)
def test_error_knows_its_line(text: str, line: int) -> None:
    """An error knows the line on which it stands, also where Go's text names none or the one before it."""
    with pytest.raises(YAMLError) as caught:
        load_yaml(text)
    assert caught.value.line == line
    assert "line" not in caught.value.problem


@pytest.mark.parametrize(
    ("octets", "wrong"),
    [
        (b"\xff", "invalid leading UTF-8 octet"),
        (b"\xc3(", "invalid trailing UTF-8 octet"),
        (b"\xe2\x82", "incomplete UTF-8 octet sequence"),
        (b"\xc0\x80", "invalid length of a UTF-8 sequence"),
        (b"\xf0\x80\x80\x80", "invalid length of a UTF-8 sequence"),
        (b"\xed\xa0\x80", "invalid Unicode character"),
    ],
)
def test_invalid_utf_8_is_refused(octets: bytes, wrong: str) -> None:
    """The error names the first byte that is not UTF-8."""
    with pytest.raises(DecodeError) as caught:
        yaml_to_json(b"a: " + octets)
    assert str(caught.value) == f"yaml: {wrong}"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("1.5", "1.5"),
        ("1234567.5", "1.2345675e+06"),
        ("16777217.0", "1.6777216e+07"),
        ("0.00001", "1e-05"),
        ("-0.0", "-0"),
        ("3.4028235e38", "3.4028235e+38"),
        ("1e300", ".inf"),
        ("-.Inf", "-.inf"),
        (".nan", ".nan"),
        ("1" * 30, "1.1111111e+29"),
    ],
)
def test_number_as_a_key(key: str, name: str) -> None:
    """A key that is a number is the text of a float of 32 bits, as kube-apiserver 1.32 took it."""
    assert load_yaml(f"{{{key}: a}}")[0].value == {name: "a"}


@pytest.mark.parametrize(("number", "text"), [(".inf", "+Inf"), ("-.Inf", "-Inf"), (".NaN", "NaN")])
def test_number_that_json_does_not_know_is_refused(number: str, text: str) -> None:
    """An infinite number, or none, in a manifest is an error with the line of its document, as kubectl has it."""
    with pytest.raises(YAMLError, match=re.escape(f"error converting YAML to JSON: json: unsupported value: {text}")):
        load_yaml(f"a: b\n---\nc:\n- {{d: {number}}}\n")
