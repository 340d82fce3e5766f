"""Writes the site: all pages beside the place where they belong, and then the folder under its name."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from grader.report.page.base import STYLE
from harness.site.board_page import board_file, board_page, pairs_file, pairs_page
from harness.site.cell_page import FULL, LEAN, Bounds, cell_page, cell_part
from harness.site.common import HERE, render
from harness.site.downloads import data_page, downloads
from harness.site.model import Site, SiteError, Trial, slug
from harness.site.pack import packed, shard_of, shards_for
from harness.site.problem_page import problem_page, problems_page
from harness.site.runs_page import runs_data, runs_page
from harness.site.text_pages import audit_page, method_page
from harness.view.text import short

__all__ = ["MARKER", "MOST_PLAIN", "MOST_TRANSCRIPTS", "Written", "pages", "write_site"]

MARKER = "kbh-site.txt"
SIGN = "These pages were made by `kbh site`; it may replace this folder.\n"
MOST_PLAIN = 1_000  # trials with a file each; of more the pages lie packed
MOST_TRANSCRIPTS = 200  # runs whose transcripts are written unless more are asked for
PACKED_BYTES = 45_000_000  # that packed pages may take before they are made leaner
SAMPLE = 64  # pages that are made to know how long all will be
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: files, bytes, and sentences on what was left out."""

    files: int
    bytes: int
    words: tuple[str, ...]


