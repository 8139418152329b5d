"""Serves what the stored custom resource definitions define, from the very write that changes them.

kube-apiserver learns of such writes by its informers, a moment later.
"""

from __future__ import annotations

import logging

from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.extensions.definition import Definition
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.storage.interface import Entry, Event, UnreadableError, Watch
from understudy.machinery.releases import features

log = logging.getLogger(__name__)
GROUP, RESOURCE = "apiextensions.k8s.io", "customresourcedefinitions"


class ServedDefinitions:
    """Follows the definitions in the store of a server for as long as that lives."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._store = state.registry.store
        keeps_floats = state.gates[features.CBOR_SERVING_AND_STORAGE]
        # kept, with all that is made of it
        self._without = Serving(
            state.release,
            webhooks=state.webhooks,
            conversions=state.conversion_metrics,
            keeps_floats=keeps_floats,
        )
        self._prefix = ""
        definitions = state.release.of_resource(GROUP, RESOURCE)
        if definitions is not None:
            self._prefix = prefix_of(definitions)
            self._watch = self._begin()

    def _begin(self) -> Watch:
        """Serve what is stored now, and watch what is written from now on."""
        serving = self._without.with_aggregated(self._state.serving.aggregated)
        for entry in self._store.scan(self._prefix):
            if (definition := _definition(entry)) is not None:
                serving = serving.with_definition(definition)
                self._state.document_metrics.change(definition)
        self._state.serve(serving)
        watch = self._store.watch(self._prefix, self._store.revision)
        watch.wake = self._follow
        return watch

    def _follow(self) -> None:
        """Serve what was written. The store calls this within the write."""
        if self._watch.overflown:
            self._store.unwatch(self._watch)
            self._watch = self._begin()
        while self._watch.queue:
            self._change(self._watch.take())

    def _change(self, event: Event) -> None:
        """Serve a definition as it was written, and end the watches of its objects if they are served otherwise now.
        One that cannot be read changes nothing."""
        before, definition = self._state.serving, _definition(event.entry)
        if definition is None:
            return
        old = before.custom(definition.group, definition.plural)
        if event.deleted:
            self._state.serve(before.without_definition(definition))
            self._state.document_metrics.remove(definition)
        else:
            self._state.serve(before.with_definition(definition))
            self._state.document_metrics.change(definition)
        new = self._state.serving.custom(definition.group, definition.plural)
        is_same = old is not None and new is not None and old.storage.custom is new.storage.custom  # kept with schemas
        if old is not None and (event.deleted or not (is_same or old.definition.defines_the_same(definition))):
            prefix = prefix_of(old.storage)
            self._store.end_watches(prefix)
            for entry in self._store.scan(prefix):
                entry.cache.clear()  # the forms in which the old kinds showed it


def _definition(entry: Entry) -> Definition | None:
    """Return the definition of an entry, None for one that cannot be read: something else has written it."""
    try:
        return Definition(entry.object)
    except UnreadableError as why:
        log.error("unable to read a definition: %s: %s", entry.key, why)
        return None
