# ruff: noqa: E501 - the tables of templates read best with one type in few lines
"""Random schemas with CEL rules, and values that fit them more or less.

    schema = random_schema(rng)
    value = random_value(rng, schema)
    rule = random_rule(rng, schema)

Most expressions have the types that their functions want; some have others, so that errors are compared as well.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]
Names = tuple[tuple[str, str], ...]  # names in scope: (expression, type)

WORDS = ("", "a", "b", "abc", "hello world", "10.0.0.1", "10.0.0.0/8", "1500m", "2Gi", "1.2.3", "https://e.com/a?b=c",
         "2024-02-30", "2024-01-02", "2024-01-02T03:04:05Z", "1h30m", "é€", "a-b", "x" * 40, "true", "7", "-1.5")  # fmt: skip
NUMBERS = (0, 1, -1, 2, 3, 7, 10, 100, 2**31, -(2**63), 2**63 - 1)
FLOATS = (0.0, 0.5, -1.5, 1e300, 3.0, 2.25)
PATTERNS = ("a", "^a", "b+", "[0-9]+", ".*", "^$", "(a|b)c", "\\\\d", "x{2,3}")
FORMATS = ("byte", "date", "datetime", "dns1035Label", "dns1123Label", "dns1123Subdomain", "labelValue", "qualifiedName",
           "uri", "uuid", "dns1123LabelPrefix")  # fmt: skip
FIELDS = ("s", "t", "i", "n", "b", "l", "q", "m", "o", "d", "by", "dt", "du", "x-y", "namespace", "a.b")

# Expressions by type; a hole is a type, or `type|name:type` with one more name in scope.
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "bool": (
        "{int} > {int}", "{int} <= {double}", "{double} < {double}", "{string} == {string}", "{string} != {string}",
        "{string} < {string}", "{bool} && {bool}", "{bool} || {bool}", "!{bool}", "({bool} ? {bool} : {bool})",
        "{string}.startsWith({string})", "{string}.endsWith({string})", "{string}.contains({string})",
        "{string}.matches('{pattern}')", "{string} in {list(string)}", "{int} in {list(int)}", "{string} in {map(string)}",
        "{list(int)} == {list(int)}", "{list(string)} == {list(string)}", "{map(string)} == {map(string)}",
        "{list(string)}.all(x, {bool|x:string})", "{list(int)}.exists(x, {bool|x:int})",
        "{list(int)}.exists_one(x, {bool|x:int})", "{map(string)}.all(x, {bool|x:string})", "has({field})",
        "{list(int)}.isSorted()", "isIP({string})", "isCIDR({string})", "isQuantity({string})", "isURL({string})",
        "{ip}.isLoopback()", "{ip} == {ip}", "{cidr}.containsIP({ip})", "{cidr}.containsIP({string})",
        "{cidr}.containsCIDR({cidr})", "{quantity}.isGreaterThan({quantity})", "{quantity} == {quantity}",
        "{quantity}.isInteger()", "sets.contains({list(int)}, {list(int)})", "sets.intersects({list(string)}, {list(string)})",
        "sets.equivalent({list(int)}, {list(int)})", "format.{format}().validate({string}).hasValue()",
        "{time} < {time}", "{span} > {span}", "{dyn} == {int}", "{dyn} == {string}", "type({dyn}) == int",
        "{optional(string)}.hasValue()", "ip.isCanonical({string})", "{list(int)}.exists(i, x, {bool|x:int})",
        "isSemver({string})", "{semver} < {semver}", "{semver}.isLessThan({semver})", "{url} == {url}",
    ),
    "int": (
        "{int} + {int}", "{int} - {int}", "{int} * {int}", "{int} / {int}", "{int} % {int}", "-{int}", "size({string})",
        "{list(int)}.size()", "{map(string)}.size()", "int({string})", "int({double})", "int({time})", "{list(int)}.sum()",
        "{list(int)}.max()", "{list(int)}.min()", "{list(int)}[{int}]", "{string}.indexOf({string})",
        "{string}.lastIndexOf({string})", "{list(int)}.indexOf({int})", "({bool} ? {int} : {int})", "{quantity}.asInteger()",
        "{quantity}.compareTo({quantity})", "{time}.getFullYear()", "{time}.getDayOfWeek()", "{time}.getHours('+02:00')",
        "{span}.getMinutes()", "{ip}.family()", "{cidr}.prefixLength()", "sign({quantity})", "{optional(int)}.orValue({int})",
        "{semver}.major()", "{bytes}.size()", "int({dyn})",
    ),
    "double": ("{double} + {double}", "{double} * {double}", "{double} / {double}", "double({int})", "double({string})",
               "{quantity}.asApproximateFloat()", "[{double}, {double}].max()", "({bool} ? {double} : {double})"),
    "string": (
        "{string} + {string}", "string({int})", "string({double})", "string({bool})", "string({time})", "string({span})",
        "string({bytes})", "{string}.substring({int})", "{string}.substring({small}, {small})", "{string}.replace({string}, {string})",
        "{string}.lowerAscii()", "{string}.upperAscii()", "{string}.trim()", "{string}.charAt({small})", "{list(string)}[{small}]",
        "{list(string)}.join({string})", "{string}.find('{pattern}')", "({bool} ? {string} : {string})",
        "'%s-%d'.format([{string}, {int}])", "'%.2f|%s'.format([{double}, {list(int)}])", "{url}.getHost()", "{url}.getPort()",
        "{map(string)}[{string}]", "{optional(string)}.orValue({string})", "{list(string)}.max()", "strings.quote({string})",
        "string({ip})", "{url}.getEscapedPath()", "string({dyn})", "{string}.reverse()",
    ),
    "bytes": ("bytes({string})", "{bytes} + {bytes}", "b'abc'"),
    "list(int)": (
        "[{int}, {int}]", "{list(int)} + {list(int)}", "{list(int)}.map(x, {int|x:int})", "{list(int)}.filter(x, {bool|x:int})",
        "{list(string)}.map(x, size(x))", "[1, 2, 3]", "{list(int)}.map(x, {bool|x:int}, {int|x:int})", "({bool} ? {list(int)} : {list(int)})",
        "{list(int)}.sort()", "{list(int)}.distinct()", "{list(int)}.reverse()", "{list(int)}.slice({small}, {small})",
        "lists.range({small})", "{list(int)}.sortBy(x, {int|x:int})", "{list(int)}.transformList(i, x, {int|x:int})",
    ),
    "list(string)": (
        "[{string}, {string}]", "{list(string)} + {list(string)}", "{list(string)}.map(x, {string|x:string})", "{string}.split({string})",
        "{list(string)}.filter(x, {bool|x:string})", "{map(string)}.map(x, x)", "{string}.findAll('{pattern}')", "['a', 'b']",
        "{string}.split({string}, {small})", "{list(string)}.sort()", "format.{format}().validate({string}).orValue([])",
    ),
    "map(string)": ("{{'a': {string}}}", "{{{string}: {string}, 'b': 'c'}}", "{map(string)}.transformMap(k, x, {string|x:string})"),
    "time": ("timestamp({string})", "timestamp('2024-01-02T03:04:05.5Z')", "{time} + {span}", "{time} - {span}", "timestamp({int})"),
    "span": ("duration({string})", "duration('90s')", "{time} - {time}", "{span} + {span}"),
    "quantity": ("quantity({string})", "quantity('1500m')", "{quantity}.add({quantity})", "{quantity}.sub({int})", "quantity('2Gi')"),
    "ip": ("ip({string})", "ip('10.0.0.1')", "ip('::1')", "{cidr}.ip()"),
    "cidr": ("cidr({string})", "cidr('10.0.0.0/8')", "{cidr}.masked()"),
    "url": ("url({string})", "url('https://e.com:80/a b?c=d')", "url('/a/b')"),
    "semver": ("semver({string})", "semver('1.2.3-rc.1')"),
    "optional(string)": ("optional.of({string})", "{map(string)}[?{string}]", "optional.none()", "{optional(string)}.optMap(x, {string|x:string})"),
    "optional(int)": ("optional.of({int})", "{list(int)}[?{small}]", "{optional(int)}.optMap(x, {int|x:int})"),
    "dyn": ("dyn({int})", "dyn({string})"),
    "small": ("0", "1", "2", "-1", "3", "{int}"),
}  # fmt: skip
LITERALS: Mapping[str, tuple[str, ...]] = {
    "bool": ("true", "false"),
    "int": tuple(str(number) for number in NUMBERS if number > -(2**63)),
    "double": tuple(repr(number) for number in FLOATS),
    "string": tuple(repr(word) for word in WORDS),
    "bytes": ("b'x'",),
    "list(int)": ("[1, 2]",),
    "list(string)": ("['a']",),
    "map(string)": ("{'a': 'b'}",),
    "time": ("timestamp('2024-01-02T03:04:05Z')",),
    "span": ("duration('1h')",),
    "quantity": ("quantity('1')",),
    "ip": ("ip('10.0.0.1')",),
    "cidr": ("cidr('10.0.0.0/8')",),
    "url": ("url('https://e.com')",),
    "semver": ("semver('1.0.0')",),
    "optional(string)": ("optional.of('a')",),
    "optional(int)": ("optional.none()", "optional.of(1)"),
    "dyn": ("dyn(1)",),
    "small": ("0", "1"),
}
_HOLE = re.compile(r"\{(?!\{)([a-z()]+)(?:\|(\w+):(\w+))?\}")


@dataclass
class Expressions:
    """Random expressions. `names` are those of the schema's fields; `wrong` is how often a hole has another type."""

    rng: random.Random
    names: Names
    fields: tuple[str, ...]
    wrong: float = 0.01

    def of(self, kind: str, depth: int, scope: Names = ()) -> str:
        """Return an expression of a type, at most so many templates deep."""
        rng = self.rng
        if rng.random() < self.wrong:
            kind = rng.choice(list(TEMPLATES))
        known = [name for name, of in (*self.names, *scope, *scope, *scope) if of == kind]
        if depth <= 0 or rng.random() < 0.2:
            return rng.choice(known if known and rng.random() < 0.8 else LITERALS[kind])
        template = rng.choice(TEMPLATES[kind])
        filled = self.filled(template, depth - 1, scope)
        return f"({filled})" if " " in filled and not filled.startswith(("(", "[", "{")) else filled

    def filled(self, template: str, depth: int, scope: Names = ()) -> str:
        """Return a template with expressions in its holes, at most so many templates deep."""
        filled = _HOLE.sub(lambda hole: self._fill(hole, depth, scope), template)
        return filled.replace("{{", "{").replace("}}", "}")

    def _fill(self, hole: re.Match[str], depth: int, scope: Names) -> str:
        kind, name, of = hole.groups()
        match kind:
            case "pattern":
                return self.rng.choice(PATTERNS)
            case "format":
                return self.rng.choice(FORMATS)
            case "field":
                return self.rng.choice(self.fields) if self.fields else "{}.a"
        text = self.of(kind, depth, (*scope, (name, of)) if name else scope)
        return text.replace("{", "{{").replace("}", "}}")


