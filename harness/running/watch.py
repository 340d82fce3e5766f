"""Looks at a workspace while the agent works: keeps each content of its sources, and puts back what was given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.record.archive import RunFolder
from harness.record.events import EventData, FileChanged, Finding
from harness.room.base import Files, RoomError
from harness.running.workspace import SOLUTION, SOURCE_BYTES, WORKSPACE, Template, sources

__all__ = ["Watch"]

MOST_SNAPSHOTS = 2_000
MOST_BYTES = 256 << 20  # of all snapshots of a run


@dataclass
class Watch:
    """What was seen of a workspace so far. `tell` is given each event."""

    files: Files
    template: Template
    folder: RunFolder
    tell: Callable[[EventData], None]
    seen: dict[str, tuple[int, int, str]] = field(default_factory=dict)  # name -> bytes, mtime, hash
    changed: dict[str, str] = field(default_factory=dict)  # template files that were found changed, and how
    snapshots: int = 0
    kept_bytes: int = 0
    full: bool = False

    def look(self) -> None:
        """One look: new contents become events and objects, changed template files are reported and restored."""
        now = {name: (size, mtime) for name, size, mtime in sources(self.files, self.template)}
        for name in sorted(self.seen.keys() - now.keys()):
            del self.seen[name]
            self.tell(FileChanged(name, "", 0))
        for name, (size, mtime) in sorted(now.items(), key=lambda row: (row[0] != SOLUTION, row[0])):
            before = self.seen.get(name)
            if before is None or before[:2] != (size, mtime):
                self._keep(name, size, mtime, before[2] if before else "")
        self._restore()

    def _keep(self, name: str, size: int, mtime: int, before: str) -> None:
        if self.full or size > SOURCE_BYTES:
            return
        if self.snapshots >= MOST_SNAPSHOTS or self.kept_bytes + size > MOST_BYTES:
            self.full = True
            self.tell(Finding("limit", "too-many-snapshots", "the workspace changed so often that no more was kept"))
            return
        try:
            data = self.files.read(f"{WORKSPACE}/{name}", SOURCE_BYTES)
        except RoomError:
            return  # it is being written, or is gone; the next look finds it
        digest = self.folder.put(data)
        self.seen[name] = (size, mtime, digest)
        if digest != before:
            self.snapshots += 1
            self.kept_bytes += len(data)
            self.tell(FileChanged(name, digest, len(data)))

    def _restore(self) -> None:
        found = self.template.changed(self.files)
        for name, how in found.items():
            if name not in self.changed:
                message = f"{name}, which was given, {how}; it was put back"
                self.tell(Finding("tampering", "template-changed", message, self._evidence(name)))
            self.changed[name] = how
        if found:
            self.template.restore(self.files, list(found))

    def _evidence(self, name: str) -> str:
        try:
            return f"sha256 {self.folder.put(self.files.read(f'{WORKSPACE}/{name}', SOURCE_BYTES))}"
        except RoomError as error:
            return str(error)
