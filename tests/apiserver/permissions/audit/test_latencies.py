"""Where the time of slow requests goes, as annotations."""

from __future__ import annotations

import pytest

from understudy import Server
from understudy.apiserver.permissions.audit import latencies
from understudy.apiserver.permissions.audit.latencies import PREFIX, Latencies
from understudy.machinery.releases.version import V1_32, V1_37, Version

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that a test sets."""
    times = [100.0]
    monkeypatch.setattr(latencies, "monotonic", lambda: times[0])
    return times


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (V1_37, {"authorization": "3ms", "mutating-webhook": "500ms", "validating-webhook": "300ms", "total": "1.25s"}),
        (V1_32, {"mutating-webhook": "500ms", "validating-webhook": "300ms", "total": "1.25s"}),
    ],
    ids=str,
)
def test_slow_requests_say_where_their_time_went(now: list[float], release: Version, expected: dict[str, str]) -> None:
    """Calls one after the other are added; of those at once the longest counts. Releases know more layers over time."""
    tracked = Latencies(release)
    for layer, seconds in (("mutating-webhook", 0.25), ("validating-webhook", 0.3)):
        tracked.track(layer, seconds)
        tracked.track(layer, 0.25)
    tracked.track("authorization", 0.003)
    now[0] += 1.25
    assert tracked.annotations() == {f"{PREFIX}{layer}": text for layer, text in expected.items()}


def test_fast_requests_say_nothing(now: list[float]) -> None:
    """Half a second is not slow."""
    tracked = Latencies(V1_37)
    now[0] += 0.5
    assert not tracked.annotations()


def test_layers_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last event of a request has the latencies of its layers, but that of a watch has none."""
    monkeypatch.setattr(latencies, "SLOW", 0.0)
    with Server(audit_policy={"rules": [{"level": "Metadata"}]}) as server:
        server.create(CONFIG_MAP)
        [event] = [
            event for event in server.audit if event["verb"] == "create" and event["stage"] == "ResponseComplete"
        ]
        layers = {name.removeprefix(PREFIX) for name in event["annotations"] if name.startswith(PREFIX)}
        assert layers == {"authentication", "authorization", "total"}
        with server.watch("configmaps") as events:
            next(iter(events))
    [event] = [event for event in server.audit if event["verb"] == "watch" and event["stage"] == "ResponseComplete"]
    assert not any(name.startswith(PREFIX) for name in event["annotations"])
