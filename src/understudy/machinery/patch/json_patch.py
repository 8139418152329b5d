"""JSON patches (RFC 6902) as kube-apiserver applies them, with evanphx/json-patch v4.

It departs from the RFC: `replace` of a missing key adds it; a missing key reads as null in `test`, `copy` and `move`;
`add` without a value stores null; indices may be negative; `replace` of the whole document by a scalar does nothing;
text before the first slash of a path is ignored; `test` compares scalars as they are written, those of the object in
Go's spelling ("a\\u003cb" is not "a<b", 1.0 is not 1). This is nearly everything a patch library decides, so none is
used.

The result has the order of the text that the real server prints in errors: objects that a patch has walked through are
sorted by key, all others keep their order. The real server crashes on `test` without a value at a missing path, and on
a path through a null that the same patch has put there; here these patches do not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from understudy.machinery.errors import StatusError, bad_request, request_too_large, unprocessable
from understudy.machinery.golang.json_reader import parse as parse_json
from understudy.machinery.golang.json_reader import to_text
from understudy.machinery.golang.json_writer import Raw, encode
from understudy.machinery.golang.text import parse_int
from understudy.machinery.patch import patch_body as bodies
from understudy.machinery.types import NamedTuple, Obj

MAX_OPERATIONS = 10000
MAX_COPIED_BYTES = 3 * 1024 * 1024
_FIELDS = ("op", "path", "from", "value")


class DoesNotApplyError(StatusError):
    """A JSON patch that does not apply: a 422 without a cause, with the reason in `why`, in the library's words."""

    def __init__(self, why: str) -> None:
        error = unprocessable()
        super().__init__(error.code, error.reason, error.message, error.details)
        self.why = why


class TestFailedError(DoesNotApplyError):
    """A JSON patch with a test that failed."""


class Patch(NamedTuple):
    """A parsed JSON patch.

    Each of the `strict_errors` (`json patch unknown field "[0].foo"`) is an error with strict field validation and a
    warning by default. `tests`: whether an operation is a test; then scalars keep their spelling.
    """

    operations: list[Obj]
    strict_errors: list[str]
    tests: bool


def parse(body: bytes, validate: bool = True) -> Patch:
    """Parse a JSON patch. `validate` is false for fieldValidation=Ignore.

    Raises StatusError: 400 if it is not a list of operations, 413 for more than 10000 of them.
    """
    prefix, go_type, element = "error decoding patch: ", "[]handlers.jsonPatchOp", "handlers.jsonPatchOp"
    if not validate:
        prefix, go_type, element = "", "jsonpatch.Patch", "jsonpatch.Operation"
    try:
        value, duplicates = bodies.loads(body, bodies.keep_finite_spelling if validate else bodies.keep_spelling)
    except bodies.DecodeError as error:
        text = str(error).replace("Go value of type float64", "Go struct field jsonPatchOp.value of type float64")
        raise bad_request(f"{prefix}{text}") from None
    if value is None:
        value = []
    if not isinstance(value, list):
        raise bad_request(f"{prefix}json: cannot unmarshal {bodies.kind_of(value)} into Go value of type {go_type}")
    members = _operation_fields(body) if duplicates else map(_field_kinds, value)
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
    return Patch(parse_as_written(body).operations if tests else operations, strict, tests)


def parse_as_written(body: bytes) -> Patch:
    """Parse a valid patch again, with the spelling of its strings: for tests, and for the texts of errors."""
    operations = [item or {} for item in bodies.loads_as_written(body) or ()]
    return Patch(operations, [], any(operation.get("op") == "test" for operation in operations))


def _field_kinds(operation: Any) -> list[tuple[str, str]]:
    """Return the names of an operation's fields, each with the JSON kind of its value."""
    return [(name, bodies.kind_of(value)) for name, value in operation.items()] if isinstance(operation, dict) else []


def _operation_fields(body: bytes) -> Iterator[list[tuple[str, str]]]:
    """Yield the fields of every operation in a body, with those that are there more than once."""
    for node in parse_json(to_text(body)).value:
        yield [(name, value.kind) for name, value in node.value] if node.kind == "object" else []


def _check_types(fields: list[tuple[str, str]]) -> None:
    """Raise StatusError 400 for the first of op, path and from that is not a string."""
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
    """Return the patched document. `current` stays as it is; the result may share parts with it.

    A patch that replaces the whole document may leave a list. Raises DoesNotApplyError.
    """
    document = _Document(current)
    for operation in patch.operations:
        document.run(operation)
    return _plain(document.root, deep=patch.tests)


class _PartialDoc(dict[str, Any]):
    """An object that the patch has walked through (upstream: `partialDoc`): a copy, which is sorted in the end."""


