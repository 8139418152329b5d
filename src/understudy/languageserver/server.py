"""The language server: answers an editor by the Language Server Protocol, through pygls.

https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/

A client that asks for diagnostics (`textDocument/diagnostic`) is told when to ask again; to all others they are sent, a
moment after the last change. Texts are sent as a whole: pygls takes characters for ends of lines that are none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from importlib.metadata import version
from itertools import chain
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from understudy.languageserver.completion import Choice, complete
from understudy.languageserver.hover import hover
from understudy.languageserver.positions import Positions
from understudy.languageserver.problems import Problem
from understudy.languageserver.session import Session, files_with_definitions, read_definitions
from understudy.languageserver.symbols import symbols
from understudy.offline.checks import Checks

QUIET = 0.2  # seconds without a change, before problems are sent
_PATTERN = "**/*.{yaml,yml,json}"

logger = logging.getLogger(__name__)


class ManifestServer(LanguageServer):
    """A language server for manifests.

    is_excluded  reports whether a path is left alone
    """

    def __init__(self, checks: Checks, is_excluded: Callable[[str], bool]) -> None:
        super().__init__("understudy", version("understudy"), lsp.TextDocumentSyncKind.Full)
        self.session = Session(checks)
        self.is_excluded = is_excluded
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        _register(self)

    @property
    def is_asked(self) -> bool:
        """Report whether the client asks for diagnostics by itself."""
        text_document = self.client_capabilities.text_document
        return bool(text_document and text_document.diagnostic)

    def text_changed(self, uri: str, *, at_once: bool = False) -> None:
        """Note the text of a document; send its problems, and those of all others if definitions changed."""
        document = self.workspace.get_text_document(uri)
        path = to_fs_path(uri) or ""
        if path and self.is_excluded(path):
            return
        if self.session.set_text(uri, path, document.source):
            self.definitions_changed()
        self._send_later(uri, 0 if at_once else QUIET)

    def definitions_changed(self) -> None:
        """Send the problems of all open texts, or tell the client to ask for them."""
        if self.is_asked:
            workspace = self.client_capabilities.workspace
            if workspace and workspace.diagnostics and workspace.diagnostics.refresh_support:
                self.workspace_diagnostic_refresh(None)
            return
        for uri in self.session.open_texts():
            self._send_later(uri, QUIET)

    def closed(self, uri: str) -> None:
        """Forget a document, whose problems go."""
        if waiting := self._waiting.pop(uri, None):
            waiting.cancel()
        if self.session.close(uri):
            self.definitions_changed()
        if not self.is_asked:
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def diagnostics(self, uri: str) -> list[lsp.Diagnostic]:
        """Return the problems of a document as the protocol has them."""
        positions = self.positions(uri)
        return [_diagnostic(problem, positions) for problem in self.session.problems(uri)]

    def positions(self, uri: str) -> Positions:
        """Return the positions of a document."""
        return Positions(self.workspace.get_text_document(uri).source, self.workspace.position_codec)

    def read_folders(self, folders: list[str]) -> None:
        """Look for definitions in folders, without holding up anything."""

        def read() -> dict[str, Any]:
            files = (files_with_definitions(folder, self.is_excluded) for folder in folders)
            return dict(chain.from_iterable(files))

        async def read_beside() -> None:
            if self.session.set_files(await asyncio.get_running_loop().run_in_executor(None, read)):
                self.definitions_changed()

        self._start(read_beside())

    def watch_files(self) -> None:
        """Ask the client to tell of changed manifests, if it can."""
        workspace = self.client_capabilities.workspace
        watched = workspace.did_change_watched_files if workspace else None
        if watched and watched.dynamic_registration:
            options = lsp.DidChangeWatchedFilesRegistrationOptions([lsp.FileSystemWatcher(_PATTERN)])
            method = lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = lsp.Registration("manifests", method, options)
            self._start(self.client_register_capability_async(lsp.RegistrationParams([registration])))

    def _send_later(self, uri: str, delay: float) -> None:
        if waiting := self._waiting.pop(uri, None):
            waiting.cancel()
        if not self.is_asked:
            self._waiting[uri] = asyncio.get_running_loop().call_later(delay, self._send, uri)

    def _send(self, uri: str) -> None:
        self._waiting.pop(uri, None)
        version = self.workspace.get_text_document(uri).version
        parameters = lsp.PublishDiagnosticsParams(uri, self.diagnostics(uri), version)
        self.text_document_publish_diagnostics(parameters)

    def _start(self, work: Any) -> None:
        """Run a coroutine beside what is asked."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _register(server: ManifestServer) -> None:
    """Register what the server answers."""

    @server.feature(lsp.INITIALIZED)
    def initialized(_: lsp.InitializedParams) -> None:
        workspace = server.workspace
        paths = [to_fs_path(folder.uri) for folder in workspace.folders.values()] or [workspace.root_path]
        server.read_folders([path for path in paths if path])
        server.watch_files()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders_changed(params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        paths = [to_fs_path(folder.uri) for folder in params.event.added]
        server.read_folders([path for path in paths if path])

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files_changed(params: lsp.DidChangeWatchedFilesParams) -> None:
        paths = [path for change in params.changes if (path := to_fs_path(change.uri))]
        files = {path: read_definitions(path) for path in paths if not server.is_excluded(path)}
        if server.session.set_files(files):
            server.definitions_changed()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.text_changed(params.text_document.uri, at_once=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        server.text_changed(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        uri = params.text_document.uri
        if path := to_fs_path(uri):
            server.session.set_files({path: read_definitions(path)})
        server.text_changed(uri, at_once=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)

    @server.feature(
        lsp.TEXT_DOCUMENT_DIAGNOSTIC,
        lsp.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier="understudy"),
    )
    def diagnostic(params: lsp.DocumentDiagnosticParams) -> lsp.RelatedFullDocumentDiagnosticReport:
        return lsp.RelatedFullDocumentDiagnosticReport(server.diagnostics(params.text_document.uri))

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[" ", '"']))
    def completion(params: lsp.CompletionParams) -> lsp.CompletionList | None:
        positions = server.positions(params.text_document.uri)
        completed = complete(positions.text, positions.offset(params.position), server.session.schemas)
        if completed is None:
            return None
        replaced = positions.range(completed.start, completed.end)
        return lsp.CompletionList(False, [_item(choice, replaced) for choice in completed.choices])

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        positions = server.positions(params.text_document.uri)
        about = hover(positions.text, positions.offset(params.position), server.session.schemas)
        if about is None:
            return None
        content = lsp.MarkupContent(lsp.MarkupKind.Markdown, about.text)
        return lsp.Hover(content, positions.range(about.start, about.end))

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def document_symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        positions = server.positions(params.text_document.uri)
        return [
            lsp.DocumentSymbol(
                name=f"{symbol.kind}/{symbol.name}",
                kind=lsp.SymbolKind.Object,
                range=positions.range(symbol.start, symbol.end),
                selection_range=positions.range(symbol.kind_start, symbol.kind_end),
            )
            for symbol in symbols(positions.text)
        ]


def _diagnostic(problem: Problem, positions: Positions) -> lsp.Diagnostic:
    return lsp.Diagnostic(
        range=positions.range(problem.start, problem.end),
        severity=lsp.DiagnosticSeverity(problem.severity),
        code=problem.code,
        source="understudy",
        message=problem.message,
    )


def _item(choice: Choice, replaced: lsp.Range) -> lsp.CompletionItem:
    about = lsp.MarkupContent(lsp.MarkupKind.Markdown, choice.about) if choice.about else None
    return lsp.CompletionItem(
        label=choice.label,
        kind=lsp.CompletionItemKind.Field if choice.is_key else lsp.CompletionItemKind.EnumMember,
        detail=choice.type or None,
        documentation=about,
        sort_text=choice.rank,
        filter_text=choice.label,
        text_edit=lsp.TextEdit(replaced, choice.text),
    )
