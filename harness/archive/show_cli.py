"""`kbh show --archive ARCHIVE ID...`: entries of an archive, each as the command about its folder shows it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from grader.cli.show import main as show_bundles
from harness.archive.commands import Parser, facts_in, guarded
from harness.archive.scratch import scratch
from harness.archive.select import find
from harness.archive.store import Archive
from harness.record.archive import RECORD, RunFolder
from harness.running.cli import said

__all__ = ["main", "parser"]

DONE = 0


def parser() -> argparse.ArgumentParser:
    """The options of `kbh show --archive`."""
    ask = Parser(
        prog="kbh show", description="Shows entries of an archive: of a run what came of it, and its grading.",
        epilog="exit codes: 0 shown (with --verify: and whole), 2 it cannot be read, or is not whole",
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("entries", nargs="+", metavar="ID", help="the beginning of an id, or a name; kbh ls prints them")
    ask.add_argument("--archive", type=Path, metavar="DIR", required=True)
    ask.add_argument("--verify", action="store_true", help="check hashes, chain, commitments and keys of the gradings")
    ask.add_argument("--format", choices=("text", "short", "json"), default="text", help="default: text")
    ask.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: auto")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh show` with `--archive`. Returns the exit code."""
    return guarded(parser(), argv, _show)


def _show(args: argparse.Namespace) -> int:
    archive, found = facts_in("kbh show", args.archive)
    ids = [find(found.facts, name).id for name in args.entries]
    with scratch("kbh-show-") as place:
        bundles = [made for id_ in ids if (made := _one(archive, id_, place, args.format)) is not None]
        if not bundles:
            return DONE
        places = {bundle: f"{bundle.name}, in the archive {archive.folder}" for bundle in bundles}
        words = [str(bundle) for bundle in bundles] + ["--format", args.format, "--color", args.color]
        return show_bundles([*words, *(["--verify"] if args.verify else [])], places)


def _one(archive: Archive, id_: str, place: Path, form: str) -> Path | None:
    """Prints what a run says of itself; gives its final grading, or the bundle that the entry is, as a folder."""
    manifest = archive.manifest(id_)
    folder = place / id_[:16] / manifest.name
    folder.parent.mkdir(exist_ok=True)
    archive.extract(manifest, folder)
    if manifest.kind == "bundle":
        return folder
    record = RunFolder(folder).load()
    if form == "text":
        print(said(record, Path(f"{archive.folder}: {id_[:12]}, {manifest.name}")))
    bundle = folder / RECORD / "cells" / record.cell
    return bundle if record.cell and bundle.is_dir() else None
