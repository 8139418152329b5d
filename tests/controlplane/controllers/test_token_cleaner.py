"""Compare what becomes of tokens in Secrets with their fates beside kube-controller-manager 1.32 and 1.37."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.authentication.service_accounts.legacy_tokens import (
    INVALID_SINCE,
    LAST_USED,
    NAME_ANNOTATION,
    SECRET_TYPE,
    UID_ANNOTATION,
)
from understudy.apiserver.controllers.token_tracking import NAME, SINCE
from understudy.machinery.types import Obj

CORE = "/api/v1/namespaces/default"
TODAY = "TODAY"
CLEANER = "legacy-serviceaccount-token-cleaner"
TRACKING_PATH = f"/api/v1/namespaces/kube-system/configmaps/{NAME}"
KEPT, MARKED, DELETED = "kept", "marked", "deleted"


NO_LABELS: Mapping[str, str] = {}
NO_ANNOTATIONS: Mapping[str, str] = {}


class Case(NamedTuple):
    """A Secret, and what becomes of it."""

    fate: str
    labels: Mapping[str, str] = NO_LABELS
    annotations: Mapping[str, str] = NO_ANNOTATIONS
    listed: bool = True
    type: str = SECRET_TYPE


CASES = {
    "unused": Case(MARKED),
    "not-listed": Case(KEPT, listed=False),
    "mounted": Case(KEPT),
    "used-today": Case(KEPT, {LAST_USED: TODAY}),
    "used-long-ago": Case(MARKED, {LAST_USED: "2020-01-01"}),
    "used-some-day": Case(KEPT, {LAST_USED: "some-day"}),
    "marked-today": Case(KEPT, {INVALID_SINCE: TODAY}),
    "marked-long-ago": Case(DELETED, {INVALID_SINCE: "2020-01-01"}),
    "marked-some-day": Case(MARKED, {INVALID_SINCE: "some-day"}),
    "of-another-bot": Case(KEPT, annotations={UID_ANNOTATION: "another"}),
    "of-nobody": Case(KEPT, annotations={NAME_ANNOTATION: "nobody"}),
    "opaque": Case(KEPT, type="Opaque"),
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}],
    },
}


def objects(today: str) -> list[tuple[str, Obj]]:
    """Return the account, the pod and the Secrets of all cases, with the path to which each is sent."""
    listed = [{"name": name} for name, case in CASES.items() if case.listed]
    sent: list[tuple[str, Obj]] = [("serviceaccounts", {"metadata": {"name": "bot"}, "secrets": listed}), ("pods", POD)]
    for name, case in CASES.items():
        labels = {label: value.replace(TODAY, today) for label, value in case.labels.items()}
        metadata = {"name": name, "labels": labels, "annotations": {NAME_ANNOTATION: "bot", **case.annotations}}
        sent.append(("secrets", {"metadata": metadata, "type": case.type}))
    return [(f"{CORE}/{resource}", obj) for resource, obj in sent]


def fates(secrets: list[Obj], today: str) -> dict[str, str]:
    """Return the fates of the Secrets of all cases, given those that are left."""
    left = {secret["metadata"]["name"]: secret["metadata"].get("labels") or {} for secret in secrets}

    def fate(name: str) -> str:
        if name not in left:
            return DELETED
        was = CASES[name].labels.get(INVALID_SINCE, "").replace(TODAY, today)
        return KEPT if left[name].get(INVALID_SINCE, "") == was else MARKED

    return {name: fate(name) for name in CASES}


EXPECTED = {name: case.fate for name, case in CASES.items()}
NONE_YET = dict.fromkeys(CASES, KEPT)
# A year after that those that were marked are gone.
AT_LAST = {name: KEPT if fate == KEPT else DELETED for name, fate in EXPECTED.items()}


class Story:
    """A server with the controller, whose clock stands still, and the Secrets of all cases in it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        server.clock.freeze()
        self._day = (server.clock.now() + timedelta(days=500)).strftime("%Y-%m-%d")
        for path, obj in objects(self._day):
            assert send(server, "POST", path, obj).status == 201

    def fates(self) -> dict[str, str]:
        return fates(send(self._server, "GET", f"{CORE}/secrets").json()["items"], self._day)

    def go_on(self, days: int) -> None:
        """Let days pass at once."""
        self._server.clock.set(self._server.clock.now() + timedelta(days=days))


def test_fate_of_tokens() -> None:
    """Only Secrets that their account lists, that no pod mounts and that nobody has used are marked, then deleted."""
    with Server(controllers=[CLEANER]) as server:
        story = Story(server)
        story.go_on(364)
        assert story.fates() == NONE_YET
        story.go_on(3)
        wait_until(story.fates, lambda fates: fates == EXPECTED)
        story.go_on(364)
        assert story.fates() == EXPECTED
        story.go_on(3)
        wait_until(story.fates, lambda fates: fates == AT_LAST)


def test_year_of_tracking_begins_anew() -> None:
    """All Secrets stay for another year after the day is lost since which uses are noted."""
    with Server(controllers=[CLEANER]) as server:
        story = Story(server)
        send(server, "DELETE", TRACKING_PATH)
        story.go_on(400)
        today = server.clock.now().strftime("%Y-%m-%d")
        wait_until(lambda: send(server, "GET", TRACKING_PATH).json().get("data"), lambda data: data == {SINCE: today})
        assert story.fates() == NONE_YET
        story.go_on(367)
        wait_until(story.fates, lambda fates: fates == EXPECTED)
