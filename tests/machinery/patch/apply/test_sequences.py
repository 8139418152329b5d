"""Random sequences of applies and updates by three managers: what always holds of the owners."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.machinery.errors import StatusError
from understudy.machinery.patch.apply.managers import decode
from understudy.machinery.patch.structured_merge_diff.field_set import difference, intersection, iterate, path_text
from understudy.machinery.patch.structured_merge_diff.to_field_set import to_field_set
from understudy.machinery.patch.structured_merge_diff.typed import compare, type_of
from understudy.machinery.serializer.json import decode_value
from understudy.machinery.types import Obj

pytestmark = pytest.mark.maintenance  # they take long, and CI runs them once

# No empty lists and maps: they are owned, although nothing is stored. So are those that an apply empties by taking its
# own elements away: they stay with the manager that made them.
LISTS_AND_MAPS = ("labels", "finalizers", "reservedFor", "nodeSelector", "containers", "env")
Parts = dict[str, st.SearchStrategy[Any]]


def some(parts: Parts) -> st.SearchStrategy[Obj]:
    """Return a strategy for objects with some of the parts, by dotted path."""

    def build(chosen: dict[str, Any]) -> Obj:
        out: Obj = {}
        for path, value in chosen.items():
            *parents, last = path.split(".")
            node = out
            for name in parents:
                node = node.setdefault(name, {})
            node[last] = copy.deepcopy(value)
        return out

    return st.fixed_dictionaries({}, optional=parts).map(build)


def keyed(key: str, names: str, rest: st.SearchStrategy[Obj]) -> st.SearchStrategy[list[Obj]]:
    return st.lists(
        st.tuples(st.sampled_from(names), rest), min_size=1, max_size=3, unique_by=lambda item: item[0]
    ).map(lambda items: [{key: name} | more for name, more in items])


one_or_two = st.sampled_from(["1", "2"])
meta: Parts = {
    "metadata.labels.a": one_or_two,
    "metadata.labels.b": one_or_two,
    "metadata.finalizers": st.lists(
        st.sampled_from(["e.io/a", "e.io/b", "e.io/c"]), min_size=1, max_size=3, unique=True
    ),
}
claim: Parts = meta | {
    "spec.devices.requests": st.sampled_from([[{"name": "r"}], [{"name": "s"}]]),
    "status.reservedFor": keyed("uid", "uvw", st.fixed_dictionaries({"resource": st.just("pods"), "name": one_or_two})),
}
pod: Parts = meta | {
    "spec.nodeName": one_or_two,
    "spec.nodeSelector": st.dictionaries(st.sampled_from("ab"), one_or_two, min_size=1, max_size=2),
    "spec.containers": keyed(
        "name",
        "xyz",
        some({"image": one_or_two, "env": keyed("name", "AB", st.fixed_dictionaries({"value": one_or_two}))}),
    ),
}
KINDS = {"ResourceClaim": ("resource.k8s.io/v1beta1", claim), "Pod": ("v1", pod)}
managers = st.sampled_from(["one", "two", "three"])


def writes(parts: Parts) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.tuples(st.sampled_from(["apply", "force", "update"]), managers, some(parts)), max_size=6)


def taken(world: Any, writes: list[Any]) -> None:
    world.create("zero", {"metadata": {"labels": {"zero": "1"}}})
    for kind, manager, config in writes:
        if kind == "update":
            world.update(manager, config)
            continue
        with suppress(StatusError):  # conflicts are part of the story
            world.apply(manager, config, force=kind == "force")


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=60)
def test_owned_fields_exist(world: Any, kind: str, data: st.DataObject) -> None:
    """Every owned field is in the object, but for lists and maps that were emptied."""
    version, parts = KINDS[kind]
    w = world(version, kind)
    taken(w, data.draw(writes(parts)))
    there = type_of(w.struct()).added_fields(w.live)
    for owned in decode(w.live["metadata"].get("managedFields")).values():
        missing = [path_text(path) for path in iterate(difference(owned.fields, there))]
        assert [path for path in missing if not path.endswith(LISTS_AND_MAPS)] == []


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=60)
def test_forced_apply_wins_and_owns(world: Any, kind: str, data: st.DataObject) -> None:
    """A forced apply sets its values, and its manager owns all of them."""
    version, parts = KINDS[kind]
    w = world(version, kind)
    taken(w, data.draw(writes(parts)))
    config = data.draw(some(parts))
    w.apply("one", config, force=True)
    struct_type = type_of(w.struct())
    changed, _ = compare(struct_type, decode_value(config, w.struct())[0], w.live)
    stated = to_field_set(struct_type, config)
    assert list(iterate(intersection(changed, stated))) == []
    assert w.owners().get("Apply one", []) == [path_text(path) for path in iterate(stated)]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=60)
def test_repeated_apply_does_nothing(world: Any, kind: str, data: st.DataObject) -> None:
    """A repeated apply changes neither the object nor its owners."""
    version, parts = KINDS[kind]
    w = world(version, kind)
    taken(w, data.draw(writes(parts)))
    config = data.draw(some(parts))
    w.apply("one", config, force=True)
    before = w.live
    assert w.apply("one", config) is before


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=60)
def test_leaving_fields_keeps_those_of_others(world: Any, kind: str, data: st.DataObject) -> None:
    """A manager that applies nothing leaves the fields of others, except inside removed elements."""
    version, parts = KINDS[kind]
    w = world(version, kind)
    taken(w, data.draw(writes(parts)))
    before = w.owners()
    w.apply("one", {})
    assert outside_lists(w.owners()) == outside_lists(
        {name: owned for name, owned in before.items() if name != "Apply one"}
    )


def outside_lists(owners: dict[str, list[str]]) -> set[tuple[str, str]]:
    return {(name, text) for name, owned in owners.items() for text in owned if "[" not in text}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=60)
def test_comparison_finds_every_change(world: Any, kind: str, data: st.DataObject) -> None:
    """The compared sets of two values hold every field in which they differ."""
    version, parts = KINDS[kind]
    w = world(version, kind)
    old, new = (w.form(data.draw(some(parts)), "") for _ in range(2))
    struct_type = type_of(w.struct())
    before, after = struct_type.added_fields(old), struct_type.added_fields(new)
    changed, removed = compare(struct_type, old, new)
    assert compare(struct_type, old, old) == ({}, {})
    assert difference(changed, after) == {}
    assert difference(removed, before) == {}
    assert intersection(removed, after) == {}
    assert intersection(intersection(before, after), changed) == difference(changed, difference(after, before))
