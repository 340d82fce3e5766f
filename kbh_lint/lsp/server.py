"""The language server: documents come in, a worker process lints them, diagnostics go out.

Linting is debounced, one document at a time, and bounded as on the command line: the worker has a limit of time and
memory and is killed beyond it. A result of a text that has changed since is dropped.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import field
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from kbh_lint.base.errors import SetupError, UsageError
from kbh_lint.base.records import dataclass
from kbh_lint.base.version import __version__
from kbh_lint.lsp.diagnostics import diagnostics, hover
from kbh_lint.marked import DataError
from kbh_lint.rules import Rule, load_rules
from kbh_lint.service.jobs import Worker
from kbh_lint.service.one_file import Options
from kbh_lint.service.run import problem_files
from kbh_lint.source.resolve import Resolver
from kbh_lint.source.sidecars import Neighbours
from kbh_lint.source.submissions import MAX_BYTES, Submission, of_text

DEBOUNCE_S = 0.5
MAX_DOCUMENTS = 200
_MODEL = re.compile(r"^class[ \t]+Model(?:New)?\b", re.M)


@dataclass(slots=True)
class _Document:
    """An open document: which request is the latest, and what was shown last."""

    ticket: int = 0
    shown: list[types.Diagnostic] = field(default_factory=list)


class _Server(LanguageServer):
    """The server with its one worker."""

    def __init__(self, options: Options, resolver: Resolver, rules: dict[str, Rule]) -> None:
        super().__init__("kbh-lint", __version__)
        self.resolver, self.rules = resolver, rules
        self.worker = Worker(options)
        self.busy = asyncio.Lock()
        self.documents: dict[str, _Document] = {}

    async def lint_later(self, uri: str, delay: float) -> None:
        """Lints a document once it has been left alone for `delay` seconds."""
        if uri not in self.documents and len(self.documents) >= MAX_DOCUMENTS:
            return
        document = self.documents.setdefault(uri, _Document())
        document.ticket += 1
        ticket = document.ticket
        await asyncio.sleep(delay)
        if document.ticket != ticket:
            return
        async with self.busy:
            if document.ticket != ticket:
                return
            text = self.workspace.get_text_document(uri).source.replace("\r\n", "\n").replace("\r", "\n")
            found = await asyncio.get_running_loop().run_in_executor(None, self._lint, uri, text)
        if document.ticket == ticket and self.documents.get(uri) is document:
            self.show(uri, document, found)

    def show(self, uri: str, document: _Document, found: list[types.Diagnostic]) -> None:
        """Sends what is to be shown of a document."""
        document.shown = found
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))

    def forget(self, uri: str) -> None:
        """A closed document shows nothing."""
        document = self.documents.pop(uri, None)
        if document is not None:
            document.ticket += 1
            self.show(uri, document, [])

    def _lint(self, uri: str, text: str) -> list[types.Diagnostic]:
        """In a thread: reads what lies beside the document, and has the worker lint all of it."""
        path = to_fs_path(uri)
        if path is None or not path.endswith(".py"):
            return []
        try:
            submission = _submission(Path(path), text, self.resolver)
        except (DataError, UsageError) as error:
            return self._trouble(str(error))
        if submission is None:
            return []
        outcome = self.worker.lint(submission)
        if isinstance(outcome, SetupError):
            return self._trouble(str(outcome))
        return diagnostics(outcome.report, text)

    def _trouble(self, message: str) -> list[types.Diagnostic]:
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, f"kbh-lint: {message}"))
        return []


def _submission(path: Path, text: str, resolver: Resolver) -> Submission | None:
    """The document as a submission; None for a file that solves no known problem and defines no model."""
    if len(text) > MAX_BYTES or not text.strip():
        return None
    submission = of_text(path, text, resolver, Neighbours())
    return submission if submission.problem is not None or _MODEL.search(text) else None


def serve(options: Options, problem: str | None, problem_file: Path | None) -> None:
    """Serves one editor to the end of its session. Raises UsageError or DataError before the session begins."""
    files = problem_files(problem, problem_file)
    rules = {rule.id: rule for rule in load_rules(Path(options.rules_dir))}
    server = _Server(options, Resolver(Path(options.problems_dir), problem, None, files), rules)
    _register(server)
    try:
        server.start_io()
    finally:
        server.worker.stop()
        server.worker.reap()


def _register(server: _Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(ls: _Server, params: types.DidOpenTextDocumentParams) -> None:
        await ls.lint_later(params.text_document.uri, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(ls: _Server, params: types.DidChangeTextDocumentParams) -> None:
        await ls.lint_later(params.text_document.uri, DEBOUNCE_S)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(ls: _Server, params: types.DidSaveTextDocumentParams) -> None:
        await ls.lint_later(params.text_document.uri, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: _Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.forget(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(ls: _Server, params: types.HoverParams) -> types.Hover | None:
        document = ls.documents.get(params.text_document.uri)
        text = hover(document.shown, params.position, ls.rules) if document is not None else ""
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None
