"""The verbs of the API on paths, whichever way their requests take.

    await verbs.get("/api/v1/namespaces/default/pods/p")
    await verbs.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
    await verbs.delete("/api/v1/namespaces/n", propagation="Foreground")

`loopback.Client` sends them inside the server's process, `APIClient` of `controlplane.client` by HTTP.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from understudy.apiserver.endpoints.negotiation import APPLY_PATCH, JSON, MERGE_PATCH
from understudy.machinery.errors import StatusError, ignore_not_found, status_error
from understudy.machinery.types import Obj

Query = Mapping[str, str]  # parameters that are "" are not sent


class Verbs(ABC):
    """Reads and writes objects by their paths, as one user. Every method raises StatusError for what is refused."""

    @abstractmethod
    async def request(
        self, method: str, path: str, body: Any = None, content_type: str = "", query: Query | None = None
    ) -> Obj:
        """Send a request; return the object that is answered.

        body          JSON values; None for no body
        content_type  of the body; "" for an object with its kind, in the encoding that the client uses
        """

    async def get(self, path: str, query: Query | None = None) -> Obj:
        """Return an object or a list."""
        return await self.request("GET", path, query=query)

    async def find(self, path: str) -> Obj | None:
        """Return an object, None if there is none."""
        with ignore_not_found():
            return await self.get(path)
        return None

    async def create(self, path: str, obj: Obj, query: Query | None = None) -> Obj:
        """Create an object in the collection at a path; return it as stored."""
        return await self.request("POST", path, obj, query=query)

    async def update(self, path: str, obj: Obj, query: Query | None = None) -> Obj:
        """Replace an object; return it as stored."""
        return await self.request("PUT", path, obj, query=query)

    async def patch(self, path: str, changes: Any, content_type: str = MERGE_PATCH, query: Query | None = None) -> Obj:
        """Change an object by a patch, a merge patch (RFC 7386) by default; return it as stored."""
        return await self.request("PATCH", path, changes, content_type, query)

    async def apply(self, path: str, obj: Obj, field_manager: str) -> Obj:
        """Apply an object, taking over fields that others manage; return it as stored."""
        return await self.patch(path, obj, APPLY_PATCH, {"fieldManager": field_manager, "force": "true"})

    async def delete(
        self,
        path: str,
        query: Query | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> Obj:
        """Delete an object, or the objects of a collection that the selectors in `query` match; return the answer.

        uid, resource_version  of the object to delete: another one is a conflict
        propagation            "Background", "Foreground" or "Orphan"
        grace_period           seconds
        """
        required = {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
        options = {
            "gracePeriodSeconds": grace_period,
            "preconditions": required or None,
            "propagationPolicy": propagation or None,
            "dryRun": ["All"] if dry_run else None,
        }
        body = {name: value for name, value in options.items() if value is not None}
        return await self.request("DELETE", path, body or None, JSON, query)


def answered_error(code: int, answer: bytes, decode: Callable[[bytes], Any]) -> StatusError:
    """Return the error of an answer, which is a Status unless a filter or a proxy has answered in plain text."""
    try:
        status = decode(answer)
    except ValueError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        return StatusError(code, "", answer.decode(errors="replace").strip())
    return status_error(code, status)