def random_schema(rng: random.Random, depth: int = 2) -> Obj:
    """Return the schema of an object with random fields."""
    names = rng.sample(FIELDS, rng.randint(3, 8))
    properties = {name: _field(rng, name, depth) for name in names}
    schema: Obj = {"type": "object", "properties": properties}
    if rng.random() < 0.3:
        schema["required"] = rng.sample(names, 1)
    if rng.random() < 0.1:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    return schema


def _field(rng: random.Random, name: str, depth: int) -> Obj:
    """Return the schema of a field. Its type follows from the name, so that rules find what they need."""
    limit = {"maxLength": rng.choice((5, 20, 100))} if rng.random() < 0.8 else {}
    match name:
        case "i" | "x-y" | "a.b":
            schema: Obj = {"type": "integer"}
        case "n":
            schema = {"type": "number"}
        case "b":
            schema = {"type": "boolean"}
        case "l":
            schema = _list(rng, {"type": "integer"})
        case "q":
            schema = _list(rng, {"type": "string", **limit})
        case "m":
            schema = {"type": "object", "additionalProperties": {"type": "string", **limit}}
            schema |= {"maxProperties": 5} if rng.random() < 0.8 else {}
        case "o" if depth:
            schema = random_schema(rng, depth - 1)
        case "d":
            schema = {"x-kubernetes-int-or-string": True}
        case "by" | "dt" | "du":
            schema = {"type": "string", "format": {"by": "byte", "dt": "date-time", "du": "duration"}[name]}
        case _:
            schema = {"type": "string", **limit}
    if rng.random() < 0.15:
        schema["nullable"] = True
    return schema


