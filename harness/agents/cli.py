"""`kbh agents`: which agents there are, and their installation."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from grader.authoring.common import TROUBLE
from harness.agents.base import Adapter
from harness.agents.doctor import Health, examine
from harness.agents.install import Installed, InstallError, agents_folder, install, installed
from harness.agents.registry import ADAPTERS, adapter_named
from kbh_lint.cli.options import Parser

__all__ = ["main", "parser"]

_EPILOG = """\
An agent is a coding agent's command line of a fixed version. They are installed with npm, by exact version, each into
its own folder below --prefix; scripts of packages do not run. Those that need Node get one of their own. All of them
take about 1.7 GB and 70 seconds.

examples:
  kbh agents list                        the agents, their versions, and whether they are installed
  kbh agents install claude codex        install these two
  kbh agents install                     install all
  kbh agents doctor                      check the files of those installed by their hashes, and run each
  kbh agents doctor gemini               the same for one; it must be installed
  kbh agents list --format json          for programs

exit codes:
  0  all is well
  1  doctor found something wrong
  2  it could not be installed, or the command line cannot be followed

The folder is --prefix, else $KBH_AGENTS_DIR, else kbh/agents in the user's data folder (~/.local/share).
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh agents`."""
    ask = Parser(
        prog="kbh agents", description="Lists, installs and checks the agents that kbh run can start.",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("action", choices=("list", "install", "doctor"), help="what to do")
    ask.add_argument("names", nargs="*", metavar="NAME", help="agents (default: all)")
    ask.add_argument("--prefix", metavar="DIR", type=Path, help="where they are installed")
    ask.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh agents`. Returns the exit code."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as done:
        return int(done.code or 0)
    try:
        named = [adapter_named(name) for name in dict.fromkeys(args.names)]
        if args.action == "list":
            return _list(args, named or list(ADAPTERS.values()))
        if args.action == "install":
            return _install(args, named or [one for one in ADAPTERS.values() if one.package is not None])
        return _doctor(args, named)
    except (InstallError, ValueError) as error:
        return _trouble(str(error))
    except KeyboardInterrupt:
        print("\nkbh agents: interrupted; nothing is left half installed", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return TROUBLE


def _trouble(text: str) -> int:
    print(f"kbh agents: error: {text}", file=sys.stderr)
    return TROUBLE


class _Progress:
    """One line on a terminal that is written over; elsewhere a line every ten seconds. Nothing before two seconds."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()
        self._shown = False

    def show(self, text: str) -> None:
        """Shows `text` as the progress line."""
        now = time.monotonic()
        if sys.stderr.isatty():
            if now - self._began > 2:
                print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
                self._shown = True
        elif now - self._said > 10:
            print(text, file=sys.stderr, flush=True)
            self._said = now

    def clear(self) -> None:
        """Erases the progress line."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self._shown = False


def _found(adapter: Adapter, prefix: Path | None) -> Installed | None:
    try:
        return None if adapter.package is None else installed(adapter, prefix)
    except InstallError:
        return None


def _list(args: argparse.Namespace, adapters: Sequence[Adapter]) -> int:
    found = {adapter.name: _found(adapter, args.prefix) for adapter in adapters}
    if args.format == "json":
        listed = [
            {
                "name": adapter.name,
                "package": adapter.package.name if adapter.package else None,
                "version": adapter.package.version if adapter.package else None,
                "dialects": list(adapter.dialects),
                "efforts": list(adapter.efforts),
                "installed": None if adapter.package is None else found[adapter.name] is not None,
                "folder": str(there.folder) if (there := found[adapter.name]) else None,
            }
            for adapter in adapters
        ]
        print(json.dumps({"version": 1, "prefix": str(agents_folder(args.prefix)), "agents": listed}, indent=1))
        return 0
    print(f"{'agent':<10} {'version':<9} {'dialect':<19} {'effort':<28} installed")
    for adapter in adapters:
        there = found[adapter.name]
        state = (
            "not needed" if adapter.package is None else "no" if there is None else f"{there.record.bytes / 1e6:.0f} MB"
        )
        version = adapter.package.version if adapter.package else ""
        dialect = adapter.dialects[0] if len(adapter.dialects) == 1 else "any"
        print(f"{adapter.name:<10} {version:<9} {dialect:<19} {' '.join(adapter.efforts):<28} {state}")
    print(f"\nThey are kept in {agents_folder(args.prefix)}")
    return 0


def _install(args: argparse.Namespace, adapters: Sequence[Adapter]) -> int:
    done: list[Installed] = []
    for adapter in adapters:
        if adapter.package is None:
            raise InstallError(f"{adapter.name} needs no installation")
        progress, began, before = _Progress(), time.monotonic(), _found(adapter, args.prefix)
        try:
            there = install(adapter, args.prefix, show=progress.show)
        finally:
            progress.clear()
        done.append(there)
        if args.format == "text":
            size, took = f"{there.record.bytes / 1e6:.0f} MB", f"{time.monotonic() - began:.0f} s"
            how = "was there already" if before else f"installed in {took}"
            print(f"{adapter.name:<10} {there.version:<9} {how}, {size}", flush=True)
    if args.format == "json":
        listed = [
            {
                "name": there.record.name,
                "version": there.version,
                "folder": str(there.folder),
                "tree": there.record.tree,
            }
            for there in done
        ]
        print(json.dumps({"version": 1, "agents": listed}, indent=1))
    return 0


def _doctor(args: argparse.Namespace, named: Sequence[Adapter]) -> int:
    """Checks those that are named, else those that are installed."""
    adapters = named or [one for one in ADAPTERS.values() if _there(one, args.prefix)]
    checked: list[Health] = []
    for adapter in adapters:
        progress = _Progress()
        progress.show(f"{adapter.name}: checking its files")
        checked.append(examine(adapter, args.prefix))
        progress.clear()
        if args.format == "text":
            health = checked[-1]
            print(f"{health.name:<10} {health.version:<9} {health.trouble or 'well'}", flush=True)
    if args.format == "json":
        listed = [{"name": one.name, "version": one.version, "trouble": one.trouble} for one in checked]
        print(json.dumps({"version": 1, "agents": listed}, indent=1))
    elif not checked:
        print(f"No agent is installed in {agents_folder(args.prefix)}; kbh agents install installs them.")
    return 1 if any(one.trouble for one in checked) else 0


def _there(adapter: Adapter, prefix: Path | None) -> bool:
    """Whether anything of it is installed, well or not."""
    return adapter.package is not None and (agents_folder(prefix) / adapter.name / adapter.package.version).is_dir()


if __name__ == "__main__":
    sys.exit(main())
