"""A language client, as small as one can be: JSON-RPC with Content-Length heads over a process's pipes."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0


class Client:
    """One session with `kbh-lint lsp`, from initialize to exit."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kbh_lint", "lsp", *options],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._inbox: queue.Queue[dict[str, Any]] = queue.Queue()
        self._count = 0
        threading.Thread(target=self._read, daemon=True).start()
        self.capabilities = self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        self.tell("initialized", {})

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """A notification."""
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: dict[str, Any] | None) -> Any:
        """A request; its result."""
        self._count += 1
        self._send({"id": self._count, "method": method, "params": params})
        return self.wait(lambda message: message.get("id") == self._count)["result"]

    def diagnostics(self, uri: str) -> list[dict[str, Any]]:
        """The next diagnostics that are published for a document."""
        method = "textDocument/publishDiagnostics"
        found = self.wait(lambda m: m.get("method") == method and m["params"]["uri"] == uri)
        return list(found["params"]["diagnostics"])

    def wait(self, wanted: Any) -> dict[str, Any]:
        """The next message that is wanted; others are dropped."""
        while True:
            message = self._inbox.get(timeout=WAIT_S)
            if wanted(message):
                return message

    def close(self) -> int:
        """Ends the session as an editor does; the exit code."""
        self.ask("shutdown", None)
        self._send({"method": "exit"})
        return self.process.wait(timeout=WAIT_S)

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while head := stream.readline():
            length = int(head.split(b":")[1])
            while stream.readline().strip():
                pass
            self._inbox.put(json.loads(stream.read(length)))