class _PartialArray(list[Any]):
    """A list that the patch has walked through (upstream: `partialArray`): a copy."""


_MISSING = object()


class _Document:
    """The document while operations are applied to it. The methods raise DoesNotApplyError."""

    def __init__(self, current: Obj) -> None:
        self.root: Any = _PartialDoc(current)
        self.copied = 0

    def run(self, operation: Obj) -> None:
        """Apply one operation."""
        kind = operation.get("op")
        apply_one = _OPERATIONS.get(str(kind))
        if apply_one is None:
            raise DoesNotApplyError(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
        apply_one(self, operation)

    def find_object(self, path: str) -> tuple[Any, str] | None:
        """Return the container of the value at a JSON pointer, and the pointer's last part; None if there is none
        (upstream: `findObject`)."""
        names = [name.replace("~1", "/").replace("~0", "~") for name in path.split("/")]
        if len(names) < 2:
            return None
        container = self.root
        for name in names[1:-1]:
            container = self._walk(container, name)
            if container is None:
                return None
        return container, names[-1]

    def _walk(self, container: Any, name: str) -> Any:
        """Return the object or list under `name`, as a copy that may be edited; None if there is none."""
        try:
            child = _get(container, name)
        except _IndexError:
            return None
        if type(child) in (_PartialDoc, _PartialArray):
            return child
        if isinstance(child, dict):
            child = _PartialDoc(child)
        elif isinstance(child, list):
            child = _PartialArray(child)
        else:
            return None
        container[name if isinstance(container, dict) else _index(container, name)] = child
        return child

    def place(self, operation: Obj, field: str, missing: str) -> tuple[Any, str]:
        """Return the container and the last part of the path in a field; `missing` is the error without one."""
        place = self.find_object(operation[field])
        if place is None:
            raise DoesNotApplyError(f"{missing.format(operation[field])}: missing value")
        return place

    def add(self, operation: Obj) -> None:
        """Set a key, or insert into a list; `-` appends."""
        _need(operation, "path")
        container, name = self.place(operation, "path", 'add operation does not apply: doc is missing path: "{}"')
        with _Explained(f"error in add for path: '{operation['path']}'"):
            _add(container, name, operation.get("value"))

    def remove(self, operation: Obj) -> None:
        """Remove a key or an element."""
        _need(operation, "path")
        container, name = self.place(operation, "path", 'remove operation does not apply: doc is missing path: "{}"')
        with _Explained(f"error in remove for path: '{operation['path']}'"):
            _remove(container, name)

    def replace(self, operation: Obj) -> None:
        """Set a key or an element, or the whole document."""
        _need(operation, "path")
        if operation["path"] == "":
            self._replace_root(operation.get("value", _MISSING))
            return
        container, name = self.place(operation, "path", "replace operation does not apply: doc is missing path: {}")
        if isinstance(container, dict):
            container[name] = operation.get("value")
            return
        try:
            container[_index(container, name)] = operation.get("value")
        except _IndexError:
            text = f"replace operation does not apply: doc is missing key: {operation['path']}: missing value"
            raise DoesNotApplyError(text) from None

    def _replace_root(self, value: Any) -> None:
        if isinstance(value, dict):
            self.root = _PartialDoc(value)
        elif isinstance(value, list):
            self.root = _PartialArray(value)
        elif value is _MISSING:
            raise DoesNotApplyError("replace operation hit impossible case")

    def move(self, operation: Obj) -> None:
        """Remove the value at `from` and add it at `path`."""
        _need(operation, "from")
        container, name = self.place(operation, "from", "move operation does not apply: doc is missing from path: {}")
        with _Explained(f"error in move for path: '{name}'"):
            value = _get(container, name)
            _remove(container, name)
        _need(operation, "path")
        missing = "move operation does not apply: doc is missing destination path: {}"
        container, name = self.place(operation, "path", missing)
        with _Explained(f"error in move for path: '{operation['path']}'"):
            _add(container, name, value)

    def copy(self, operation: Obj) -> None:
        """Add a copy of the value at `from` at `path`. All copies together may have 3 MiB."""
        _need(operation, "from")
        source, copied = self.place(operation, "from", "copy operation does not apply: doc is missing from path: {}")
        with _Explained(f"error in copy for from: '{operation['from']}'"):
            _get(source, copied)
        _need(operation, "path")
        missing = "copy operation does not apply: doc is missing destination path: {}"
        container, name = self.place(operation, "path", missing)
        value = _plain(_get(source, copied), deep=False)  # read again: finding the other path may have copied it
        if value is not None:
            self.copied += len(encode(value))
        if self.copied > MAX_COPIED_BYTES:
            raise DoesNotApplyError(
                f"Unable to complete the copy, the accumulated size increase of copy is {self.copied}, "
                f"exceeding the limit {MAX_COPIED_BYTES}"
            )
        with _Explained("error while adding value during copy"):
            _add(container, name, value)

    def test(self, operation: Obj) -> None:
        """Compare the value at `path` with the operation's. Raises TestFailedError if they differ.

        An operation without a value fits what is absent or null. Until 1.34 the real server lets the connection drop.
        """
        _need(operation, "path")
        path, value = operation["path"], operation.get("value", _MISSING)
        failed = f"testing value {path} failed: test failed"
        if path == "":
            if not _equal(self.root, value):
                raise TestFailedError(failed)
            self.root = _as_partial(self.root)
            return
        container, name = self.place(operation, "path", "test operation does not apply: is missing path: {}")
        with _Explained(f"error in test for path: '{path}'"):
            current = _get(container, name)
        if not (_equal(current, value) or (current is None and value is _MISSING)):
            raise TestFailedError(failed)
        if isinstance(current, dict | list):
            container[name if isinstance(container, dict) else _index(container, name)] = _as_partial(current)


_OPERATIONS: dict[str, Callable[[_Document, Obj], None]] = {
    "add": _Document.add,
    "remove": _Document.remove,
    "replace": _Document.replace,
    "move": _Document.move,
    "test": _Document.test,
    "copy": _Document.copy,
}


def _need(operation: Obj, field: str) -> None:
    """Raise DoesNotApplyError unless an operation has a path in a field."""
    if not isinstance(operation.get(field), str):
        kind = operation["op"]
        missing = "missing value" if kind in ("add", "remove") else f"operation, missing {field} field: missing value"
        raise DoesNotApplyError(f"{kind} operation failed to decode {field}: {missing}")


class _IndexError(Exception):
    """A part of a path that names no element of a list, or no key to remove; the text is the library's."""


class _Explained:
    """Turns an _IndexError into a DoesNotApplyError that says where.

    It is no generator: the frame of one would refer to the error, and the error to that.
    """

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, _IndexError):
            raise DoesNotApplyError(f"{self._where}: {error}") from None


