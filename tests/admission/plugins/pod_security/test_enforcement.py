"""The PodSecurity plugin: which pods it refuses, and which get warnings."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from tests.admission.asking import ask
from tests.releases import NEWEST
from understudy.admission.metrics import PodSecurityMetrics
from understudy.admission.plugins.pod_security import enforcement
from understudy.admission.plugins.pod_security.configuration import PodSecurityConfiguration
from understudy.admission.plugins.pod_security.levels import policy
from understudy.kinds.context import Context
from understudy.machinery.auth.users import User
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj

PODS, NAMESPACES, DEPLOYMENTS = ("", "pods"), ("", "namespaces"), ("apps", "deployments")
PLUGIN = enforcement.PodSecurity(PodSecurityConfiguration(), PodSecurityMetrics())
PREFIX = "pod-security.kubernetes.io/"
DETAIL = 'privileged (container "a" must not set securityContext.privileged=true)'


def context(pods: tuple[Obj, ...] = (), **modes: str) -> Context:
    """Return the context of a namespace with labels and pods."""
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


def test_pod_that_violates_the_enforced_level_is_refused() -> None:
    """A pod that the enforced level refuses gets no warnings of other levels."""
    ctx = context(enforce="baseline", warn="restricted")
    with pytest.raises(StatusError) as refused:
        ask(PLUGIN, PODS, pod(), ctx)
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
def test_pod_that_violates_the_warned_level_gets_a_warning(modes: dict[str, Any], warnings: list[str]) -> None:
    """A violation of the level to warn of is a warning; one of the level to audit is not shown to the client."""
    ctx = context(**modes)
    ask(PLUGIN, PODS, pod(), ctx)
    assert ctx.warnings == warnings


def test_pod_update_is_checked_if_images_or_containers_change() -> None:
    """An update of a pod is checked if an image changes or a container is added, and not otherwise."""
    ctx = context(warn="baseline")
    ask(PLUGIN, PODS, pod(), ctx, old=pod())
    assert not ctx.warnings
    ask(PLUGIN, PODS, pod(image="j"), ctx, old=pod())
    assert ctx.warnings
    with_ephemeral_container = pod()
    with_ephemeral_container["spec"]["ephemeralContainers"] = [{"name": "e", "image": "i"}]
    second_context = context(warn="baseline")
    ask(PLUGIN, PODS, with_ephemeral_container, second_context, old=pod(), subresource="ephemeralcontainers")
    assert second_context.warnings


@pytest.mark.parametrize(
    ("subresource", "template", "warned"), [("", pod(), True), ("scale", pod(), False), ("", None, False)]
)
def test_pod_template_gets_warnings_only(subresource: str, template: Obj | None, warned: bool) -> None:
    """An object with a pod template is never refused, and its scale subresource gets no warnings."""
    ctx = context(enforce="baseline")
    obj = {"metadata": {"namespace": "n"}, "spec": {"template": template}}
    ask(PLUGIN, DEPLOYMENTS, obj, ctx, subresource=subresource)
    assert bool(ctx.warnings) is warned
    ctx.warnings.clear()
    ask(PLUGIN, DEPLOYMENTS, obj, ctx, old=obj, subresource=subresource)
    assert bool(ctx.warnings) is warned


def namespace(**modes: str) -> Obj:
    return {"metadata": {"name": "n", "labels": labels(**modes)}}


def test_invalid_namespace_labels_are_refused() -> None:
    """Invalid labels of a namespace are refused on create, and on update if they changed."""
    text = f'metadata.labels[{PREFIX}warn]: Invalid value: "x": must be one of privileged, baseline, restricted'
    for old in (None, namespace()):
        with pytest.raises(StatusError) as refused:
            ask(PLUGIN, NAMESPACES, namespace(warn="x"), context(), old=old)
        assert (refused.value.code, refused.value.message) == (422, f'Namespace "n" is invalid: {text}')
    unchanged_labels = namespace(warn="x") | {"spec": {}}
    unchanged_labels["metadata"]["labels"]["other"] = "y"
    ask(PLUGIN, NAMESPACES, unchanged_labels, context(), old=namespace(warn="x"))


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
def test_stricter_namespace_level_warns_of_existing_pods(
    pods: tuple[Obj, ...], before: dict[str, str], after: dict[str, str], warnings: list[str]
) -> None:
    """A stricter level warns of the existing pods that violate it, in one line for pods with the same violations."""
    ctx = context(pods)
    ask(PLUGIN, NAMESPACES, namespace(**after), ctx, old=namespace(**before))
    head = 'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"'
    assert ctx.warnings == ([head, *warnings] if warnings else [])


def test_at_most_3000_existing_pods_are_checked() -> None:
    """Only the first 3000 pods of a namespace are checked against a new level, and the warning says so."""
    ctx = context((pod(privileged=False),) * (enforcement.MOST + 1))
    ask(PLUGIN, NAMESPACES, namespace(enforce="baseline"), ctx, old=namespace())
    assert ctx.warnings == ["new PodSecurity enforce level only checked against the first 3000 of 3001 existing pods"]


def test_exemption_stands_in_the_audit_log() -> None:
    """Each kind of exemption is annotated, the namespace's before the user's, and the runtime class last."""

    def annotated(**exempt: str) -> dict[str, str]:
        noted: dict[str, str] = {}
        names = {name: frozenset([value]) for name, value in exempt.items()}
        configuration = PodSecurityConfiguration(policy({f"{PREFIX}warn": "baseline"})[0], **names)
        plugin = enforcement.PodSecurity(configuration, PodSecurityMetrics())
        ctx = replace(context(), annotate=lambda key, value, detailed=False: noted.update({key: value}))
        sandboxed = pod()
        sandboxed["spec"]["runtimeClassName"] = "sandbox"
        ask(plugin, PODS, sandboxed, ctx, user=User("u", []))
        return noted

    assert annotated(namespaces="n", usernames="u") == {f"{PREFIX}exempt": "namespace"}
    assert annotated(usernames="u", runtime_classes="sandbox") == {f"{PREFIX}exempt": "user"}
    assert annotated(runtime_classes="sandbox") == {f"{PREFIX}exempt": "runtimeClass"}
    assert annotated() == {f"{PREFIX}enforce-policy": "privileged:latest"}


def counted(ctx: Context, exempt: frozenset[str] = frozenset()) -> list[tuple[str, ...]]:
    """Return the labels under which a new pod is counted, with the name of the family before them."""
    metrics = PodSecurityMetrics()
    plugin = enforcement.PodSecurity(PodSecurityConfiguration(namespaces=exempt), metrics)
    with suppress(StatusError):
        ask(plugin, PODS, pod(), ctx)
    return [
        (family.name.removeprefix("pod_security_"), *labels)
        for family in metrics.families
        for labels, count in family.series.items()
        if count
    ]


@pytest.mark.parametrize(
    ("modes", "labels"),
    [
        ({}, [("allow", "enforce", "privileged", "latest")]),
        ({"enforce": "baseline"}, [("deny", "enforce", "baseline", "latest")]),
        ({"audit": "baseline", "audit-version": "v1.99"}, [
            ("allow", "enforce", "privileged", "latest"),
            ("deny", "audit", "baseline", "future"),
        ]),
        ({"warn": "restricted", "warn-version": "v1.20"}, [
            ("allow", "enforce", "privileged", "latest"),
            ("deny", "warn", "restricted", "v1.20"),
        ]),
    ],
)  # fmt: skip
def test_evaluations_are_counted(modes: dict[str, Any], labels: list[tuple[str, ...]]) -> None:
    """The enforced standard is counted in any case, others where a pod violates them; later versions are "future"."""
    expected = [("evaluations_total", *each, "create", "pod", "") for each in labels]
    assert counted(context(**modes)) == expected


def test_exemptions_and_errors_are_counted() -> None:
    """Exempt requests are counted by what they write, and labels that name no policy as errors that are not fatal."""
    exempt = counted(context(enforce="baseline"), frozenset(["n"]))
    assert exempt == [("exemptions_total", "create", "pod", "")]
    assert ("errors_total", "false", "create", "pod", "") in counted(context(enforce="x"))
