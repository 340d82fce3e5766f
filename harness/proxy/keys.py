"""The keys of upstreams, which stay in this process, and the stand-in that a room shows in their place."""

from __future__ import annotations

import hmac
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote_plus

from harness.proxy.base import Route

__all__ = ["KeyFault", "read_key", "shown"]

MAX_KEY_BYTES = 16 << 10
_KEY = re.compile(r"[!-~]{1,8192}")
_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)
_QUERY = re.compile(r"(?:^|&)key=([^&]*)")


class KeyFault(Exception):
    """The key of an upstream cannot be had; the text is one sentence, without the key."""


def read_key(route: Route, environ: Mapping[str, str] = os.environ) -> str:
    """The key of a route's upstream, "" where it needs none. Raises KeyFault."""
    if route.key_variable and environ.get(route.key_variable, "").strip():
        return _checked(environ[route.key_variable], f"the variable {route.key_variable}")
    if route.key_file:
        return _checked(_from_file(Path(route.key_file).expanduser()), route.key_file)
    if route.key_variable:
        raise KeyFault(f"the route {route.name} needs its key in the variable {route.key_variable}, which is not set")
    return ""


def _from_file(path: Path) -> str:
    """The text of a key file that nobody else can read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise KeyFault(f"the key file {path} is not a plain file")
            if found.st_mode & 0o077:
                raise KeyFault(f"others can read or write the key file {path}; do chmod 600 on it")
            if found.st_uid not in (os.geteuid(), 0):
                raise KeyFault(f"the key file {path} belongs to another user")
            data = os.read(fd, MAX_KEY_BYTES + 1)
        finally:
            os.close(fd)
    except OSError as error:
        raise KeyFault(f"the key file {path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(data) > MAX_KEY_BYTES:
        raise KeyFault(f"the key file {path} is longer than {MAX_KEY_BYTES} bytes")
    return data.decode("utf-8", "replace")


def _checked(text: str, where: str) -> str:
    key = text.strip()
    if _KEY.fullmatch(key) is None:
        raise KeyFault(f"{where} does not hold one key: printable characters without a space")
    return key


def shown(headers: Mapping[str, str], query: str, key: str) -> bool:
    """Whether a request shows the stand-in, in any of the places where CLIs put a key. `headers` ignores case."""
    found = [headers.get("x-api-key", ""), headers.get("x-goog-api-key", "")]
    if bearer := _BEARER.fullmatch(headers.get("authorization", "").strip()):
        found.append(bearer[1])
    if given := _QUERY.search(query):
        found.append(unquote_plus(given[1]))
    return any(hmac.compare_digest(one.encode("utf-8", "replace"), key.encode()) for one in found)
