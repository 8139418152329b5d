"""The steps of stories about an aggregated API server, for `compare aggregation`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scripts.common.comparing import Obj
from scripts.compare.cases.aggregated_server import GROUP, VERSION

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
SERVICES = "/api/v1/namespaces/wardle/services"


@dataclass
class Ask:
    """A request that is compared; it is repeated until the answer is as it has to be.

    until  its status, 0 for any
    shows  a text in its body
    hides  a text that is not there, "" for none
    alice  whether it is not the administrator's
    waits  whether it is only waited for its answer, which is not compared
    """

    path: str
    method: str = "GET"
    headers: Obj = field(default_factory=dict)
    body: Any = None
    alice: bool = False
    until: int = 0
    shows: str = ""
    hides: str = ""
    waits: bool = False

    def is_answered_by(self, status: int, body: bytes) -> bool:
        """Report whether an answer is one that is waited for."""
        shown = self.shows.encode() in body and not (self.hides and self.hides.encode() in body)
        return shown and status == (self.until or status)


@dataclass
class Write:
    """A request that prepares others."""

    method: str
    path: str
    body: Any = None


@dataclass
class Reason:
    """Waits for the reason of the condition `Available` of an API service, which is compared."""

    reason: str
    name: str = f"{VERSION}.{GROUP}"


@dataclass
class Serve:
    """Lets the aggregated server answer at a path from now on, or no longer if there is no page."""

    path: str
    page: Any = None
    media: str = "application/json"


Step = Ask | Write | Reason | Serve
