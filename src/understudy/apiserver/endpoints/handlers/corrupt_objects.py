"""The errors for stored objects that cannot be read: encrypted, damaged, or converted by a webhook that fails.

Where unsafe deletion is a feature, which is so from 1.37 on by default, the real server says which objects these are.
"""

from __future__ import annotations

from collections.abc import Iterable

from understudy.apiserver.storage.interface import Entry, UnreadableError
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError, internal_error

_AT_MOST = 100  # objects that an error names


def corrupt_object(key: str, text: str) -> StatusError:
    """Return the error for one stored object that cannot be read (upstream: `NewCorruptObjError`)."""
    return internal_error(_storage_error(key.removeprefix("/registry"), text))


def not_decodable(revision: int, reason: str) -> str:
    """Return the text for an object, stored at a revision, of which no object can be made."""
    return f"object not decodable revision={revision}: {reason}"


def unreadable_object(entry: Entry, error: UnreadableError) -> StatusError:
    """Return the error for an entry that was asked for and whose value cannot be read."""
    return corrupt_object(entry.key, _described(entry, error))


def unreadable_list(kind: Kind, entries: Iterable[Entry], error: UnreadableError, *, names_all: bool) -> StatusError:
    """Return the error for a list with entries whose values cannot be read, `error` being that of the first.

    names_all  whether it names all of them (upstream: `corruptObjErrAggregator`)
    """
    if not names_all:
        return internal_error(f'unable to transform key "{error.key}": {error.text}') if error.is_encrypted else error
    texts = dict[str, str]()
    for entry in entries:
        try:
            _ = entry.value
        except UnreadableError as why:
            texts[entry.key] = _storage_error(entry.key, _described(entry, why))
            if len(texts) == _AT_MOST:
                break
    first, *others = texts.values()
    resource = f"{kind.resource}.{kind.group}" if kind.group else kind.resource
    more = f" (and {len(others)} more)" if others else ""
    causes = [{"reason": "UnexpectedServerResponse", "message": text, "field": key} for key, text in texts.items()]
    if len(texts) == _AT_MOST:
        causes.append({"reason": "FieldValueTooMany", "message": "too many errors, the list is truncated"})
    group = {"group": kind.group} if kind.group else {}
    return StatusError(
        500,
        "StorageReadError",
        f"failed to read one or more {resource} from the storage: {first}{more}",
        {"name": "list", **group, "kind": kind.resource, "causes": causes},
    )


def _described(entry: Entry, error: UnreadableError) -> str:
    if error.is_encrypted:
        return f"data from the storage is not transformable revision=0: {error.text}"
    return not_decodable(entry.revision, error.text)


def _storage_error(key: str, text: str) -> str:
    return f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {text}"