def write_site(
    site: Site, target: Path, *, transcripts: int = MOST_TRANSCRIPTS, packed_from: int = MOST_PLAIN,
    told: Told = lambda done, total: None,
) -> Written:  # fmt: skip
    """Writes all pages to a folder, which is new, empty, or an earlier site. The same archive gives the same bytes.

    `transcripts`: runs whose transcript is written, if there are no more of them. With more than `packed_from` trials
    their pages are packed. Raises SiteError, also where the folder holds other things.
    """
    _check(target)
    made = target.absolute().with_name(f".{target.absolute().name}.{secrets.token_hex(4)}")
    try:
        made.mkdir(parents=True)
        words = _write(replace(site, packed=len(site.trials) > packed_from), made, transcripts, told)
        _place(made, target)
    except OSError as error:
        raise SiteError(f"{error.filename or target}: {(error.strerror or str(error)).lower()}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    sizes = [path.stat().st_size for path in target.rglob("*") if path.is_file()]
    return Written(len(sizes), sum(sizes), tuple(words))


def _check(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise SiteError(f"{target} is not a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / MARKER).is_file():
        raise SiteError(f"{target} holds other things than a site of kbh; name a new folder")


def _place(made: Path, target: Path) -> None:
    """Puts the new folder in the place of the old one."""
    old = made.with_name(made.name + ".old")
    if target.exists():
        os.rename(target, old)
    os.rename(made, target)
    shutil.rmtree(old, ignore_errors=True)


def _write(site: Site, folder: Path, transcripts: int, told: Told) -> list[str]:
    words: list[str] = []
    runs = [trial for trial in site.trials if trial.model]
    before = len(runs) if len(runs) <= transcripts else 0  # a page and a transcript of each are counted as one row
    every = before + len(site.trials)
    if before or not runs:
        site = replace(site, transcripts=frozenset(_transcripts(site, runs, folder, lambda n, _: told(n, every))))
    elif runs:
        words.append(f"transcripts of {len(runs):,} runs are left out; --transcripts {len(runs)} writes them")
    files, missing = downloads(site)
    words += missing
    for name, text in pages(site):
        _put(folder / name, text.encode("utf-8", "replace"))
    _put(folder / "data.html", data_page(site, files, missing).encode("utf-8", "replace"))
    for one in files:
        _put(folder / "data" / one.name, one.data)
    among: dict[tuple[str, str, str], list[Trial]] = {}
    for trial in site.trials:
        key = (trial.model, trial.facts.problem, trial.facts.target) if trial.model else (trial.id, "", "")
        among.setdefault(key, []).append(trial)
    groups = {trial.id: group for group in among.values() for trial in group}
    if site.packed:
        words += _packed(site, folder, groups, lambda n, _: told(before + n, every))
    else:
        for number, trial in enumerate(site.trials):
            page = cell_page(site, trial, groups[trial.id])
            _put(folder / "cells" / f"{trial.page}.html", page.encode("utf-8", "replace"))
            told(before + number + 1, every)
    _put(folder / MARKER, f"{SIGN}{_options(site, transcripts)}\n".encode("utf-8", "replace"))
    return words


def _options(site: Site, transcripts: int) -> str:
    """What the pages were made with, so that `kbh verify` can make them again."""
    board = next(iter(site.boards.values()), None)
    try:
        pyarrow = version("pyarrow")
    except PackageNotFoundError:
        pyarrow = ""
    audit = json.dumps(site.audit, sort_keys=True).encode() if site.audit is not None else b""
    said = {
        "title": site.title, "over": board.over if board else "problems", "margin": float(board.margin if board else 0),
        "level": board.level if board else 0.95, "transcripts": transcripts,
        "audit": hashlib.sha256(audit).hexdigest() if audit else "", "pyarrow": pyarrow,
    }  # fmt: skip
    return json.dumps(said, sort_keys=True)


def pages(site: Site) -> Iterator[tuple[str, str]]:
    """The files that are not of one trial, each with its text, save those of data/ that are downloads."""
    yield "assets/site.css", STYLE.read_text(encoding="utf-8") + (HERE / "style.css").read_text(encoding="utf-8")
    yield "assets/site.js", (HERE / "site.js").read_text(encoding="utf-8")
    if not site.boards:
        yield "index.html", board_page(site, None)
    for target, board in site.boards.items():
        yield board_file(site, target), board_page(site, board)
        yield pairs_file(site, target), pairs_page(site, board)
    yield "runs.html", runs_page(site)
    yield "data/runs.js", runs_data(site)
    yield "problems.html", problems_page(site)
    by_problem: dict[str, list[Trial]] = {}
    for trial in site.trials:
        by_problem.setdefault(trial.facts.problem, []).append(trial)
    for id_, trials in sorted(by_problem.items()):
        yield f"problems/{slug(id_)}.html", problem_page(site, id_, trials)
    yield "method.html", method_page(site)
    yield "audit.html", audit_page(site)
    if site.packed:
        yield "cell.html", render("packed.html.j2", top="", title=site.title, here="", site=site,
                                  shards=shards_for(len(site.trials)))  # fmt: skip


def _transcripts(site: Site, runs: list[Trial], folder: Path, told: Told) -> Iterator[str]:
    for number, trial in enumerate(runs):
        page = site.source.transcript(trial)
        if page is not None:
            _put(folder / "runs" / f"{trial.page}.html", page.encode("utf-8", "replace"))
            yield trial.id
        told(number + 1, len(runs))


def _packed(site: Site, folder: Path, among: dict[str, list[Trial]], told: Told) -> list[str]:
    """Writes the packed pages, without whole sources where these would be too long for all."""
    shards = shards_for(len(site.trials))
    ordered = sorted(site.trials, key=lambda trial: (shard_of(trial.page, shards), trial.page))
    some = ordered[:: max(len(ordered) // SAMPLE, 1)][:SAMPLE]
    size = sum(len(data) for _, data in packed(_parts(site, some, among, FULL, lambda done, total: None), 1))
    lean = size / len(some) * len(ordered) > PACKED_BYTES
    for number, data in packed(_parts(site, ordered, among, LEAN if lean else FULL, told), shards):
        _put(folder / "cells" / f"{number}.js", data)
    return ["sources are shown only where findings are: with all of them the pages would be too large"] if lean else []


def _parts(
    site: Site, trials: list[Trial], among: dict[str, list[Trial]], bounds: Bounds, told: Told
) -> Iterator[tuple[str, str, str]]:  # fmt: skip
    for number, trial in enumerate(trials):
        title = f"{short(trial.title, 60)} on {short(trial.facts.problem, 60)}: {trial.mark}"
        yield trial.page, title, cell_part(site, trial, among[trial.id], bounds)
        told(number + 1, len(trials))


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
