"""A package registry on loopback with one small package, for the real npm."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME, VERSION = "kbh-fake-agent", "1.2.3"
FILES = {
    "package.json": json.dumps({
        "name": NAME, "version": VERSION, "bin": {"fake": "agent"}, "scripts": {"postinstall": "touch was-run"},
    }),
    "agent": f"#!/bin/sh\necho {VERSION}\n",
    "setup.cjs": "require('fs').writeFileSync('was-set-up', 'yes')\n",
    "broken.cjs": "throw new Error('no')\n",
}  # fmt: skip


def tarball(files: Mapping[str, str]) -> bytes:
    """A package as npm wants it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            about = tarfile.TarInfo(f"package/{name}")
            about.size, about.mode = len(text.encode()), 0o644
            archive.addfile(about, io.BytesIO(text.encode()))
    return made.getvalue()


@dataclass
class Registry:
    """`fetched` counts downloads of the package; while `held` is not set, they wait."""

    url: str = ""
    fetched: int = 0
    asked: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)


@contextmanager
def registry(files: Mapping[str, str] = FILES) -> Iterator[Registry]:
    """Serves the package."""
    state, data = Registry(), tarball(files)
    state.held.set()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == f"/{NAME}":
                about = json.loads(files["package.json"])
                about["dist"] = {"tarball": f"{state.url}/{NAME}.tgz", "integrity": integrity}
                body = json.dumps({"name": NAME, "dist-tags": {"latest": VERSION}, "versions": {VERSION: about}})
                self.answer(200, body.encode())
            elif self.path == f"/{NAME}.tgz":
                state.fetched += 1
                state.asked.set()
                state.held.wait(60)
                self.answer(200, data)
            else:
                self.answer(404, b"{}")

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *parts: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.held.set()
        server.shutdown()
        server.server_close()
