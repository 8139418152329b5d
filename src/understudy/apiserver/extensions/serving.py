"""The kinds that are served at one moment: those of a release, and those that definitions and API services add.

    serving = Serving(release)
    serving = serving.with_definition(definition)       # another one: nothing is changed in place

Whatever is made of it (routes, discovery, OpenAPI) belongs to one `Serving` and is rebuilt for the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from understudy.admission.webhooks import NoWebhooks, WebhookClient
from understudy.apiserver.extensions.definition import Definition
from understudy.apiserver.extensions.metrics import ConversionMetrics
from understudy.apiserver.extensions.version_order import priority_key
from understudy.apiserver.serving import priorities
from understudy.apiserver.serving.priorities import Priorities
from understudy.apiserver.serving.release import Group, Release
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.releases.version import Version

if TYPE_CHECKING:
    from understudy.apiserver.extensions.aggregated import AggregatedVersion
    from understudy.apiserver.extensions.kinds import Defined


class Serving:
    """The kinds that are served. Immutable.

    webhooks      calls the webhooks that convert objects of custom resources
    conversions   count that
    aggregated    the versions that API services add, by their names; their objects are elsewhere
    keeps_floats  whether custom resources are stored in a form that tells 1.0 from 1
    """

    def __init__(
        self,
        release: Release,
        definitions: Mapping[str, Defined] | None = None,
        *,
        webhooks: WebhookClient | None = None,
        conversions: ConversionMetrics | None = None,
        aggregated: Mapping[str, AggregatedVersion] | None = None,
        keeps_floats: bool = False,
    ) -> None:
        self.release = release
        self.keeps_floats = keeps_floats
        self.definitions: Mapping[str, Defined] = definitions or {}
        self.webhooks: WebhookClient = webhooks or NoWebhooks()
        self.conversions = conversions or ConversionMetrics()
        self.aggregated: Mapping[str, AggregatedVersion] = aggregated or {}

    def with_definition(self, definition: Definition) -> Serving:
        """Return this serving with a definition added or replaced."""
        from understudy.apiserver.extensions.kinds import Defined  # and schemas with it, which few servers need

        before = self.definitions.get(definition.name)
        if before is not None and before.definition.serves_the_same(definition):
            defined = before._replace(definition=definition)
        elif before is None or definition.conversion_webhook or not before.definition.defines_the_same(definition):
            version, webhooks = self.release.version, self.webhooks
            defined = Defined.by(definition, version, webhooks, self.conversions, keeps_floats=self.keeps_floats)
        else:
            defined = before.with_verbs_of(definition)
        return self._with_definitions({**self.definitions, definition.name: defined})

    def without_definition(self, definition: Definition) -> Serving:
        """Return this serving without a definition."""
        return self._with_definitions(
            {name: value for name, value in self.definitions.items() if name != definition.name}
        )

    def _with_definitions(self, definitions: Mapping[str, Defined]) -> Serving:
        return self._with(definitions, self.aggregated)

    def with_aggregated(self, aggregated: Mapping[str, AggregatedVersion]) -> Serving:
        """Return this serving with other versions of API services."""
        if aggregated == self.aggregated:
            return self
        return self._with(self.definitions, aggregated)

    def _with(self, definitions: Mapping[str, Defined], aggregated: Mapping[str, AggregatedVersion]) -> Serving:
        return Serving(
            self.release,
            definitions,
            webhooks=self.webhooks,
            conversions=self.conversions,
            aggregated=aggregated,
            keeps_floats=self.keeps_floats,
        )

    @cached_property
    def calls_webhooks(self) -> bool:
        """Report whether a webhook converts objects of any definition."""
        return any(defined.definition.conversion_webhook for defined in self.definitions.values())

    @property
    def version(self) -> Version:
        """Return the version of the release."""
        return self.release.version

    def custom(self, group: str, resource: str) -> Defined | None:
        """Return the definition of a custom resource, None if there is none that is served."""
        return self.definitions.get(f"{resource}.{group}")

    def resource(self, group: str, version: str, plural: str) -> Kind | None:
        kind = self.release.resource(group, version, plural)
        if kind is None and (defined := self.custom(group, plural)) is not None:
            return defined.kinds.get(version)
        return kind

    def kind(self, group: str, name: str) -> Kind | None:
        return self.release.kind(group, name) or self._custom_kinds.get((group, name))

    def kind_in(self, group: str, version: str, name: str) -> Kind | None:
        """Return a kind in a version, None if it is not served in that one."""
        kind = self.kind(group, name)
        if kind is not None and kind.custom is not None:
            return self.resource(group, version, kind.resource)
        return kind if kind is not None and version in kind.versions else None

    def of_resource(self, group: str, plural: str) -> Kind | None:
        """Return the kind of a resource in any version, the preferred one if there are several; None if it is not
        served."""
        kind = self.release.of_resource(group, plural)
        if kind is None and (defined := self.custom(group, plural)) is not None:
            return next(iter(defined.kinds.values()), None)
        return kind

    @property
    def kinds(self) -> Iterator[Kind]:
        """Return the built-in kinds in the order of discovery, then the custom ones in each of their versions."""
        custom = (kind for defined in self.definitions.values() for kind in defined.kinds.values())
        return chain(self.release.kinds, custom)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Return the API groups in the order of discovery, those of custom resources last.

        Versions that definitions add to a built-in group come first; they are listed, but nothing is served of them.
        """
        custom = self._custom_versions(established=True)
        built_in = (
            Group(group.name, {**custom.pop(group.name), **group.versions}) if group.name in custom else group
            for group in self.release.groups
        )
        return (*built_in, *(Group(name, versions) for name, versions in custom.items()))

    @cached_property
    def registered(self) -> Mapping[str, tuple[str, ...]]:
        """Return the versions of each group for which there are API services, preferred first.

        Definitions have them before they are established, and if they never are.
        """
        versions = {group.name: dict.fromkeys(group.versions) for group in self.release.groups}
        for group, custom in self._custom_versions(established=False).items():
            versions.setdefault(group, {}).update(dict.fromkeys(custom))
        for added in self.aggregated.values():
            versions.setdefault(added.group, {})[added.version] = None
        return {group: tuple(self.by_priority(group, names)) for group, names in versions.items()}

    def by_priority(self, group: str, versions: Iterable[str]) -> list[str]:
        """Return versions of a group in the order of discovery. Upstream: `ByVersionPriority`."""
        return sorted(versions, key=lambda name: (-self.priorities(group, name).version, priority_key(name)))

    def priorities(self, group: str, version: str) -> Priorities:
        """Return the priorities of the API service of a version."""
        key = group, version
        built_in = priorities.built_in(self.version)
        return self._aggregated_priorities.get(key) or built_in.get(key, priorities.DEFINED)

    @cached_property
    def _aggregated_priorities(self) -> Mapping[tuple[str, str], Priorities]:
        return {(added.group, added.version): added.priorities for added in self.aggregated.values()}

    def group(self, name: str) -> Group | None:
        """Return an API group, None if it is not served."""
        return self.release.group(name) or next((group for group in self.groups if group.name == name), None)

    @cached_property
    def _custom_kinds(self) -> dict[tuple[str, str], Kind]:
        kinds: dict[tuple[str, str], Kind] = {}
        for defined in self.definitions.values():
            for kind in defined.kinds.values():
                kinds.setdefault((kind.group, kind.name), kind)
        return kinds

    def _custom_versions(self, *, established: bool) -> dict[str, dict[str, tuple[Kind, ...]]]:
        """Return {group: {version: kinds}} of definitions, sorted as discovery lists them, without the group-versions
        of the release.

        established  only those of established definitions
        """
        out: dict[str, dict[str, tuple[Kind, ...]]] = {}
        for _, (definition, kinds, _) in sorted(self.definitions.items()):
            group = self.release.group(definition.group)
            if established and not definition.is_established:
                continue
            for version in kinds.keys() - (group.versions.keys() if group else ()):
                versions = out.setdefault(definition.group, {})
                versions[version] = (*versions.get(version, ()), kinds[version])
        return {
            group: dict(sorted(versions.items(), key=lambda item: priority_key(item[0])))
            for group, versions in sorted(out.items())
        }
