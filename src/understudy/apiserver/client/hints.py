"""Errors for kinds that the server does not serve: what may be meant, or where it is served.

They are for people who write Python and manifests; requests for such kinds have the answers of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable

from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.serving.release import Release, previews, releases
from understudy.apiserver.serving.runtime_config import SUFFICIENT_GATES
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import Version
from understudy.machinery.types import split_api_version
from understudy.machinery.util.spelling import did_you_mean


def unknown_resource(serving: Serving, text: str) -> StatusError:
    """Return a 404 for the name of a kind or resource that is not served: "podz", "resourceclaims.v1.apps"."""
    name, _, group = text.partition(".")
    hint = _hint(serving, name, group)
    return StatusError(404, "NotFound", f'the server doesn\'t have a resource type "{text}"{hint}')


def unknown_kind(serving: Serving, api_version: str, name: str) -> StatusError:
    """Return a 404 for the apiVersion and the kind of an object that are not served."""
    hint = _hint(serving, name, split_api_version(api_version)[0])
    return StatusError(404, "NotFound", f'no matches for kind "{name}" in version "{api_version}"{hint}')


def _hint(serving: Serving, name: str, group: str) -> str:
    """Return a hint at another version, a kind that is off, another release or another name; "" for none.

    A group without a dot is none of custom resources, so that a kind of its name is what was meant.
    """
    if served := [kind.served_text() for kind in _named(serving.kinds, name, group)]:
        return f"; served is {', '.join(served)}"
    if off := _named(Release.of(serving.version).kinds, name, group):
        return f"; {_switch(off[0])} turns it on"
    if others := _serving(releases(), name, group) or _serving(previews(), name, group):
        return f"; it is served by {', '.join(others)}"
    return did_you_mean(name, (known for kind in _of_group(serving.kinds, group) for known in _names(kind)))


def _serving(versions: Iterable[Version], name: str, group: str) -> list[str]:
    """Return the releases of some that have a kind."""
    return [str(version) for version in versions if _named(Release.of(version).kinds, name, group)]


def _named(kinds: Iterable[Kind], name: str, group: str) -> list[Kind]:
    return [kind for kind in _of_group(kinds, group) if name.lower() in map(str.lower, _names(kind))]


def _of_group(kinds: Iterable[Kind], group: str) -> list[Kind]:
    return [kind for kind in kinds if "." not in group or group == kind.group or group.endswith(f".{kind.group}")]


def _names(kind: Kind) -> tuple[str, ...]:
    return (kind.name, kind.resource, kind.singular, *kind.short_names)


def _switch(kind: Kind) -> str:
    """Return the option that serves a kind which is off."""
    gate = SUFFICIENT_GATES.get((kind.group, kind.resource))
    if gate is not None:
        return f"the feature gate {gate}"
    return f"runtime_config={{{kind.gvk(kind.versions[0]).api_version!r}: True}}"
