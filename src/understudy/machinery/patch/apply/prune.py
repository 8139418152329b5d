"""Removes what a manager has applied before and does not state any more, unless somebody else owns it.

Elements of lists and structs that it brought in go with all that is in them, but for what others own or nobody does.
"""

from __future__ import annotations

from understudy.machinery.errors import unknown_error
from understudy.machinery.patch.apply.field_set import Set, difference, intersection, union
from understudy.machinery.patch.apply.fields_of import fields_of, with_named_fields, without
from understudy.machinery.patch.apply.managed_fields import Update
from understudy.machinery.patch.apply.managers import Owned, Owners
from understudy.machinery.patch.apply.typed import InvalidValue, StructType, type_of
from understudy.machinery.types import Obj


def pruned(update: Update, merged: Obj, managers: Owners, mine: Owned, last: Owned | None) -> Obj:
    """`merged` without what only `last` owns, in the request's form. `managers` hold `mine`. Raises StatusError."""
    if last is None or not last.fields or _is_all_kept(update, mine, last):
        return merged
    try:
        return _pruned(update, merged, managers, last)
    except InvalidValue as why:
        raise unknown_error(f"failed to prune fields: {why}") from None


def _is_all_kept(update: Update, mine: Owned, last: Owned) -> bool:
    if mine.api_version != last.api_version:
        return False
    kind = type_of(update.struct)
    return not difference(with_named_fields(kind, last.fields), with_named_fields(kind, mine.fields))


def _pruned(update: Update, merged: Obj, managers: Owners, last: Owned) -> Obj:
    form = Form.of(update, merged, last.api_version)
    if form is None:
        return merged
    named = form.named(last.fields)
    rest: Obj = without(form.kind, form.obj, named)
    for version, owned in _by_version(managers, last.api_version).items():
        rest = _with_owned(update, merged, rest, version, owned)
    left = Form.of(update, rest, last.api_version)
    if left is None:
        return merged
    gone = difference(form.all_fields(), left.all_fields())
    out: Obj = without(form.kind, form.obj, intersection(gone, named))
    return update.convert(out, update.api_version) or merged


def _by_version(managers: Owners, first: str) -> dict[str, Set]:
    """All that is owned, by API version; `first` comes first: another may need its fields to be converted."""
    out: dict[str, Set] = {first: {}}
    for owned in managers.values():
        out[owned.api_version] = union(out.get(owned.api_version, {}), owned.fields)
    return {version: fields for version, fields in out.items() if fields}


def _with_owned(update: Update, merged: Obj, rest: Obj, version: str, owned: Set) -> Obj:
    """`rest` with what is owned in that version back from `merged`."""
    full, small = Form.of(update, merged, version), Form.of(update, rest, version)
    if full is None or small is None:
        return rest
    gone = difference(full.all_fields(), union(small.all_fields(), full.named(owned)))
    back: Obj = without(full.kind, full.obj, gone)
    return back


class Form:
    """An object in the form of an API version, with its type there."""

    def __init__(self, obj: Obj, kind: StructType) -> None:
        self.obj = obj
        self.kind = kind

    @staticmethod
    def of(update: Update, obj: Obj, version: str) -> Form | None:
        """None if the version is gone."""
        struct = update.struct_of(version)
        converted = update.convert(obj, version)
        return None if struct is None or converted is None else Form(converted, type_of(struct))

    def named(self, fields: Set) -> Set:
        return with_named_fields(self.kind, fields)

    def all_fields(self) -> Set:
        return self.named(fields_of(self.kind, self.obj))
