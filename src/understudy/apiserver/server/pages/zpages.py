"""The pages /statusz and /flagz, which tell people how the server runs and how it was started.

They are there while the gates ComponentStatusz and ComponentFlagz are on. Upstream: `k8s.io/component-base/zpages`,
since 1.35 `k8s.io/apiserver/pkg/server/{statusz,flagz}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial

from understudy.apiserver.endpoints.negotiation import CBOR, JSON, YAML, Clause, Output, clauses
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import render_document, text_response
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.pages.healthz import TEXT
from understudy.machinery.errors import not_acceptable
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gate
from understudy.machinery.releases.version import V1_32, V1_34, V1_35, V1_36, ByRelease, Version
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.util.clock import timestamp

GROUP = "config.k8s.io"
STATUSZ, FLAGZ = "/statusz", "/flagz"
GATES: Mapping[str, Gate] = {STATUSZ: features.COMPONENT_STATUSZ, FLAGZ: features.COMPONENT_FLAGZ}
FIRST = V1_32  # the release that has these gates first
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only.\n"
)
_DEPRECATED = "This version of the {} endpoint is deprecated. Please use a newer version."
_PLAIN = "text/plain"
_LISTED = ("/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version")


class _Form(NamedTuple):
    """The forms of both pages in a release.

    status_name, flags_name  the names that they give the server
    flags_title              the heading of /flagz
    versions                 of the group config.k8s.io for clients that ask for JSON or YAML, newest first
    """

    status_name: str
    flags_name: str
    flags_title: str
    versions: tuple[str, ...] = ()


_FORMS = ByRelease(
    {
        V1_36: _Form("apiserver", "apiserver", "flagz\n" + _WARNING, ("v1beta1", "v1alpha1")),
        V1_35: _Form("apiserver", "kube-apiserver", "flagz\n" + _WARNING, ("v1alpha1",)),
        V1_34: _Form("apiserver", "kube-apiserver", "flags\n" + _WARNING + "\n"),
        V1_32: _Form("kube-apiserver", "kube-apiserver", "flags\n" + _WARNING + "\n"),
    }
)


def paths(state: ServerState) -> list[str]:
    """Return the paths of the pages whose feature gates are on."""
    if state.release.version < FIRST:
        return []
    return [path for path, gate in GATES.items() if state.gates[gate]]


class ZPages:
    """The pages of one server. `flags` are those that it was started with, as text."""

    def __init__(self, state: ServerState, flags: Mapping[str, str]) -> None:
        self._state = state
        self._flags = flags
        self._started = state.clock.now()

    def statusz(self, request: Request) -> Response | None:
        """Answer /statusz: since when the server runs, and what it is."""
        return self._answer(request, STATUSZ, "Statusz", self._status, self._status_text)

    def flagz(self, request: Request) -> Response | None:
        """Answer /flagz: the flags of the server."""
        return self._answer(request, FLAGZ, "Flagz", lambda: {"flags": dict(self._flags)}, self._flags_text)

    def _answer(
        self, request: Request, path: str, kind: str, body: Callable[[], Obj], text: Callable[[], str]
    ) -> Response | None:
        if path not in paths(self._state):
            return None
        form = self._form
        accept = request.headers.get("Accept", "")
        request.serves_cbor = self._version >= V1_36 and self._state.gates[features.CBOR_SERVING_AND_STORAGE]
        structured = (JSON, YAML, CBOR) if request.serves_cbor else (JSON, YAML)
        offers = partial(_offered, kind=kind, versions=form.versions, structured=structured)
        if not form.versions:
            accepted = any(clause.matches(_PLAIN) for clause in clauses(accept))
            return Response(200, text().encode(), TEXT) if accepted else _NOT_TEXT
        asked = [offer for clause in clauses(accept) for offer in offers(clause)] if accept.strip() else [(_PLAIN, "")]
        if not asked:
            raise not_acceptable((JSON, YAML, _PLAIN, *structured[2:]))
        media_type, version = asked[0]
        if media_type == _PLAIN:
            return Response(200, text().encode(), TEXT)
        if version != form.versions[0]:
            request.warnings.append(_DEPRECATED.format(path[1:]))
        document = {"kind": kind, "apiVersion": f"{GROUP}/{version}", "metadata": {"name": form.status_name}, **body()}
        content = render_document(document, Output(media_type), self._state.schemas)
        return Response(200, content, f"{media_type};g={GROUP};v={version};as={kind}")

    @property
    def _form(self) -> _Form:
        return _FORMS[self._version]

    @property
    def _version(self) -> Version:
        return self._state.release.version

    def _status(self) -> Obj:
        """Return the fields of a Statusz."""
        info, more = self._state.release.version_info, {}
        if self._version >= V1_34:
            more["paths"] = self._listed()
        return {
            "startTime": timestamp(self._started),
            "uptimeSeconds": self._uptime(),
            "goVersion": info["goVersion"],
            "binaryVersion": info["gitVersion"].removeprefix("v"),
            "emulationVersion": str(self._version),
            **more,
        }

    def _uptime(self) -> int:
        return int(self._state.clock.now() - self._started)

    def _listed(self) -> list[str]:
        """Return the pages for debugging that there are."""
        absent = GATES.keys() - paths(self._state)
        return [path for path in _LISTED if path not in absent]

    def _status_text(self) -> str:
        status, seconds = self._status(), self._uptime()
        lines = [
            f"Started: {_unix_date(self._started)}",
            f"Up: {seconds // 3600} hr {seconds // 60 % 60:02} min {seconds % 60:02} sec",
            f"Go version: {status['goVersion']}",
            f"Binary version: {status['binaryVersion']}",
            f"Emulation version: {status['emulationVersion']}",
        ]
        if "paths" in status:
            lines.append(f"Paths: {'' if self._version >= V1_35 else ' '}{' '.join(status['paths'])}")
        return f"\n{self._form.status_name} statusz\n{_WARNING}\n" + "".join(f"{line}\n" for line in lines)

    def _flags_text(self) -> str:
        lines = "".join(f"{name}: {value}\n" for name, value in self._flags.items())
        return f"\n{self._form.flags_name} {self._form.flags_title}{lines}"


_NOT_TEXT = text_response(406, "media type not acceptable, must be: text/plain\n")


def _offered(
    clause: Clause, kind: str, versions: tuple[str, ...], structured: tuple[str, ...]
) -> list[tuple[str, str]]:
    """Return the media types and versions that a clause of an Accept header may be answered with, best first."""
    target = tuple(clause.parameters.get(key) for key in ("as", "g", "v"))
    if target == (None, None, None):
        return [(_PLAIN, "")] if clause.matches(_PLAIN) else []
    if target[:2] != (kind, GROUP) or target[2] not in versions:
        return []
    return [(media_type, target[2]) for media_type in structured if clause.matches(media_type)]


def _unix_date(seconds: float) -> str:
    """Return a time as Go's `time.UnixDate` has it, in UTC."""
    time = datetime.fromtimestamp(seconds, UTC)
    return f"{time:%a %b} {time.day:2} {time:%H:%M:%S UTC %Y}"
