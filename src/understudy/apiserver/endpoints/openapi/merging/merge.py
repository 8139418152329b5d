"""Merges the v2 documents of other servers into that of this one. Upstream: `k8s.io/kube-openapi/pkg/aggregator`.

What is said of a path first holds. Definitions and parameters that say something else under a name that is taken get
another one: `Flunder_v2`. Two definitions say the same if they differ in descriptions only, since those of this server
are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from understudy.apiserver.endpoints.openapi.merging.values import references, with_references
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.types import Obj

DEFINITION, PARAMETER = "#/definitions/", "#/parameters/"
_GVK = "x-kubernetes-group-version-kind"
# Whether definitions that only parameters refer to count as used.
_FOLLOWS_PARAMETERS = ByRelease({V1_34: True, V1_31: False})


def below(document: Obj, prefix: str, version: Version) -> Obj:
    """Return the paths of a document that begin with a text, without definitions that only others use."""
    return _with_paths(document, [path for path in document["paths"] if path.startswith(prefix)], version)


def merge(merged: Obj, document: Obj, version: Version, *, is_own: bool = False) -> None:
    """Add paths, definitions and parameters of a document to others, which are changed. Descriptions count for one of
    this server's own."""
    fresh = [path for path in document["paths"] if path not in merged["paths"]]
    if not fresh:
        return
    if len(fresh) < len(document["paths"]):
        document = _with_paths(document, fresh, version)
    is_same = _is_same_definition if is_own else _is_alike
    document = _renamed(document, merged, "definitions", DEFINITION, is_same)
    document = _renamed(document, merged, "parameters", PARAMETER, lambda one, other: one == other)
    definitions = merged["definitions"]
    for name, definition in document["definitions"].items():
        definitions[name] = _with_kinds_of(definitions[name], definition) if name in definitions else definition
    for part in ("paths", "definitions", "parameters"):
        merged[part] = dict(sorted({**document[part], **merged[part]}.items()))


def _with_paths(document: Obj, paths: Collection[str], version: Version) -> Obj:
    """Return a document with some of its paths, without definitions that are used no more
    (`FilterSpecByPathsWithoutSideEffects`)."""
    follows = _FOLLOWS_PARAMETERS[version]
    kept = {**document, "paths": {path: document["paths"][path] for path in paths}}
    unused = _used_definitions(document, follows) - _used_definitions(kept, follows)
    kept["definitions"] = {name: shape for name, shape in document["definitions"].items() if name not in unused}
    return kept


def _used_definitions(document: Obj, follows_parameters: bool) -> set[str]:
    """Return the names of the definitions that paths need."""
    used: set[str] = set()
    todo: list[Any] = [document["paths"]]
    while todo:
        for reference in references(todo.pop()):
            if reference in used:
                continue
            used.add(reference)
            if reference.startswith(DEFINITION):
                todo.append(document["definitions"].get(reference.removeprefix(DEFINITION)))
            elif follows_parameters and reference.startswith(PARAMETER):
                todo.append(document["parameters"].get(reference.removeprefix(PARAMETER)))
    return {name.removeprefix(DEFINITION) for name in used if name.startswith(DEFINITION)}


def _renamed(document: Obj, merged: Obj, part: str, prefix: str, is_same: Callable[[Obj, Obj], bool]) -> Obj:
    """Return a document in which nothing has a name under which `merged` says something else."""
    taken, own = merged[part], document[part]
    names: dict[str, str] = {}
    for name, value in own.items():
        if name in taken and not is_same(taken[name], value):
            names[name] = _free_name(name, value, taken, {*own, *names.values()}, is_same)
    if not names:
        return document
    links = {prefix + old: prefix + new for old, new in names.items()}
    renamed: Obj = with_references(document, links)
    return {**renamed, part: {names.get(name, name): value for name, value in renamed[part].items()}}


def _free_name(name: str, value: Obj, taken: Obj, own: Collection[str], is_same: Callable[[Obj, Obj], bool]) -> str:
    """Return the name that a value gets: one under which the same is known already, or one that is free."""
    number = 2
    while (new := f"{name}_v{number}") in taken:
        if is_same(taken[new], value):
            return new
        number += 1
    while new in taken or new in own:
        number += 1
        new = f"{name}_v{number}"
    return new


def _is_same_definition(one: Obj, other: Obj) -> bool:
    """Report whether two definitions are the same, whatever kinds they are of (`deepEqualDefinitionsModuloGVKs`)."""
    return {**one, _GVK: None} == {**other, _GVK: None}


def _is_alike(one: Obj, other: Obj) -> bool:
    """Report whether two definitions are the same but for descriptions, and for the kinds that they are of."""
    return _is_same_definition(_shape(one), _shape(other))


def _shape(value: Any) -> Any:
    """Return a part of a document without descriptions; properties of that name are none."""
    if isinstance(value, dict):
        return {k: _shape(v) for k, v in value.items() if k != "description" or not isinstance(v, str)}
    return [_shape(item) for item in value] if isinstance(value, list) else value


def _with_kinds_of(definition: Obj, other: Obj) -> Obj:
    """Return a definition that is of the kinds of another one, too (`mergedGVKs`)."""
    kinds = definition.get(_GVK, [])
    more = [kind for kind in other.get(_GVK, ()) if kind not in kinds]
    return {**definition, _GVK: sorted([*kinds, *more], key=_kind_key)} if more else definition


def _kind_key(kind: Obj) -> str:
    return f"{kind['group']}/{kind['version']}.{kind['kind']}"