def _list(rng: random.Random, items: Obj) -> Obj:
    schema: Obj = {"type": "array", "items": items}
    if rng.random() < 0.8:
        schema["maxItems"] = rng.choice((3, 10, 50))
    if rng.random() < 0.3:
        schema["x-kubernetes-list-type"] = rng.choice(("set", "atomic"))
    return schema


_TYPES = {"integer": "int", "number": "double", "boolean": "bool", "string": "string"}
_FORMAT_TYPES = {"byte": "bytes", "date-time": "time", "duration": "span"}


def names_of(schema: Obj, root: str) -> Iterator[tuple[str, str]]:
    """Yield (expression, type) of what a schema describes."""
    kind = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        yield root, "dyn"
    elif kind == "object" and "additionalProperties" in schema:
        yield root, "map(string)"
    elif kind == "object":
        for name, part in schema["properties"].items():
            yield from names_of(part, f"{root}.{escaped(name)}")
    elif kind == "array":
        yield root, f"list({_TYPES[schema['items']['type']]})"
    else:
        yield root, _FORMAT_TYPES.get(schema.get("format", ""), _TYPES[kind])


def escaped(name: str) -> str:
    """Return the name of a field as rules write it."""
    return "__namespace__" if name == "namespace" else name.replace("-", "__dash__").replace(".", "__dot__")


