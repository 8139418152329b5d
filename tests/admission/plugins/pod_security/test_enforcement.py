"""PodSecurity at work: what is refused, what is warned of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.admission.context import Context
from understudy.admission.plugins.pod_security import enforcement
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates

Obj = dict[str, Any]
PREFIX = "pod-security.kubernetes.io/"
DETAIL = 'privileged (container "a" must not set securityContext.privileged=true)'


def context(pods: tuple[Obj, ...] = (), **modes: str) -> Context:
    """A namespace with labels and pods."""
    namespace = {"metadata": {"name": "n", "labels": labels(**modes)}}
    return Context(
        NEWEST,
        Gates.of(NEWEST),
        "v1",
        lookup=lambda group, resource, namespace_, name: namespace,
        listing=lambda group, resource, namespace_: pods,
    )


def labels(**modes: str) -> dict[str, str]:
    return {f"{PREFIX}{mode}": level for mode, level in modes.items()}


def pod(name: str = "p", image: str = "i", privileged: bool = True) -> Obj:
    container = {"name": "a", "image": image, "securityContext": {"privileged": privileged}}
    return {"metadata": {"name": name, "namespace": "n"}, "spec": {"containers": [container]}}


def test_a_pod_is_refused() -> None:
    """By the level that is enforced; then nothing is warned of."""
    ctx = context(enforce="baseline", warn="restricted")
    with pytest.raises(StatusError) as refused:
        enforcement.check_pod(pod(), ctx)
    assert refused.value.message == f'pods "p" is forbidden: violates PodSecurity "baseline:latest": {DETAIL}'
    assert ctx.warnings == []


@pytest.mark.parametrize(
    ("modes", "warnings"),
    [
        ({}, []),
        ({"audit": "restricted"}, []),
        ({"warn": "baseline"}, [f'would violate PodSecurity "baseline:latest": {DETAIL}']),
    ],
)
def test_a_pod_is_warned_of(modes: dict[str, str], warnings: list[str]) -> None:
    """By the level that is warned of; auditors are told nothing here."""
    ctx = context(**modes)
    enforcement.check_pod(pod(), ctx)
    assert ctx.warnings == warnings


def test_updates_that_matter() -> None:
    """A stored pod is checked again when an image changes or a container is added."""
    ctx = context(warn="baseline")
    enforcement.check_pod_update(pod(), pod(), ctx)
    assert not ctx.warnings
    enforcement.check_pod_update(pod(image="j"), pod(), ctx)
    assert ctx.warnings
    more = pod()
    more["spec"]["ephemeralContainers"] = [{"name": "e", "image": "i"}]
    again = context(warn="baseline")
    enforcement.check_pod_update(more, pod(), again)
    assert again.warnings


@pytest.mark.parametrize(
    ("subresource", "template", "warned"), [("", pod(), True), ("scale", pod(), False), ("", None, False)]
)
def test_templates_are_warned_of(subresource: str, template: Obj | None, warned: bool) -> None:
    """What makes pods is never refused; its scale says nothing about them."""
    ctx = context(enforce="baseline")
    ctx.subresource = subresource
    rules = enforcement.of_template("spec", "template")
    obj = {"metadata": {"namespace": "n"}, "spec": {"template": template}}
    rules["check_create"](obj, ctx)
    assert bool(ctx.warnings) is warned
    ctx.warnings.clear()
    rules["check_update"](obj, obj, ctx)
    assert bool(ctx.warnings) is warned


def namespace(**modes: str) -> Obj:
    return {"metadata": {"name": "n", "labels": labels(**modes)}}


def test_labels_are_checked() -> None:
    """On create always, on update if they changed."""
    text = f'metadata.labels[{PREFIX}warn]: Invalid value: "x": must be one of privileged, baseline, restricted'
    for refuse in (
        lambda: enforcement.check_namespace(namespace(warn="x"), context()),
        lambda: enforcement.check_namespace_update(namespace(warn="x"), namespace(), context()),
    ):
        with pytest.raises(StatusError) as refused:
            refuse()
        assert (refused.value.code, refused.value.message) == (422, f'Namespace "n" is invalid: {text}')
    same = namespace(warn="x") | {"spec": {}}
    same["metadata"]["labels"]["other"] = "y"
    enforcement.check_namespace_update(same, namespace(warn="x"), context())


@pytest.mark.parametrize(
    ("pods", "before", "after", "warnings"),
    [
        ((pod(),), {}, {"enforce": "privileged"}, []),
        ((pod(),), {}, {"warn": "restricted"}, []),
        ((pod(),), {"enforce": "restricted"}, {"enforce": "baseline"}, []),
        ((pod(privileged=False),), {}, {"enforce": "baseline"}, []),
        ((pod("b"),), {}, {"enforce": "baseline"}, ["b: privileged"]),
        ((pod("b"), pod("a")), {}, {"enforce": "baseline"}, ["a (and 1 other pod): privileged"]),
        ((pod("b"), pod("a"), pod("c")), {}, {"enforce": "baseline"}, ["a (and 2 other pods): privileged"]),
    ],
)
def test_namespaces_are_told_of_their_pods(
    pods: tuple[Obj, ...], before: dict[str, str], after: dict[str, str], warnings: list[str]
) -> None:
    """Which pods a level that is stricter than before would refuse, those with the same violations together."""
    ctx = context(pods)
    enforcement.check_namespace_update(namespace(**after), namespace(**before), ctx)
    head = 'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"'
    assert ctx.warnings == ([head, *warnings] if warnings else [])


def test_many_pods() -> None:
    """Not more than three thousand are looked at."""
    ctx = context((pod(privileged=False),) * (enforcement.MOST + 1))
    enforcement.check_namespace_update(namespace(enforce="baseline"), namespace(), ctx)
    assert ctx.warnings == ["new PodSecurity enforce level only checked against the first 3000 of 3001 existing pods"]
