"""Takes secrets out of bodies of calls, text by text within their JSON, so that what is kept can be replayed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from grader.record.bundle.redact import LIMIT, MARK, redact
from harness.proxy.dialects.common import JsonError, parse_json, unescaped

__all__ = ["Redactor", "Scrubber", "forms"]

_BATCH = LIMIT // 2  # characters that are looked through at once
_LEAST = 6
_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|(api|access|secret|private)[_-]?key|client[_-]?secret"
    r"|(access|api|auth|refresh)[_-]?token|authorization|cookie",
    re.IGNORECASE,
)


def forms(secret: str) -> tuple[str, ...]:
    """The forms in which a secret may appear: as it is, in URLs, in hexadecimal, and in base64 at each offset in the
    bytes.
    """
    if len(secret) < _LEAST:
        return ()
    data = secret.encode()
    found = {secret, quote(secret, safe=""), data.hex(), data.hex().upper()}
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        whole = coded[(0, 2, 3)[before] : len(coded) - ((before + len(data)) % 3 != 0)]
        found |= {whole, whole.replace("+", "-").replace("/", "_")}
    return tuple(sorted(found))


class Redactor:
    """Takes out the given secrets, in all their forms, and whatever `grader.record.bundle.redact` knows to be one.

    Paths stay: what an agent asked for outside its room is evidence.
    """

    def __init__(self, known: Iterable[str]) -> None:
        every = sorted({form for secret in known for form in forms(secret)})
        self._environ = {**os.environ, "HOME": "/", **{f"KBH_KEY_{n}": form for n, form in enumerate(every)}}

    def text(self, text: str) -> str:
        """The text without secrets; the middle of one longer than `grader.record.bundle.redact.LIMIT` is left out."""
        if len(text) > 3 * LIMIT:  # the seam lies in what is left out below
            text = text[: LIMIT + LIMIT // 2] + text[-(LIMIT + LIMIT // 2) :]
        return redact(text, environ=self._environ)

    def texts(self, texts: Sequence[str]) -> list[str]:
        """Each text without secrets, in order."""
        found: list[str] = []
        batch: list[str] = []
        size = 0
        for text in texts:
            if size + len(text) > _BATCH and batch:
                found += self._together(batch)
                batch, size = [], 0
            batch.append(text)
            size += len(text) + 40
        return found + self._together(batch)

    def json(self, value: object) -> Any:
        """A value that came from JSON, its texts without secrets; it keeps its shape."""
        leaves = list(_leaves(value))
        clean = [
            self._kept_json(old, new) if old != new and old[:1] in ("{", "[") else new
            for old, new in zip(leaves, self.texts(leaves), strict=True)
        ]
        return value if clean == leaves and not _has_secret_names(value) else _rebuilt(value, iter(clean))

    def body(self, data: bytes) -> bytes:
        """A body without secrets: JSON, lines of a stream whose data is JSON, or plain text."""
        try:
            value = parse_json(data)
            clean = self.json(value)
            return data if clean == value else unescaped(clean)
        except JsonError:
            lines = data.decode("utf-8", "replace").split("\n")
            return "\n".join(self._lines(lines)).encode("utf-8", "replace")

    def _lines(self, lines: list[str]) -> list[str]:
        """Lines of a stream; one that holds no secret stays as it was."""
        values: list[Any] = []
        for line in lines:
            value: Any = line
            if line.startswith("data:"):
                with contextlib.suppress(JsonError):
                    value = parse_json(line[5:].encode("utf-8", "replace"))
            values.append(value)
        return [
            line if old == new else (new if isinstance(old, str) else "data: " + unescaped(new).decode())
            for line, old, new in zip(lines, values, self.json(values), strict=True)
        ]

    def _together(self, batch: list[str]) -> list[str]:
        """One pass over many texts, since most are short. A private key may swallow a border: then one by one."""
        if len(batch) < 2:
            return [self.text(text) for text in batch]
        border = f"\n=={secrets.token_hex(8)}==\n"
        found = self.text(border.join(batch)).split(border)
        return found if len(found) == len(batch) else [self.text(text) for text in batch]

    def _kept_json(self, old: str, new: str) -> str:
        """Redacted text that was JSON stays JSON."""
        try:
            inner = json.loads(old)
            return json.dumps(self.json(inner), ensure_ascii=False, separators=(",", ":"))
        except (ValueError, RecursionError):
            return new


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)


def _rebuilt(value: object, clean: Iterator[str]) -> Any:
    if isinstance(value, str):
        return next(clean)
    if isinstance(value, list):
        return [_rebuilt(inner, clean) for inner in value]
    if isinstance(value, dict):
        found = {}
        for name, inner in value.items():
            key, new = next(clean), _rebuilt(inner, clean)
            found[key] = MARK if isinstance(new, str) and _names_secret(name, new) else new
        return found
    return value


def _names_secret(name: str, value: str) -> bool:
    return len(value) >= _LEAST and _SECRET_NAME.fullmatch(name) is not None


def _has_secret_names(value: object) -> bool:
    if isinstance(value, dict):
        return any(
            _names_secret(name, inner) if isinstance(inner, str) else _has_secret_names(inner)
            for name, inner in value.items()
        )
    return isinstance(value, list) and any(map(_has_secret_names, value))


class Scrubber:
    """Takes one secret out of a stream of bytes, also where it comes in pieces; everything else passes unchanged."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Takes the next bytes; returns those that can be passed on: all but an end that may be the beginning of the
        secret.
        """
        if not self._secret:
            return chunk
        data = (self._held + chunk).replace(self._secret, MARK.encode())
        held = next(
            (n for n in range(min(len(self._secret) - 1, len(data)), 0, -1) if data.endswith(self._secret[:n])), 0
        )
        self._held = data[len(data) - held :] if held else b""
        return data[: len(data) - held]

    def close(self) -> bytes:
        """The bytes that were held back."""
        held, self._held = self._held, b""
        return held