def random_rule(rng: random.Random, schema: Obj, *, transition: bool = False) -> Obj:
    """Return a rule for the values of a schema."""
    names = [*names_of(schema, "self"), *(names_of(schema, "oldSelf") if transition else ())]
    fields = tuple(f"self.{escaped(name)}" for name in schema.get("properties", ()))
    expressions = Expressions(rng, tuple(names), fields)
    rule: Obj = {"rule": expressions.of("bool", rng.randint(1, 4))}
    if rng.random() < 0.3:
        rule["message"] = rng.choice(("no good", " blank around ", "a: b"))
    if rng.random() < 0.3:
        rule["messageExpression"] = expressions.of("string", 2)
    if rng.random() < 0.3:
        reasons = ("FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate", "FieldValueInvalid")
        rule["reason"] = rng.choice(reasons)
    if rng.random() < 0.2 and fields:
        rule["fieldPath"] = f".{rng.choice([name for name in schema['properties'] if '.' not in name] or ['s'])}"
    if transition and "oldSelf" in rule["rule"] and rng.random() < 0.1:
        rule["optionalOldSelf"] = True
    return rule


def random_value(rng: random.Random, schema: Obj) -> Any:
    """Return a value of a schema, null or with a missing field now and then."""
    if schema.get("nullable") and rng.random() < 0.2:
        return None
    if schema.get("x-kubernetes-int-or-string"):
        return rng.choice((*NUMBERS, *WORDS))
    match schema.get("type"):
        case "object" if "additionalProperties" in schema:
            keys = rng.sample(("a", "b", "c", "x-y"), rng.randint(0, 3))
            return {key: random_value(rng, schema["additionalProperties"]) for key in keys}
        case "object":
            fields = schema["properties"].items()
            value = {name: random_value(rng, part) for name, part in fields if rng.random() < 0.85}
            if schema.get("x-kubernetes-preserve-unknown-fields"):
                value["unknown"] = rng.choice((1, "a", [1], {"b": None}))
            return value
        case "array":
            items = [random_value(rng, schema["items"]) for _ in range(rng.randint(0, 3))]
            unique = schema.get("x-kubernetes-list-type") == "set" and rng.random() < 0.9
            return list(dict.fromkeys(items)) if unique else items
        case "integer":
            return rng.choice(NUMBERS)
        case "number":
            return rng.choice((*FLOATS, 1, -3))
        case "boolean":
            return rng.random() < 0.5
    texts = {
        "byte": ("aGk=", "", "YQ==", "not base64!"),
        "date-time": ("2024-01-02T03:04:05Z", "2024-02-29T23:59:59.123+02:00", "1969-12-31T00:00:00Z", "yesterday"),
        "duration": ("1h", "90s", "-5m", "3 days", "soon"),
    }
    chosen: str = rng.choice(texts.get(schema.get("format", ""), WORDS))
    return chosen[: schema.get("maxLength", 99)]
