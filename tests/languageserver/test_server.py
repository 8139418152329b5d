"""The language server as an editor sees it: a process, over its standard input and output."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.ports import free_port
from tests.waiting import PATIENCE, until

pytest.importorskip("pygls")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from tests.languageserver.test_problems import DEFINITION
from understudy.cli.main import main
from understudy.machinery.serializer.rpc.installation import install_command

WIDGET = """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
size: 4
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - {name: a, image: "😀", imagePullPolicy: Sometimes}
"""
UNSUPPORTED = 'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes"'


class Editor(LanguageClient):
    """An editor, with the diagnostics that it was sent last."""

    def __init__(self, capabilities: lsp.ClientCapabilities) -> None:
        super().__init__("editor", "1")
        self.capabilities = capabilities
        self.shown: dict[str, list[lsp.Diagnostic]] = {}
        self.refreshes = 0
        self.exit_code: int | None = None
        self.watched: list[lsp.Registration] = []
        self._changed = asyncio.Condition()

        @self.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        async def published(params: lsp.PublishDiagnosticsParams) -> None:
            async with self._changed:
                self.shown[params.uri] = list(params.diagnostics)
                self._changed.notify_all()

        @self.feature(lsp.WORKSPACE_DIAGNOSTIC_REFRESH)
        async def refreshed(_: None) -> None:
            async with self._changed:
                self.refreshes += 1
                self._changed.notify_all()

        @self.feature(lsp.CLIENT_REGISTER_CAPABILITY)
        async def registered(params: lsp.RegistrationParams) -> None:
            async with self._changed:
                self.watched += params.registrations
                self._changed.notify_all()

    async def start(self, folder: Path) -> None:
        await self.start_io(sys.executable, "-m", "understudy", "lsp")
        await self.greet(folder)

    async def greet(self, folder: Path) -> None:
        """Open a folder."""
        folders = [lsp.WorkspaceFolder(folder.as_uri(), "work")]
        params = lsp.InitializeParams(capabilities=self.capabilities, workspace_folders=folders)
        await self.initialize_async(params)
        self.initialized(lsp.InitializedParams())

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(condition)

    def open(self, uri: str, text: str) -> None:
        document = lsp.TextDocumentItem(uri, "yaml", 1, text)
        self.text_document_did_open(lsp.DidOpenTextDocumentParams(document))

    def change(self, uri: str, text: str, version: int = 2) -> None:
        document = lsp.VersionedTextDocumentIdentifier(version, uri)
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        self.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    def close(self, uri: str) -> None:
        self.text_document_did_close(lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(uri)))

    def messages(self, uri: str) -> list[str] | None:
        """Return the messages that are shown for a document, None before any were sent."""
        diagnostics = self.shown.get(uri)
        return None if diagnostics is None else [each.message for each in diagnostics]

    async def end(self) -> None:
        await self.shutdown_async(None)
        self.exit(None)
        await self.stop()  # type: ignore[no-untyped-call]

    async def server_exit(self, server: asyncio.subprocess.Process) -> None:
        self.exit_code = server.returncode


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a definition."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "crd.yaml").write_text(DEFINITION)
    return folder


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def editor(folder: Path) -> AsyncIterator[Editor]:
    """An editor to which diagnostics are sent, beside a server for the workspace."""
    watched = lsp.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True)
    editor = Editor(lsp.ClientCapabilities(workspace=lsp.WorkspaceClientCapabilities(did_change_watched_files=watched)))
    await editor.start(folder)
    yield editor
    await editor.end()
    assert editor.exit_code == 0


@pytest.mark.asyncio(loop_scope="module")
async def test_errors_are_sent_while_typing(editor: Editor) -> None:
    """Errors are sent when a text is opened and after each change; characters are counted in UTF-16."""
    editor.open("file:///pod.yaml", POD)
    await editor.until(lambda: editor.shown.get("file:///pod.yaml"))
    [shown] = editor.shown["file:///pod.yaml"]
    assert shown.message.startswith(UNSUPPORTED)
    assert (shown.severity, shown.code, shown.source) == (
        lsp.DiagnosticSeverity.Error,
        "FieldValueNotSupported",
        "understudy",
    )
    assert (
        POD.splitlines()[5]
        .encode("utf-16-le")[2 * shown.range.start.character :]
        .startswith("Sometimes".encode("utf-16-le"))
    )
    assert (shown.range.start.line, shown.range.end.character - shown.range.start.character) == (5, 9)
    editor.change("file:///pod.yaml", POD.replace("Sometimes", "[") + f"---\n{POD}")
    await editor.until(lambda: len(editor.shown["file:///pod.yaml"]) == 2)
    assert [each.range.start.line for each in editor.shown["file:///pod.yaml"]] == [5, 12]
    editor.change("file:///pod.yaml", POD.replace("Sometimes", "Never"), 3)
    await editor.until(lambda: editor.messages("file:///pod.yaml") == [])
    editor.change("file:///pod.yaml", POD, 4)
    await editor.until(lambda: editor.messages("file:///pod.yaml"))
    editor.close("file:///pod.yaml")
    await editor.until(lambda: editor.messages("file:///pod.yaml") == [])


@pytest.mark.asyncio(loop_scope="module")
async def test_definitions_of_the_workspace_count(editor: Editor, folder: Path) -> None:
    """Custom resources are judged by definitions in files; as they are in the editor, if they are open there; and as
    they are on disk when the client tells of a change."""
    widget, definition = (folder / "widget.yaml").as_uri(), (folder / "crd.yaml").as_uri()

    def largest(size: int) -> list[str]:
        return [f"size: Invalid value: 4: size in body should be less than or equal to {size}"]

    editor.open(widget, WIDGET)
    await editor.until(lambda: editor.messages(widget) == largest(3))
    editor.open(definition, DEFINITION.replace("maximum: 3", "maximum: 2"))
    await editor.until(lambda: editor.messages(widget) == largest(2))
    editor.close(definition)
    await editor.until(lambda: editor.messages(widget) == largest(3))
    await editor.until(lambda: editor.watched)
    assert [each.method for each in editor.watched] == ["workspace/didChangeWatchedFiles"]
    (folder / "crd.yaml").write_text(DEFINITION.replace("maximum: 3", "maximum: 1"))
    changes = [lsp.FileEvent(definition, lsp.FileChangeType.Changed)]
    editor.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams(changes))
    await editor.until(lambda: editor.messages(widget) == largest(1))


@pytest.mark.asyncio(loop_scope="module")
async def test_completion_and_hover_are_answered(editor: Editor) -> None:
    """Choices replace the word before the cursor, the description covers what is pointed at, objects are listed."""
    editor.open("file:///new.yaml", POD.replace("Sometimes", "Some"))
    document = lsp.TextDocumentIdentifier("file:///new.yaml")
    at = lsp.Position(5, POD.splitlines()[5].index("Some") + 1 + 4)
    completed = await editor.text_document_completion_async(lsp.CompletionParams(document, at))
    assert isinstance(completed, lsp.CompletionList)
    edits = {item.label: item.text_edit for item in completed.items}
    word = lsp.Range(lsp.Position(5, at.character - 4), at)
    assert edits == {label: lsp.TextEdit(word, label) for label in ("Always", "IfNotPresent", "Never")}
    about = await editor.text_document_hover_async(lsp.HoverParams(document, lsp.Position(4, 3)))
    assert about is not None
    assert about.range == lsp.Range(lsp.Position(4, 2), lsp.Position(4, 12))
    assert isinstance(about.contents, lsp.MarkupContent)
    assert about.contents.value.startswith("**containers** `[]Container`, required")
    symbols = await editor.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))
    assert [symbol.name for symbol in symbols or ()] == ["Pod/p"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_client_that_asks_is_told_when(folder: Path) -> None:
    """Over TCP: who asks for diagnostics is sent none, but told to ask again when definitions change. Flags are those
    of `validate`."""
    port = free_port()
    flags = ("--tcp", f"127.0.0.1:{port}", "--skip", "Secret", "--exclude", "widget.yaml")
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "understudy", "lsp", *flags)
    diagnostic = lsp.TextDocumentClientCapabilities(diagnostic=lsp.DiagnosticClientCapabilities())
    refresh = lsp.WorkspaceClientCapabilities(diagnostics=lsp.DiagnosticWorkspaceClientCapabilities(True))
    editor = Editor(lsp.ClientCapabilities(text_document=diagnostic, workspace=refresh))

    async def connect() -> bool:
        with suppress(ConnectionError):
            await editor.start_tcp("127.0.0.1", port)
            return True
        return False

    await until(connect)
    await editor.greet(folder)

    async def ask(uri: str, text: str) -> list[str]:
        editor.open(uri, text)
        params = lsp.DocumentDiagnosticParams(lsp.TextDocumentIdentifier(uri))
        report = await editor.text_document_diagnostic_async(params)
        assert isinstance(report, lsp.RelatedFullDocumentDiagnosticReport)
        return [each.message for each in report.items]

    await editor.until(lambda: editor.refreshes == 1)  # the definitions of the workspace are read
    assert (await ask("file:///pod.yaml", POD))[0].startswith(UNSUPPORTED)
    assert await ask("file:///secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: A}\n") == []
    assert await ask((folder / "widget.yaml").as_uri(), WIDGET) == []
    assert await ask((folder / "crd.yaml").as_uri(), DEFINITION.replace("maximum", "minimum")) == []
    await editor.until(lambda: editor.refreshes == 2)
    await editor.shutdown_async(None)
    editor.exit(None)
    assert await process.wait() == 0
    assert editor.shown == {}


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without pygls the command says what to install, and its exit code is 2."""
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.delitem(sys.modules, "understudy.languageserver.server", raising=False)
    assert main(["lsp"]) == 2
    assert capsys.readouterr().err == f"understudy: lsp needs pygls: {install_command('lsp', 'pygls')}\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--tcp", "8080"], "understudy lsp: argument --tcp: want HOST:PORT, not '8080'\n"),
        (["--tcp", "localhost:1", "--stdio"], "understudy: --stdio and --tcp exclude each other\n"),
        (["--feature-gates", "No=true"], "understudy: unrecognized feature gate: No\n"),
        (["--crds", "missing.yaml"], "missing.yaml: No such file or directory\n"),
    ],
)
def test_wrong_flags_are_one_line(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong flag is one line, and exit code 2."""
    try:
        code = main(["lsp", *flags])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert (code, capsys.readouterr().err) == (2, message)


def test_other_commands_do_without_pygls() -> None:
    """Neither the help of all commands nor that of this one waits for pygls."""
    code = """
import sys
from understudy.cli import main
main.import_commands(main.COMMANDS)
print(*{"pygls", "lsprotocol", "understudy.languageserver"} & sys.modules.keys())
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "\n"
