"""npm and Node as child processes: bounded in time, quiet, and with their failures in one sentence."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.agents.base import Package

__all__ = ["InstallError", "run_npm", "run_setup"]

_NETWORK = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED"
)
_FLAGS = (
    "--ignore-scripts", "--save-exact", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress",
    "--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000",
)  # fmt: skip
TAIL = 4000


class InstallError(Exception):
    """A CLI is not installed or cannot be; the text is one sentence that says what to do."""


def run_npm(folder: Path, package: Package, *, seconds: float, show: Callable[[str], None]) -> None:
    """Installs a package by exact version into a folder, without running any script of it. Raises InstallError."""
    wanted = f"{package.name}@{package.version}"
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError("npm is not on this machine; install Node with npm (version 20 or newer) and run it again")
    (folder / "package.json").write_text('{"name": "kbh-agent", "private": true}\n', encoding="utf-8")
    argv = (npm, "install", *_FLAGS, "--prefix", str(folder), wanted)
    status, said = _run(argv, folder, os.environ, seconds, lambda s: show(f"{wanted}: npm installs it, {s:.0f} s"))
    if status == 0:
        return
    if status is None:
        raise InstallError(f"npm did not install {wanted} in {seconds:.0f} s; run it again with a better network")
    if _NETWORK.search(said):
        raise InstallError(f"the package registry cannot be reached, so {wanted} was not installed; go online and "
                           "run it again")  # fmt: skip
    if re.search(r"\bE404\b|\bETARGET\b", said):
        raise InstallError(f"the package registry has no {wanted}; choose a registry that has it in ~/.npmrc")
    if "ENOSPC" in said:
        raise InstallError(f"there is no room in {folder.parent} for {wanted}; free some, or name another --prefix")
    raise InstallError(f"npm could not install {wanted}: {_first_error(said)}")


def run_setup(node: Path | None, folder: Path, script: str, *, seconds: float) -> None:
    """Runs a script that an adapter declares, in its package's folder. Raises InstallError."""
    place = folder / script
    argv = (str(node or "node"), str(place))
    status, said = _run(argv, place.parent, os.environ, seconds, lambda s: None)
    if status != 0:
        raise InstallError(f"{script} did not set its package up: {_first_error(said)}")


def _run(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float, tick: Callable[[float], None]
) -> tuple[int | None, str]:
    """The exit status, None where it was ended for its time, and the end of what it printed."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(
            argv, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        try:
            while (passed := time.monotonic() - began) < seconds:
                try:
                    child.wait(timeout=min(1.0, seconds - passed))
                    break
                except subprocess.TimeoutExpired:
                    tick(time.monotonic() - began)
        finally:
            _end(child)
        size = out.seek(0, os.SEEK_END)
        out.seek(max(0, size - TAIL))
        said = out.read().decode("utf-8", "replace")
    return (None if child.returncode == -signal.SIGKILL else child.returncode), said


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends it and what it started, if it is still there."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _first_error(said: str) -> str:
    lines = [re.sub(r"^npm (error|ERR!) ?(code )?", "", line).strip() for line in said.splitlines()]
    return next((line for line in lines if line), "it said nothing")[:300]
