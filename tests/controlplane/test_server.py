"""The server that users start, with the controllers that its options name."""

from __future__ import annotations

import re

import pytest

from understudy import Server


@pytest.mark.parametrize(
    ("controllers", "message"),
    [
        (["unheard-of"], "unknown controller 'unheard-of': known are namespace, garbage-collector, "),
        ("kube-scheduler", "; did you mean 'scheduler'?"),
        ("garbage-colector", "; did you mean 'garbage-collector'?"),
    ],
)
def test_unknown_controllers_are_refused(controllers: str | list[str], message: str) -> None:
    """A name that no controller has is refused before the server starts, with the one that may be meant."""
    with pytest.raises(ValueError, match=re.escape(message)):
        Server(controllers=controllers)


def test_controllers_newer_than_the_release_are_refused() -> None:
    """A controller that the release does not have is refused before the server starts."""
    with pytest.raises(
        ValueError, match=r"controller 'device-taint-eviction' came with Kubernetes 1\.33: 1\.31 has none"
    ):
        Server(controllers=["device-taint-eviction"], emulated_version="1.31")
