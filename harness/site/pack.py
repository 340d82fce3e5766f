"""Pages of very many trials in few files: their parts compressed together, for a script that unpacks the one asked for.

A page that is opened from the disk may not read other files as data, but it may run a script beside it. So each file
is a script that hands its parts, as gzip in base64, to the one of the page.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["EACH", "packed", "shard_of", "shards_for"]

EACH = 64  # parts of a file, about


def shards_for(count: int) -> int:
    """How many files `count` parts are spread over."""
    return max(-(-count // EACH), 1)


def shard_of(page: str, shards: int) -> int:
    """The number of the file that holds a page, from the page's name; site.js computes the same."""
    return int(page[:8], 16) % shards


def packed(parts: Iterable[tuple[str, str, str]], shards: int) -> Iterator[tuple[int, bytes]]:
    """The numbered files that hold all pages, from (page, title, HTML) in the order of `by_shard`. Made one after
    another, so that one is in memory at a time."""
    number, gathered = 0, list[tuple[str, tuple[str, str]]]()
    for page, title, html in parts:
        shard = shard_of(page, shards)
        if shard != number:
            if gathered:
                yield number, _file(number, gathered)
            number, gathered = shard, []
        gathered.append((page, (title, html)))
    if gathered:
        yield number, _file(number, gathered)


def _file(number: int, parts: Sequence[tuple[str, tuple[str, str]]]) -> bytes:
    data = json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    text = base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()
    return f'kbhPart({number},"{text}");\n'.encode()
