"""The text of a world: YAML, in the form of a release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from understudy.apiserver.serving.release import DEFAULT, Release
from understudy.machinery.types import NamedTuple

_NOTHING: Mapping[str, bool] = MappingProxyType({})


class WorldsIn(NamedTuple):
    """The release in whose form worlds are read, and its feature gates that are set."""

    release: str = DEFAULT
    feature_gates: Mapping[str, bool] = _NOTHING


DEFAULT_RELEASE = WorldsIn()


def world_text(name: str, worlds_in: WorldsIn) -> str:
    """Return the documents of a world; those of a written one as they are written, where the release takes them so.

    Raises WorldError, UnknownReleaseError and UnknownGateError (all are ValueErrors).
    """
    from understudy.apiserver.encoding.world_forms import read_world
    from understudy.machinery.golang.yaml_writer import dump_yaml
    from understudy.machinery.releases.features import Gates
    from understudy.worlds.catalog import chosen

    release, asked = Release.named(worlds_in.release), chosen(name)
    gates = Gates.of(release.version, worlds_in.feature_gates)
    objects = [each.obj for each in read_world(name, release.version, release, gates)]
    written = [*asked.world.make(asked.values)]
    if written[0].file and objects == [each.obj for each in written]:
        return Path(written[0].file).read_text()
    return "---\n".join(map(dump_yaml, objects))
