"""Whether what is installed is what was installed, and runs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.agents.base import Adapter, Package
from harness.agents.install import NODE, Installed, InstallError, installed, tree_hash

__all__ = ["Health", "examine", "version_of"]

VERSION_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Health:
    """What was found of one CLI. `trouble` is one sentence, "" where all is well."""

    name: str
    version: str
    trouble: str


def examine(adapter: Adapter, prefix: Path | None = None) -> Health:
    """Checks an adapter's installation by its recorded hash, and asks the program for its version."""
    package = adapter.package
    if package is None:
        return Health(adapter.name, "", "")
    try:
        found = installed(adapter, prefix)
        return Health(adapter.name, package.version, _trouble(package, found))
    except InstallError as error:
        return Health(adapter.name, package.version, str(error))
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        return Health(adapter.name, package.version, f"{error.filename or adapter.name}: {said}")


def _trouble(package: Package, found: Installed) -> str:
    again = f"remove it and run kbh agents install {found.record.name}"
    if tree_hash(found.folder)[0] != found.record.tree:
        return f"the files in {found.folder} are not those that were installed; {again}"
    said = version_of(package, found)
    if package.version not in said:
        shown = said.strip()[:200] or "nothing"
        return f"{found.folder / package.command} --version says {shown!r}, not {package.version}; {again}"
    return ""


def version_of(package: Package, found: Installed) -> str:
    """What the program prints for --version, or what kept it from that."""
    argv = [str(found.folder / package.command), "--version"]
    if found.node is not None:
        argv.insert(0, str(found.node / "bin" / Path(NODE.command).name))
    with tempfile.TemporaryDirectory(prefix="kbh-doctor-") as home:
        env = {"HOME": home, "TMPDIR": home, "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "CI": "1"}
        try:
            done = subprocess.run(
                argv, env=env, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_SECONDS,
                errors="replace", text=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"nothing in {VERSION_SECONDS:.0f} s"
        except OSError as error:
            return (error.strerror or str(error)).lower()
        return done.stdout[:2000] if done.returncode == 0 else (done.stderr or done.stdout)[-300:]
