"""The ServiceAccount plugin: accounts, tokens and secrets of pods. Texts are those of kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.asking import ask
from tests.releases import NEWEST
from understudy.admission.plugins.pods.service_account import TOKEN_PATH, ServiceAccount
from understudy.kinds.context import Context
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj

PODS = ("", "pods")
STRICT = {
    "metadata": {"name": "strict", "annotations": {"kubernetes.io/enforce-mountable-secrets": "t"}},
    "secrets": [{"name": "listed"}],
    "imagePullSecrets": [{"name": "pull"}],
}
ACCOUNTS: dict[str, Obj] = {
    "default": {"metadata": {"name": "default"}},
    "puller": {"metadata": {"name": "puller"}, "imagePullSecrets": [{"name": "pull"}]},
    "quiet": {"metadata": {"name": "quiet"}, "automountServiceAccountToken": False},
    "strict": STRICT,
}


def context() -> Context:
    return Context(NEWEST, Gates.of(NEWEST), "v1", lookup=lambda group, resource, namespace, name: ACCOUNTS.get(name))


def pod(*, mirror: bool = False, **spec: Any) -> Obj:
    metadata: Obj = {"name": "p", "namespace": "ns"}
    if mirror:
        metadata["annotations"] = {"kubernetes.io/config.mirror": "x"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def admitted(obj: Obj) -> Obj:
    """Return the spec of a new pod as the plugin leaves it."""
    spec: Obj = ask(ServiceAccount(), PODS, obj, context())["spec"]
    return spec


def refusal(obj: Obj, old: Obj | None = None, subresource: str = "") -> str:
    with pytest.raises(StatusError) as caught:
        ask(ServiceAccount(), PODS, obj, context(), old=old, subresource=subresource)
    return f"{caught.value.code} {caught.value.message}".removeprefix('403 pods "p" is forbidden: ')


def test_pod_gets_default_account_and_its_token() -> None:
    """A pod without an account gets `default`; its containers see a token, the root certificate and the namespace."""
    spec = admitted(pod(initContainers=[{"name": "i", "image": "i"}]))
    (volume,) = spec["volumes"]
    mount = {"name": volume["name"], "readOnly": True, "mountPath": TOKEN_PATH}
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert volume["name"].startswith("kube-api-access-")
    assert [container["volumeMounts"] for container in spec["initContainers"] + spec["containers"]] == [[mount]] * 2
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]


MOUNTED = {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": TOKEN_PATH}]}


@pytest.mark.parametrize(
    ("obj", "mounted"),
    [
        (pod(serviceAccountName="quiet"), False),
        (pod(serviceAccountName="quiet", automountServiceAccountToken=True), True),
        (pod(automountServiceAccountToken=False), False),
        (pod(containers=[MOUNTED]), False),
    ],
)
def test_token_is_mounted_unless_refused(obj: Obj, mounted: bool) -> None:
    """A pod, or else its account, may refuse the token; so does a mount at its path."""
    assert ("volumes" in admitted(obj)) is mounted


def test_token_volume_of_the_pod_is_used() -> None:
    """A volume whose name begins like that of tokens is mounted, and none added."""
    volumes = [{"name": "kube-api-access-mine", "emptyDir": {}}]
    spec = admitted(pod(volumes=volumes))
    assert spec["volumes"] == volumes
    assert spec["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-mine"


def test_pull_secrets_come_from_account() -> None:
    """A pod has the pull secrets of its account unless it has its own."""
    assert admitted(pod(serviceAccountName="puller"))["imagePullSecrets"] == [{"name": "pull"}]
    own = [{"name": "own"}]
    assert admitted(pod(serviceAccountName="puller", imagePullSecrets=own))["imagePullSecrets"] == own


def env(kind: str, **source: Any) -> Obj:
    spec: Obj = {kind: [{"name": "x", "image": "i", **source}]}
    return pod(serviceAccountName="strict", **spec)


KEY = [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
NOT_LISTED = "is not allowed because service account strict does not reference that secret"


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (
            pod(serviceAccountName="absent"),
            'error looking up service account ns/absent: serviceaccount "absent" not found',
        ),
        (pod(mirror=True, serviceAccountName="default"), "a mirror pod may not reference service accounts"),
        (
            pod(mirror=True, volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
            "a mirror pod may not reference secrets",
        ),
        (
            pod(
                mirror=True, volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
            ),
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
        (
            pod(serviceAccountName="strict", volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
            f'volume with secret.secretName="s" {NOT_LISTED}',
        ),
        (env("containers", env=KEY), f'container x with envVar E referencing secret.secretName="s" {NOT_LISTED}'),
        (
            env("initContainers", envFrom=[{"secretRef": {"name": "s"}}]),
            f'init container x with envFrom referencing secret.secretName="s" {NOT_LISTED}',
        ),
        (
            pod(serviceAccountName="strict", imagePullSecrets=[{"name": "s"}]),
            f'imagePullSecrets[0].name="s" {NOT_LISTED.replace("secret", "imagePullSecret")}',
        ),
    ],
)
def test_refused_pods(obj: Obj, text: str) -> None:
    """An account has to exist; if it says so, its pods use the secrets that it lists only. Mirror pods use none."""
    assert refusal(obj) == text


def test_listed_secrets_may_be_mounted() -> None:
    """A pod may use the secrets that its account lists."""
    volumes = [{"name": "v", "secret": {"secretName": "listed"}}]
    assert volumes[0] in admitted(pod(serviceAccountName="strict", volumes=volumes))["volumes"]


def test_ephemeral_containers_use_listed_secrets() -> None:
    """An ephemeral container with a secret that its account does not list is refused, with 500 as upstream does."""
    old = pod(serviceAccountName="strict")
    text = refusal(env("ephemeralContainers", env=KEY), old, "ephemeralcontainers")
    assert text == f'500 ephemeral container x with envVar E referencing secret.secretName="s" {NOT_LISTED}'
