"""JSON patches (RFC 6902) as kube-apiserver applies them, with evanphx/json-patch v4.

Where that departs from the RFC: `replace` of a missing key adds it; a missing key reads as null, in `test`, `copy` and
`move`; `add` without a value stores null; indices may be negative; `replace` of the whole document by a scalar does
nothing; whatever stands before the first slash of a path is ignored; `test` compares scalars as they are written, the
object's in Go's spelling ("a\\u003cb" is not "a<b", 1.0 is not 1). That is nearly all of what a patch library
decides, so that this does not stand on one.

The result is ordered like the text that the real server prints in errors: objects that a patch has walked through are
sorted by key, all others keep their order. The real server crashes on `test` without a value of a missing path and on a
path through a null that the same patch has put there; here that is a patch that does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from understudy.machinery.errors import bad_request, request_too_large, unprocessable
from understudy.machinery.golang.json_reader import parse as parse_json
from understudy.machinery.golang.json_reader import to_text
from understudy.machinery.golang.json_writer import Raw, encode
from understudy.machinery.golang.text import parse_int
from understudy.machinery.patch import patch_body as bodies
from understudy.machinery.types import Obj

MAX_OPERATIONS = 10000
MAX_COPIED_BYTES = 3 * 1024 * 1024
_FIELDS = ("op", "path", "from", "value")


@dataclass(frozen=True, slots=True)
class Patch:
    """Decoded operations. `strict_errors` are what strict field validation refuses and the default warns of:
    `json patch unknown field "[0].foo"`. `tests`: whether an operation tests; then scalars keep their spelling."""

    operations: list[Obj]
    strict_errors: list[str]
    tests: bool


def parse(body: bytes, validate: bool = True) -> Patch:
    """`validate` is false for fieldValidation=Ignore. Raises StatusError 400 for what is not a list of operations, 413
    for more than 10000 of them."""
    prefix, of, element = "error decoding patch: ", "[]handlers.jsonPatchOp", "handlers.jsonPatchOp"
    if not validate:
        prefix, of, element = "", "jsonpatch.Patch", "jsonpatch.Operation"
    try:
        value, duplicates = bodies.loads(body, bodies.keep_spelling)
    except bodies.DecodeError as why:
        raise bad_request(f"{prefix}{why}") from None
    if value is None:
        value = []
    if not isinstance(value, list):
        raise bad_request(f"{prefix}json: cannot unmarshal {bodies.kind_of(value)} into Go value of type {of}")
    members = _members(body) if duplicates else map(_kinds, value)
    for item, fields in zip(value, members, strict=True):
        if item is not None and not isinstance(item, dict):
            raise bad_request(f"{prefix}json: cannot unmarshal {bodies.kind_of(item)} into Go value of type {element}")
        if validate:
            _check_types(fields)
    if len(value) > MAX_OPERATIONS:
        raise request_too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(value)}")
    operations = [item or {} for item in value]
    strict = _strict_errors(operations, duplicates) if validate else []
    tests = any(operation.get("op") == "test" for operation in operations)
    return Patch(as_written(body).operations if tests else operations, strict, tests)


def as_written(body: bytes) -> Patch:
    """A patch that was parsed already, with the spelling of its strings: for tests, and for the texts of errors."""
    operations = [item or {} for item in bodies.loads_as_written(body) or ()]
    return Patch(operations, [], any(operation.get("op") == "test" for operation in operations))


def _kinds(operation: Any) -> list[tuple[str, str]]:
    """The names of an operation's fields, and what JSON kind their values are."""
    return [(name, bodies.kind_of(value)) for name, value in operation.items()] if isinstance(operation, dict) else []


def _members(body: bytes) -> Iterator[list[tuple[str, str]]]:
    """The same of every operation in a body, with fields that stand there more than once."""
    for node in parse_json(to_text(body)).value:
        yield [(name, value.kind) for name, value in node.value] if node.kind == "object" else []


def _check_types(fields: list[tuple[str, str]]) -> None:
    """Raises StatusError 400 for the first field that is no string, but should be one."""
    for name, kind in fields:
        if name in _FIELDS[:3] and kind not in ("string", "null"):
            into = f"Go struct field jsonPatchOp.{name} of type string"
            raise bad_request(f"error decoding patch: json: cannot unmarshal {kind} into {into}")


def _strict_errors(operations: list[Obj], duplicates: list[str]) -> list[str]:
    unknown = [f"[{i}].{key}" for i, operation in enumerate(operations) for key in operation if key not in _FIELDS]
    return [f'json patch unknown field "{path}"' for path in unknown] + [
        f'json patch duplicate field "{path}"' for path in duplicates
    ]


def apply(patch: Patch, current: Obj) -> Any:
    """The patched object; `current` stays as it is, and the result may share parts with it. A patch that replaces the
    whole document may leave a list. Raises StatusError 422 without a cause for a patch that does not apply."""
    document = _Document(current)
    for operation in patch.operations:
        document.run(operation)
    return _finished(document.root, deep=patch.tests)


class _Walked(dict[str, Any]):
    """An object that the patch has walked through: a copy of its own, sorted in the end."""


class _WalkedList(list[Any]):
    """The same for a list."""


_MISSING = object()


