"""The front door of a server without HTTP: requests go in and answers come out in the caller's thread."""

from __future__ import annotations

from typing import Any

from understudy.apiserver.authentication.loopback import LoopbackTokens
from understudy.apiserver.server.director import Director
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.server.wiring import new_authenticator, new_flow_control, new_parts
from understudy.machinery.releases.version import V1_32, Version
from understudy.machinery.util.clock import Clock, SystemClock

URL = "http://127.0.0.1:0"


def front_door(release: Version = V1_32, clock: Clock | None = None, **options: Any) -> Director:
    """Return the front door of a new server of a release, which holds nothing, and where everybody may do all."""
    config = ServerConfig(emulated_version=str(release), clock=clock or SystemClock(), **options)
    state = new_parts(config).state
    authenticator = new_authenticator(config, state, LoopbackTokens())
    flow_control, limiter = new_flow_control(config, state)
    return Director(state, authenticator, URL, flow_control=flow_control, limiter=limiter)
