"""Packed entries: in one piece of memory the value of an object, its labels, and one encoded form of it.

    8 bytes         where the value and the labels end; 0 for labels that are not packed
    value, labels   pickles; no labels: nothing
    form            the rest

Python takes small things from pieces of 1 MiB, which go back to the system only as a whole. What is packed is larger
than that for nearly all objects (512 bytes), and goes back one by one.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from io import BytesIO
from struct import Struct
from typing import Any

from understudy.machinery.types import Obj
from understudy.machinery.util.deep_recursion import on_deep_stack

_ENDS = Struct("<II")
_NO_LABELS: Mapping[str, str] = {}


def pack(value: Obj) -> bytes:
    """Return a packed value, without labels and form."""
    pickle = pickled(value)
    return _ENDS.pack(_ENDS.size + len(pickle), 0) + pickle


def with_form(packed: bytes, labels: Mapping[str, str], form: bytes) -> bytes:
    """Return a packed value with its labels and an encoded form."""
    end, _ = _ENDS.unpack_from(packed)
    more = pickled(labels) if labels else b""
    return b"".join((_ENDS.pack(end, end + len(more)), packed[_ENDS.size : end], more, form))


def pickle_of(packed: bytes) -> bytes:
    """Return the pickle of a packed value."""
    return packed[_ENDS.size : _ENDS.unpack_from(packed)[0]]


def value_of(packed: bytes) -> Obj:
    """Return a new value."""
    value: Obj = pickle.loads(memoryview(packed)[_ENDS.size :])  # reads to the end of the value
    return value


def labels_of(packed: bytes) -> Mapping[str, str] | None:
    """Return the labels, None if they were not packed."""
    begin, end = _ENDS.unpack_from(packed)
    if not end:
        return None
    labels: Mapping[str, str] = pickle.loads(packed[begin:end]) if end > begin else _NO_LABELS
    return labels


def form_of(packed: bytes) -> bytes:
    """Return the encoded form that was packed, empty if none was."""
    begin, end = _ENDS.unpack_from(packed)
    return packed[end or begin :]


def view_of_form(packed: bytes) -> memoryview:
    """Return a view of the encoded form that was packed, empty if none was."""
    begin, end = _ENDS.unpack_from(packed)
    return memoryview(packed)[end or begin :]


def form_size(packed: bytes) -> int:
    """Return the bytes of the encoded form that was packed."""
    begin, end = _ENDS.unpack_from(packed)
    return len(packed) - int(end or begin)


def pickled(value: Mapping[str, Any]) -> bytes:
    """Return the pickle of a value, by Python's own pickler where the one in C recurses too deep."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except RecursionError:
        out = BytesIO()
        on_deep_stack(pickle._Pickler(out, pickle.HIGHEST_PROTOCOL).dump, value)
        return out.getvalue()
