"""A disk that forgets: which states a crash may leave after a list of file operations.

A name is durable once its folder was synced and a file's bytes once the file was. All else may be there after the
crash or not, each name for itself; bytes that were not synced may be there, in part or not at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.record.bundle.files import DISK

Operation = tuple[str, Path, Path | bytes | None]
Tree = frozenset[tuple[str, bytes | None]]  # path below the root, bytes; None: a folder


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Recorder:
    """Does the operations and keeps them; `before` may end the process, or the disk, before any of them."""

    before: Callable[[Operation], None] = lambda operation: None
    keep: Callable[[Operation], bool] = lambda operation: True
    log: list[Operation] = field(default_factory=list)

    def mkdir(self, path: Path) -> None:
        self._note("mkdir", path)
        DISK.mkdir(path)

    def write(self, path: Path, data: bytes) -> None:
        self._note("write", path, data)
        DISK.write(path, data)

    def sync(self, path: Path) -> None:
        self._note("sync", path)  # the disk here is a play, and waiting for the real one is slow

    def link(self, source: Path, target: Path) -> None:
        self._note("link", source, target)
        DISK.link(source, target)

    def rename(self, source: Path, target: Path) -> None:
        self._note("rename", source, target)
        DISK.rename(source, target)

    def unlink(self, path: Path) -> None:
        self._note("unlink", path)
        DISK.unlink(path)

    def _note(self, what: str, path: Path, other: Path | bytes | None = None) -> None:
        operation = (what, path, other)
        self.before(operation)
        if self.keep(operation):
            self.log.append(operation)


@dataclass(eq=False)
class _File:
    data: bytes
    synced: bool = False


@dataclass(eq=False)
class _Folder:
    live: dict[str, _File | _Folder] = field(default_factory=dict)
    durable: dict[str, _File | _Folder] = field(default_factory=dict)
    pending: list[tuple[str, _File | _Folder | None]] = field(default_factory=list)

    def set(self, name: str, node: _File | _Folder | None) -> None:
        self.pending.append((name, node))
        if node is None:
            del self.live[name]
        else:
            self.live[name] = node


class _Disk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.top = _Folder()

    def at(self, path: Path) -> _File | _Folder:
        node: _File | _Folder = self.top
        for part in path.relative_to(self.root).parts:
            assert isinstance(node, _Folder)
            node = node.live[part]
        return node

    def folder(self, path: Path) -> _Folder:
        node = self.at(path)
        assert isinstance(node, _Folder)
        return node

    def do(self, operation: Operation) -> None:
        what, path, other = operation
        if not path.is_relative_to(self.root):
            assert what == "sync"  # of what was there long before
        elif what == "sync":
            self._sync(self.at(path))
        elif what == "mkdir":
            if path.name not in self.folder(path.parent).live:
                self.folder(path.parent).set(path.name, _Folder())
        elif what == "write":
            assert isinstance(other, bytes)
            self.folder(path.parent).set(path.name, _File(other))
        elif what == "unlink":
            self.folder(path.parent).set(path.name, None)
        else:
            assert isinstance(other, Path)
            self.folder(other.parent).set(other.name, self.at(path))
            if what == "rename":
                self.folder(path.parent).set(path.name, None)

    @staticmethod
    def _sync(node: _File | _Folder) -> None:
        if isinstance(node, _File):
            node.synced = True
        else:
            node.durable, node.pending = dict(node.live), []

    def crashes(self) -> Iterator[Tree]:
        """Every state that may be found. What happened in a folder called tmp is taken as a whole: all or nothing."""
        single, whole = [], []
        for name, folder in self._folders("", self.top):
            place = whole if name == "tmp" else single
            place.extend((folder, i) for i in range(len(folder.pending)))
        for chosen in _subsets(single):
            for temporary in ([], whole):
                kept = {(id(folder), i) for folder, i in [*chosen, *temporary]}
                for share in (0.0, 0.5, 1.0):
                    yield frozenset(self._tree("", self.top, kept, share))

    def _folders(self, name: str, folder: _Folder) -> Iterator[tuple[str, _Folder]]:
        yield name, folder
        below = {**folder.durable, **{n: node for n, node in folder.pending if node is not None}}
        for child, node in below.items():
            if isinstance(node, _Folder):
                yield from self._folders(child, node)

    def _tree(
        self, at: str, folder: _Folder, kept: set[tuple[int, int]], share: float
    ) -> Iterator[tuple[str, bytes | None]]:
        names = dict(folder.durable)
        for i, (name, node) in enumerate(folder.pending):
            if (id(folder), i) in kept:
                names.pop(name, None)
                if node is not None:
                    names[name] = node
        for name, node in names.items():
            path = f"{at}{name}"
            if isinstance(node, _Folder):
                yield path, None
                yield from self._tree(f"{path}/", node, kept, share)
            else:
                yield path, node.data if node.synced else node.data[: int(len(node.data) * share)]


def _subsets(items: Sequence[tuple[_Folder, int]]) -> Iterator[Sequence[tuple[_Folder, int]]]:
    assert len(items) <= 8, "more is left to chance at once than can be tried"
    for count in range(len(items) + 1):
        yield from itertools.combinations(items, count)


def crashes(root: Path, log: Sequence[Operation]) -> Iterator[tuple[int, Tree]]:
    """The states that a crash after each prefix of the operations may leave, each with the length of the prefix.

    A state is given once for each prefix.
    """
    disk = _Disk(root)
    for done in range(len(log) + 1):
        if done:
            disk.do(log[done - 1])
        for tree in dict.fromkeys(disk.crashes()):
            yield done, tree


def lay_out(tree: Tree, root: Path) -> None:
    """Makes a state real."""
    root.mkdir()
    for path, data in sorted(tree, key=lambda item: item[0]):
        if data is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(data)
