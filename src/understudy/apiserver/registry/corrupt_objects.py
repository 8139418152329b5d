"""The errors for stored objects that cannot be read: encrypted, damaged, or converted by a webhook that fails.

Where unsafe deletion is a feature, which is so from 1.37 on by default, the real server says which objects these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from understudy.apiserver.encoding.conversion import stored
from understudy.apiserver.encoding.encoded import decoded_anew, internal, load, matches, read_again
from understudy.apiserver.storage.interface import Entry, UnreadableError
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError, internal_error
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_37, ByRelease
from understudy.machinery.selectors.selector import Selector

_AT_MOST = 100  # objects that an error names
# Whether a list ends with the last of them, and says what the first one is; else with the one after.
_STOPS_AT_ONCE = ByRelease({V1_37: True, V1_31: False})


def unreadable_object(entry: Entry, error: StatusError, gates: Gates) -> StatusError:
    """Return the error for an entry that was asked for and cannot be read (upstream: `NewCorruptObjError`)."""
    if not gates[features.ALLOW_UNSAFE_MALFORMED_OBJECT_DELETION]:
        return error
    return internal_error(_storage_error(entry.key.removeprefix("/registry"), _described(entry, error)))


def unreadable_for_update(entry: Entry, error: UnreadableError, gates: Gates) -> StatusError:
    """Return the error for an entry that was to be changed and cannot be read. The error may be of another object."""
    if error.is_encrypted or error.key != entry.key or not gates[features.ALLOW_UNSAFE_MALFORMED_OBJECT_DELETION]:
        return error
    return StatusError(500, "", _described(entry, error))


def read_anew(entry: Entry, kind: Kind, gates: Gates) -> Entry:
    """Return an entry as if it had just been read: a webhook converts it again. Raises 500 if it cannot be read."""
    try:
        return decoded_anew(entry, kind)
    except StatusError as error:
        raise unreadable_object(entry, error, gates) from None


def original_state(entry: Entry, kind: Kind, gates: Gates, *, is_current: bool) -> Entry:
    """Return the entry that a write begins with (upstream: `objState`). Raises 500 if a webhook does not convert it.

    It is read anew, or as the watch cache holds it, which is encoded to be compared with.
    """
    if kind.watch_cache is None:
        return entry
    if is_current:
        return read_anew(entry, kind, gates)
    stored(kind, internal(entry, kind))
    return entry


def unreadable_list(
    kind: Kind, entries: Iterable[Entry], selector: Selector, limit: int, gates: Gates
) -> StatusError | None:
    """Return the error for a list of entries some of which cannot be read, None if all can.

    The entries are read again, one by one, as far as the list goes; `limit` is 0 if it has none. The error names all of
    them (upstream: `corruptObjErrAggregator`) or the first one.
    """
    names_all = gates[features.ALLOW_UNSAFE_MALFORMED_OBJECT_DELETION]
    stops_at_once = _STOPS_AT_ONCE[kind.release]
    most = _AT_MOST + (not stops_at_once) if names_all else 1
    errors = list(islice(_read_errors(kind, entries, selector, limit), most))
    if not errors:
        return None
    if not names_all:
        entry, error = errors[0]
        if isinstance(error, UnreadableError) and error.is_encrypted:
            return internal_error(f'unable to transform key "{entry.key}": {error.text}')
        return error
    is_cut = len(errors) == most
    texts = {entry.key: _storage_error(entry.key, _described(entry, error)) for entry, error in errors[:_AT_MOST]}
    resource = f"{kind.resource}.{kind.group}" if kind.group else kind.resource
    message = f"failed to read one or more {resource} from the storage"
    if stops_at_once:
        first, *others = texts.values()
        message += f": {first}" + (f" (and {len(others)} more)" if others else "")
    causes = [{"reason": "UnexpectedServerResponse", "message": text, "field": key} for key, text in texts.items()]
    if is_cut:
        causes.append({"reason": "FieldValueTooMany", "message": "too many errors, the list is truncated"})
    group = {"group": kind.group} if kind.group else {}
    return StatusError(
        500, "StorageReadError", message, {"name": "list", **group, "kind": kind.resource, "causes": causes}
    )


def _read_errors(
    kind: Kind, entries: Iterable[Entry], selector: Selector, limit: int
) -> Iterator[tuple[Entry, StatusError]]:
    """Yield each entry that cannot be read, with its error, up to the last entry of a list."""
    listed = 0
    for entry in entries:
        again = read_again(entry, kind)
        try:
            _ = again.value
            load([again], kind)
            listed += matches(selector, again, kind)
        except StatusError as error:
            yield entry, error
        if listed == limit > 0:
            return


def _described(entry: Entry, error: StatusError) -> str:
    if isinstance(error, UnreadableError) and error.is_encrypted:
        return f"data from the storage is not transformable revision=0: {error.text}"
    return f"object not decodable revision={entry.revision}: {error.message}"


def _storage_error(key: str, text: str) -> str:
    return f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {text}"
