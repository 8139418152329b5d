"""The server that users start: an API server, and behind it the controllers that its options name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.server import server as apiserver
from understudy.controlplane.controllers import ControllerManager
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

if TYPE_CHECKING:
    from understudy.ui.user_interface import UserInterface


class Server(apiserver.Server):
    """A stand-in for kube-apiserver. Its options are those of `ServerConfig`.

    Raises ValueError for options that make no sense, OSError for a port that is taken, LoadError for a manifest.
    """

    _ui: UserInterface | None = None  # made when somebody asks for it

    def _new_controller_manager(self, names: Iterable[str], version: Version) -> ControllerManager:
        return ControllerManager(names, version)

    async def _answer_ui(self, request: Request) -> Response | None:
        if self._ui is None:
            from understudy.ui.user_interface import UserInterface

            self._ui = UserInterface(self._lifecycle, self._explain)
        return await self._ui.answer(request)

    async def _explain(self, claim: str) -> Obj:
        """Say why a claim, NAMESPACE/NAME, gets no devices. Raises 404."""
        from understudy.controlplane.client.claim_explanation import explain_claim

        return await explain_claim(self._lifecycle.door.clients.client("understudy-ui"), self.state, claim)

    def record(
        self,
        file: str | os.PathLike[str] | None = None,
        *,
        namespaces: str | Iterable[str] = (),
        kinds: str | Iterable[str] = (),
    ) -> str:
        """Write what the server holds as a world, which `load` and `--load` take; return its YAML.

            server.record("cluster.yaml")
            Server(load=["cluster.yaml"])

        It is what `understudy record` writes of any cluster: all objects with their status, without secrets, without
        what servers and controllers make by themselves, and without what a server sets anew. The comment at its head
        says how many objects of which kinds were left out.

        file        in the fixture a relative path is one of the test's folder; None writes nothing
        namespaces  only objects of these, and those of none; all by default
        kinds       only objects of these: "Pod", "pods", "deployments.apps"; all by default

        Raises ValueError for a kind that is not recorded, StatusError for a namespace that does not exist, and OSError
        for a file that cannot be written.
        """
        __tracebackhide__ = True
        from understudy.controlplane.recorder.recording import Choice, record  # few servers are recorded

        choice = Choice(apiserver.texts(namespaces), apiserver.texts(kinds))
        text = self._ask_internally("understudy-record", lambda client, _: record(client.get, choice)).text()
        if file is not None:
            (self.manifest_folder or Path()).joinpath(file).write_text(text)
        return text

    def report(self, file: str | os.PathLike[str], *, title: str = "") -> Path:
        """Write what the server holds as a page of HTML, one file that a browser opens; return its path.

            server.report("report.html")

        It shows what the page at /ui/ shows, without a server and for good. The values of Secrets are left out, those
        of other objects are not: custom resources may hold secrets, too.

        file   in the fixture a relative path is one of the test's folder
        title  of what has led to it, which the page shows

        Raises OSError for a file that cannot be written.
        """
        __tracebackhide__ = True
        path = (self.manifest_folder or Path()).joinpath(file).absolute()
        path.write_text(self._run(self.report_page(title)), encoding="utf-8")
        return path

    async def report_page(self, title: str = "") -> str:
        """Return the HTML of `report`, in the event loop of the server."""
        from understudy.controlplane.client.claim_explanation import explain_waiting_claims
        from understudy.ui.report import page  # few servers are reported

        client, state = self._lifecycle.door.clients.client("understudy-ui"), self.state
        return await page(client, self._lifecycle, lambda most: explain_waiting_claims(client, state, most), title)