class _Document:
    def __init__(self, current: Obj) -> None:
        self.root: Any = _Walked(current)
        self.copied = 0

    def run(self, operation: Obj) -> None:
        apply_one = _OPERATIONS.get(str(operation.get("op")))
        if apply_one is None:
            _refuse()
        apply_one(self, operation)

    def find(self, path: Any) -> tuple[Any, str]:
        """The container of what `path` names, and the last name."""
        if not isinstance(path, str):
            _refuse()
        names = [name.replace("~1", "/").replace("~0", "~") for name in path.split("/")]
        if len(names) < 2:
            _refuse()
        container = self.root
        for name in names[1:-1]:
            container = self._walk(container, name)
        return container, names[-1]

    def _walk(self, container: Any, name: str) -> Any:
        child = _get(container, name)
        if type(child) in (_Walked, _WalkedList):
            return child
        if isinstance(child, dict):
            child = _Walked(child)
        elif isinstance(child, list):
            child = _WalkedList(child)
        else:
            _refuse()
        container[name if isinstance(container, dict) else _index(container, name)] = child
        return child

    def add(self, operation: Obj) -> None:
        container, name = self.find(operation.get("path"))
        _add(container, name, operation.get("value"))

    def remove(self, operation: Obj) -> None:
        container, name = self.find(operation.get("path"))
        _remove(container, name)

    def replace(self, operation: Obj) -> None:
        value = operation.get("value", _MISSING)
        if operation.get("path") == "":
            if isinstance(value, dict):
                self.root = _Walked(value)
            elif isinstance(value, list):
                self.root = _WalkedList(value)
            elif value is _MISSING:
                _refuse()
            return
        container, name = self.find(operation.get("path"))
        if isinstance(container, list):
            container[_index(container, name)] = operation.get("value")
        else:
            container[name] = operation.get("value")

    def move(self, operation: Obj) -> None:
        container, name = self.find(operation.get("from"))
        value = _get(container, name)
        _remove(container, name)
        container, name = self.find(operation.get("path"))
        _add(container, name, value)

    def copy(self, operation: Obj) -> None:
        source, copied = self.find(operation.get("from"))
        _get(source, copied)
        container, name = self.find(operation.get("path"))
        value = _finished(_get(source, copied), deep=False)  # as it is now that the other path was walked
        if value is not None:
            self.copied += len(encode(value))
        if self.copied > MAX_COPIED_BYTES:
            _refuse()
        _add(container, name, value)

    def test(self, operation: Obj) -> None:
        value = operation.get("value", _MISSING)
        if operation.get("path") == "":
            if not _equal(self.root, value):
                _refuse()
            self.root = _walked(self.root)
            return
        container, name = self.find(operation.get("path"))
        here = _get(container, name)
        if not _equal(here, value):
            _refuse()
        if isinstance(here, dict | list):
            container[name if isinstance(container, dict) else _index(container, name)] = _walked(here)


_OPERATIONS: dict[str, Callable[[_Document, Obj], None]] = {
    "add": _Document.add,
    "remove": _Document.remove,
    "replace": _Document.replace,
    "move": _Document.move,
    "test": _Document.test,
    "copy": _Document.copy,
}


def _refuse() -> NoReturn:
    raise unprocessable()


def _index(items: list[Any], name: str, size: int | None = None) -> int:
    """The position that `name` means in a list of `size` places."""
    size = len(items) if size is None else size
    try:
        index = parse_int(name)
    except ValueError:
        _refuse()
    if not -size <= index < size:
        _refuse()
    return index % size


def _get(container: Any, name: str) -> Any:
    return container[_index(container, name)] if isinstance(container, list) else container.get(name)


def _add(container: Any, name: str, value: Any) -> None:
    if isinstance(container, dict):
        container[name] = value
    elif name == "-":
        container.append(value)
    else:
        container.insert(_index(container, name, len(container) + 1), value)


def _remove(container: Any, name: str) -> None:
    if isinstance(container, list):
        del container[_index(container, name)]
    elif name in container:
        del container[name]
    else:
        _refuse()


def _equal(here: Any, value: Any) -> bool:
    if isinstance(here, dict):
        return isinstance(value, dict) and here.keys() == value.keys() and all(_equal(here[k], value[k]) for k in here)
    if isinstance(here, list):
        return isinstance(value, list) and len(here) == len(value) and all(map(_equal, here, value))
    return not isinstance(value, dict | list) and value is not _MISSING and _spelling(here) == _spelling(value)


def _walked(value: Any) -> Any:
    """`value` as comparing it leaves it: every object in it is sorted in the end."""
    if isinstance(value, dict):
        return _Walked({key: _walked(item) for key, item in value.items()})
    if isinstance(value, list):
        return _WalkedList([_walked(item) for item in value])
    return value


def _finished(value: Any, deep: bool) -> Any:
    """Plain containers in the order in which they are printed. `deep`: also where the patch has not walked."""
    if type(value) is _Walked:
        return {key: _finished(value[key], deep) for key in sorted(value)}
    if type(value) is _WalkedList or (deep and type(value) is list):
        return [_finished(item, deep) for item in value]
    if deep and type(value) is dict:
        return {key: _finished(item, deep) for key, item in value.items()}
    return value


def _spelling(value: Any) -> bytes:
    """How a scalar is written: in the patch as there, in the object as Go does."""
    return value.source if isinstance(value, Raw) else encode(value)
