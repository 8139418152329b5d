"""What admission plugins ask about kinds and their objects."""

from __future__ import annotations

import gc
import weakref

from understudy import Server
from understudy.apiserver.endpoints.object_interfaces import RegistryObjects
from understudy.apiserver.extensions.serving import Serving
from understudy.machinery.types import GroupVersionResource


def test_what_was_served_is_forgotten() -> None:
    """Kinds that are served no more are not kept: the schemas of their definitions may be large."""
    with Server() as server:
        registry = server.state.registry
        registry.resources = before = Serving(server.state.release)
        objects = RegistryObjects(registry, server.state.schemas)
        deployments = GroupVersionResource("apps", "v1", "deployments")
        assert [mapping.resource for mapping in objects.equivalent_resources(deployments, "")] == [deployments]
        kept = weakref.ref(before)
        del before
        registry.resources = server.state.serving
        gc.collect()
        assert kept() is None
