"""Tar files, one way: plain files with the same owner, time and mode, by the oldest standard, in a given order.

A reader that takes only what the writer would write has nothing to fear of a stranger's file: a header that differs in
one bit (a link, a device, a longer name in a header of its own, a sparse file, another checksum) is refused.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from harness.archive.layout import StoreError

__all__ = ["BLOCK", "END", "Gunzip", "Source", "header", "members", "padding"]

BLOCK = 512
END = bytes(2 * BLOCK)
NAME_BYTES = 100
MOST_BYTES = (8 << 30) - 1  # what a header has digits for
CHUNK = 1 << 20


class Source(Protocol):
    """What is read from: `read` gives as many bytes as are asked for, or all that are left."""

    def read(self, size: int) -> bytes:
        """The next bytes."""
        ...


def header(name: str, size: int) -> bytes:
    """The header of a file of so many bytes. Raises StoreError where it does not fit into one."""
    if not name.isascii() or len(name) > NAME_BYTES or not 0 <= size <= MOST_BYTES:
        raise StoreError(f"{name[:NAME_BYTES]!r} of {size:,} bytes does not fit into a tar file")
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.USTAR_FORMAT)


def padding(size: int) -> bytes:
    """The bytes that follow a file of this size."""
    return bytes(-size % BLOCK)


def members(source: Source, most: int) -> Iterator[tuple[str, int, Source]]:
    """The name, the size and the bytes of each file, in order; at most `most` files. What was not read of one is passed
    over. Raises StoreError for everything that `header` and `padding` would not have written.
    """
    count = 0
    while (block := source.read(BLOCK)) != bytes(BLOCK):
        count += 1
        if count > most:
            raise StoreError(f"it holds more than {most:,} files")
        name, size = _read_header(block)
        here = _Limited(source, size)
        yield name, size, here
        while here.left and here.read(CHUNK):
            pass
        rest = padding(size)
        if here.left or source.read(len(rest)) != rest:
            raise StoreError(f"it ends, or goes wrong, at {name}")
    if source.read(BLOCK) != bytes(BLOCK) or source.read(1):
        raise StoreError("it does not end as it should: there is more, or less, after its last file")


def _read_header(block: bytes) -> tuple[str, int]:
    try:
        name = block[:NAME_BYTES].rstrip(b"\0").decode("ascii")
        size = int(block[124:135], 8) if block[124:135].isdigit() else -1
        if name and name.isprintable() and block == header(name, size):
            return name, size
    except (ValueError, StoreError):
        pass
    raise StoreError("it holds something else than a plain file, or one that this version would not have written")


class _Limited:
    """One file within the tar file."""

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self.left = size

    def read(self, size: int) -> bytes:
        data = self._source.read(min(size, self.left))
        self.left -= len(data)
        return data


class Gunzip:
    """The bytes of a gzip file of one member, never more than `most`, and never much more in memory than is read."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file = file
        self._inflate = zlib.decompressobj(wbits=31)
        self._left = most
        self._most = most
        self._buffer = bytearray()

    def read(self, size: int) -> bytes:
        """The next bytes. Raises StoreError for what is no gzip file, is cut, goes on behind its end, or is more."""
        while len(self._buffer) < size and not self._inflate.eof:
            data = self._inflate.unconsumed_tail or self._file.read(CHUNK)
            if not data:
                raise StoreError("it is cut in the middle")
            try:
                more = self._inflate.decompress(data, CHUNK)
            except zlib.error:
                raise StoreError("it is not compressed as gzip does it") from None
            self._left -= len(more)
            if self._left < 0:
                raise StoreError(f"it unpacks to more than the {self._most:,} bytes that it is said to hold")
            self._buffer += more
        if self._inflate.eof and (self._inflate.unused_data or self._file.read(1)):
            raise StoreError("something follows its end")
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data
