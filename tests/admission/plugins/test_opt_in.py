"""Admission plugins that are off by default and need no rights. Texts are those of kube-apiserver 1.36.4."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.asking import ask
from tests.releases import NEWEST
from understudy import Server, StatusError
from understudy.admission.plugins.namespace_lifecycle import NamespaceExists
from understudy.admission.plugins.permissions.denials import AlwaysDeny, DenyServiceExternalIPs
from understudy.admission.plugins.pods.always_pull_images import AlwaysPullImages
from understudy.admission.plugins.pods.placement import ExtendedResourceToleration, LimitPodHardAntiAffinityTopology
from understudy.kinds.context import Context
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj

PODS, SERVICES, CONFIG_MAPS = ("", "pods"), ("", "services"), ("", "configmaps")


def context() -> Context:
    """Return the context of a cluster with one namespace, "ns"."""
    return Context(
        NEWEST, Gates.of(NEWEST), "v1", lookup=lambda group, resource, namespace, name: {} if name == "ns" else None
    )


def pod(image: str = "i", **spec: Any) -> Obj:
    container = {"name": "c", "image": image, "imagePullPolicy": "IfNotPresent"}
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [container], **spec}}


def test_images_are_always_pulled() -> None:
    """New pods, and those that get a new image, pull every image; others stay as they are."""

    def policy(new: Obj, old: Obj | None = None) -> str:
        spec = ask(AlwaysPullImages(), PODS, new, context(), old=old)["spec"]
        return str(spec["containers"][0]["imagePullPolicy"])

    assert policy(pod()) == policy(pod("j"), pod("i")) == "Always"
    assert policy(pod("i"), pod("i")) == "IfNotPresent"
    volume = {"name": "v", "image": {"reference": "r", "pullPolicy": "Never"}}
    assert ask(AlwaysPullImages(), PODS, pod(volumes=[volume]), context())["spec"]["volumes"] == [
        {"name": "v", "image": {"reference": "r", "pullPolicy": "Always"}}
    ]


GPU = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("requests", "before", "tolerations"),
    [
        ({"example.com/gpu": "1", "cpu": "1"}, [], [GPU]),
        ({"cpu": "1", "hugepages-2Mi": "2Mi"}, [], None),
        ({"example.com/gpu": "1"}, [GPU], [GPU]),
        ({"example.com/gpu": "1"}, [{**GPU, "effect": "NoExecute"}], [{**GPU, "effect": "NoExecute"}, GPU]),
        ({"b.io/x": "1", "a.io/x": "1"}, [], [{**GPU, "key": "a.io/x"}, {**GPU, "key": "b.io/x"}]),
    ],
)
def test_extended_resources_are_tolerated(requests: Obj, before: list[Obj], tolerations: list[Obj] | None) -> None:
    """A pod that requests extended resources tolerates the taints of that name, in the order of names."""
    spec: Obj = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    if before:
        spec["tolerations"] = before
    made = pod(**spec)
    assert ask(ExtendedResourceToleration(), PODS, made, context())["spec"].get("tolerations") == tolerations


def test_pods_keep_others_from_their_node_only() -> None:
    """A required anti-affinity may be about nodes, not about zones."""

    def check(key: str) -> None:
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key}]}
        ask(LimitPodHardAntiAffinityTopology(), PODS, pod(affinity={"podAntiAffinity": terms}), context())

    check("kubernetes.io/hostname")
    with pytest.raises(StatusError, match="has TopologyKey zone but only key"):
        check("zone")


def service(*ips: str) -> Obj:
    return {"metadata": {"name": "s"}, "spec": {"externalIPs": list(ips)}}


def test_external_ips_are_kept_not_added() -> None:
    """A service may keep its external IPs, and get no new ones."""
    ask(DenyServiceExternalIPs(), SERVICES, service("1.1.1.1"), context(), old=service("1.1.1.1", "2.2.2.2"))
    for old in (None, service("2.2.2.2")):
        with pytest.raises(StatusError, match="Use of external IPs is denied by admission control"):
            ask(DenyServiceExternalIPs(), SERVICES, service("1.1.1.1"), context(), old=old)


def test_namespace_has_to_exist() -> None:
    """Updates and deletions in a namespace that does not exist are 404, too."""
    there, elsewhere = ({"metadata": {"name": "c", "namespace": name}} for name in ("ns", "absent"))
    ask(NamespaceExists(), CONFIG_MAPS, there, context(), old=there)
    for new in (elsewhere, None):
        with pytest.raises(StatusError, match='namespaces "absent" not found'):
            ask(NamespaceExists(), CONFIG_MAPS, new, context(), old=elsewhere)


def test_everything_is_denied() -> None:
    """AlwaysDeny refuses writes of everybody."""
    with pytest.raises(StatusError, match="admission control is denying all modifications"):
        ask(AlwaysDeny(), PODS, pod(), context())


@pytest.mark.parametrize(
    "plugin",
    [
        AlwaysDeny,
        AlwaysPullImages,
        DenyServiceExternalIPs,
        ExtendedResourceToleration,
        LimitPodHardAntiAffinityTopology,
        NamespaceExists,
    ],
)
def test_plugins_are_off_by_default(plugin: type[AlwaysDeny]) -> None:
    """A plugin is asked if it is enabled by its name."""
    assert plugin.name not in [each.name for each in Server().state.chain.plugins]
    assert plugin.name in [each.name for each in Server(enable_admission_plugins=[plugin.name]).state.chain.plugins]