def _index(items: list[Any], name: str, size: int | None = None) -> int:
    """Return the position that `name` means in a list of `size` places. Raises _IndexError."""
    size = len(items) if size is None else size
    try:
        index = parse_int(name)
    except ValueError as error:
        raise _IndexError(str(error).replace("ParseInt", "Atoi")) from None
    if not -size <= index < size:
        raise _IndexError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index % size


def _get(container: Any, name: str) -> Any:
    return container[_index(container, name)] if isinstance(container, list) else container.get(name)


def _add(container: Any, name: str, value: Any) -> None:
    if isinstance(container, dict):
        container[name] = value
    elif name == "-":
        container.append(value)
    else:
        try:
            container.insert(_index(container, name, len(container) + 1), value)
        except _IndexError as error:
            if str(error).startswith("strconv"):
                raise _IndexError(f"value was not a proper array index: '{name}': {error}") from None
            raise


def _remove(container: Any, name: str) -> None:
    if isinstance(container, list):
        del container[_index(container, name)]
    elif name in container:
        del container[name]
    else:
        raise _IndexError(f"Unable to remove nonexistent key: {name}: missing value")


def _equal(current: Any, value: Any) -> bool:
    """Report whether a value of the document equals one of a test."""
    if isinstance(current, dict):
        return (
            isinstance(value, dict)
            and current.keys() == value.keys()
            and all(_equal(current[k], value[k]) for k in current)
        )
    if isinstance(current, list):
        return isinstance(value, list) and len(current) == len(value) and all(map(_equal, current, value))
    return (
        not isinstance(value, dict | list)
        and value is not _MISSING
        and _encoded_scalar(current) == _encoded_scalar(value)
    )


def _as_partial(value: Any) -> Any:
    """Return `value` as a test leaves it: all objects in it are sorted in the end."""
    if isinstance(value, dict):
        return _PartialDoc({key: _as_partial(item) for key, item in value.items()})
    if isinstance(value, list):
        return _PartialArray([_as_partial(item) for item in value])
    return value


def _plain(value: Any, deep: bool) -> Any:
    """Return plain containers in the order in which they are printed. `deep`: look for partial ones below others as
    well."""
    if type(value) is _PartialDoc:
        return {key: _plain(value[key], deep) for key in sorted(value)}
    if type(value) is _PartialArray or (deep and type(value) is list):
        return [_plain(item, deep) for item in value]
    if deep and type(value) is dict:
        return {key: _plain(item, deep) for key, item in value.items()}
    return value


def _encoded_scalar(value: Any) -> bytes:
    """Return the JSON of a scalar: the patch's as it was written there, the object's as Go writes it."""
    return value.source if isinstance(value, Raw) else encode(value)
