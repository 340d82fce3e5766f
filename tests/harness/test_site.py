"""The pages of the board as files: what they say, that it is so, and that nothing gets out of its place."""

from __future__ import annotations

import base64
import csv
import gzip
import html
import importlib.util
import io
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from site_kit import EVIL, RUNS, bundle_of, site_of, small_archive

from grader.record.cell import FindingRecord
from grader.report.view import load_view
from harness.archive import Archive, all_facts
from harness.board.data import boards_of
from harness.board.trials import MARKS, trials_of
from harness.record.events import Finding
from harness.site import cli
from harness.site.board_page import _squares
from harness.site.cell_page import FULL, LEAN, cell_part
from harness.site.common import POLICY, amount, breakable, score, signed
from harness.site.downloads import downloads
from harness.site.gather import gather
from harness.site.model import SIGNS, Detail, Site, SiteError, Trial, slug
from harness.site.pack import packed, shard_of
from harness.site.pictures import dots, scale, shade
from harness.site.roofline import HEIGHT, TOP, roofline
from harness.site.write import write_site
from kbh_lint.base import paths
from kbh_lint.problems import load_deck


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return small_archive(tmp_path_factory.mktemp("board"))


@pytest.fixture(scope="module")
def out(archive: Archive, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "out"
    site_of(archive, folder)
    return folder


@pytest.fixture(scope="module")
def site(archive: Archive) -> Site:
    return gather(archive, all_facts(archive))


class Links(HTMLParser):
    """What a page refers to, and what it runs by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("href", "src"):
                self.links.append(value or "")
            elif name.startswith("on") or name == "style":
                self.handlers.append(f"{tag} {name}")


def pages(folder: Path) -> Iterator[tuple[Path, Links]]:
    for path in sorted(folder.rglob("*.html")):
        found = Links()
        found.feed(path.read_text(encoding="utf-8"))
        yield path, found


def text_of(path: Path) -> str:
    """What a page says, without its tags."""
    return html.unescape(re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8")))


def trial_of(site: Site, name: str) -> Trial:
    return next(trial for trial in site.trials if trial.facts.name == name)


def test_every_link_leads_to_a_file_of_the_site_and_none_outside(out: Path) -> None:
    seen = set()
    for path, found in pages(out):
        for link in found.links:
            if link.startswith("#"):
                continue
            assert ":" not in link and not link.startswith("/"), (path.name, link)
            target = (path.parent / link.partition("#")[0]).resolve()
            assert target.is_relative_to(out) and target.is_file(), (path.name, link)
            seen.add(target)
    unreached = set(out.rglob("*.html")) - seen
    assert unreached == set()


def test_pages_allow_nothing_from_elsewhere_and_hold_no_code_of_their_own(out: Path) -> None:
    for path, found in pages(out):
        text = path.read_text(encoding="utf-8")
        if path.parent.name == "runs":
            continue  # transcripts have a policy by hash, which tests of kbh view hold
        assert html.escape(POLICY) in text.replace("&#39;", "&#x27;") and "unsafe" not in text
        assert found.handlers == [] and found.tags.isdisjoint({"img", "iframe", "object", "embed", "form", "base"})
        assert re.findall(r"<script(?![^>]*\bsrc=)", text) == [] and "<style" not in text


def test_the_board_has_every_model_with_its_rank_interval_and_marks(out: Path, archive: Archive) -> None:
    text = (out / "index.html").read_text(encoding="utf-8")
    (board,) = boards_of(trials_of(all_facts(archive).facts))
    rows = re.findall(r'<td class="rank" data-value="(\d*)">', text)
    assert rows == [str(one.rank) if one.ranked else "" for one in board.standings]
    for one in board.standings:
        if one.interval is not None and one.score is not None:
            assert f">{score(one.score)}<" in text
            assert f">{score(one.interval.low)}–{score(one.interval.high)}<" in text
    squares = dict(re.findall(r'<a class="q\d" href="[^"]*" aria-label="([^"]*)">[^<]*<i>([^<]*)</i>', text))
    assert "1 score, 1 leak" in "".join(squares) and SIGNS["leak"] in "".join(squares.values())
    assert squares["1 nothing, 1 error"] == SIGNS["nothing"] + SIGNS["error"]


def test_a_leak_is_shown_and_counts_as_nothing(site: Site, out: Path) -> None:
    leak = next(trial for trial in site.trials if trial.model.startswith("lyra") and trial.mark == "leak")
    assert leak.score == 0.0
    page = text_of(out / "cells" / f"{leak.page}.html")
    assert MARKS["leak"][1:40] in page and "BROKEN" in page
    audit = text_of(out / "audit.html")
    assert all(name in audit for name in leak.facts.leaks.split())


def test_the_page_of_a_trial_has_layers_clocks_findings_and_steps(site: Site, out: Path) -> None:
    good = trial_of(site, "2026-run-0001")
    text = (out / "cells" / f"{good.page}.html").read_text(encoding="utf-8")
    cell = load_view(bundle_of("01_fp8_gemm", "triton") or Path()).cell
    said = text_of(out / "cells" / f"{good.page}.html")
    for promise in cell.verdict.promises:
        assert promise.id in said and all(layer in said for layer in promise.layers)
    assert text.count('class="strip"') == len(cell.shapes) and text.count('class="wide" viewBox') == 2
    assert f"../runs/{good.page}.html#step-1" in text and (out / "runs" / f"{good.page}.html").is_file()
    leak = next(trial for trial in site.trials if trial.mark == "leak" and trial.model)
    found = (out / "cells" / f"{leak.page}.html").read_text(encoding="utf-8")
    assert re.search(r'first seen at <a href="\.\./runs/[0-9a-f]{16}\.html#step-\d+">', found)
    assert 'class="line marked"' in found


def test_a_finding_points_at_the_step_that_first_wrote_its_line(site: Site) -> None:
    detail = site.source.detail(trial_of(site, "2026-run-0001"))
    half = len(detail.source) // 2
    assert set(detail.steps[: half // 2]) == {1}  # the first content was the first half of the bytes
    assert detail.steps[-1] == 2 or detail.source[-1] in detail.source[: half // 2]


def test_the_problem_page_has_contract_ceilings_and_our_best(site: Site, out: Path) -> None:
    said = " ".join(text_of(out / "problems" / "01_fp8_gemm.html").split())
    problem = site.problems["01_fp8_gemm"]
    best = site.honest["01_fp8_gemm", "h200"][0]
    assert best.file in said and f"{best.fraction:.3f}" in said
    assert all(promise.text in said for promise in problem.promises)
    assert all(shape.label in said for shape in problem.shapes)
    assert "69.4 us" in said  # 2 * 4096^3 operations at the 1,979 TFLOP/s of an H200's datasheet


def test_the_same_archive_gives_the_same_bytes(
    archive: Archive, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for name in ("one", "two"):
        write_site(gather(archive, all_facts(archive)), tmp_path / name, transcripts=0, packed_from=4)
        every = (path for path in (tmp_path / name).rglob("*") if path.is_file())
        made.append({path.relative_to(tmp_path / name): path.read_bytes() for path in every})
    assert {name for name in made[0] if made[0][name] != made[1].get(name)} == set()
    assert made[0].keys() == made[1].keys()
    trial = next(iter((out / "runs").glob("*.html")))
    source = gather(archive, all_facts(archive)).source
    found = next(one for one in gather(archive, all_facts(archive)).trials if one.page == trial.stem)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "kbh-site-abcdefgh").mkdir(mode=0o700)  # of a command that was killed
    assert source.transcript(found) == trial.read_text(encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}


def test_hostile_text_stays_text_in_pages_and_data(site: Site, out: Path) -> None:
    hostile = trial_of(site, "hostile")
    for path in out.rglob("*"):
        if path.is_file() and path.suffix in (".html", ".js"):
            text = path.read_text(encoding="utf-8")
            assert "<script>window.ran" not in text and "<img" not in text and "\u202e" not in text, path
    said = text_of(out / "cells" / f"{hostile.page}.html")
    assert "window.ran = 1" in said and "contamination" in said
    assert {path.parent for path in out.rglob("*")} <= {out, *(out / name for name in
            ("assets", "cells", "data", "problems", "runs"))}  # fmt: skip
    rows = list(csv.DictReader(io.StringIO((out / "data" / "trials.csv").read_text(encoding="utf-8"))))
    assert [row["model"] for row in rows if row["name"] == "hostile"] == [f"'{hostile.facts.model}"]
    data = json.loads((out / "data" / "board.json").read_bytes())
    assert [one["model"] for one in data["trials"] if one["name"] == "hostile"] == [hostile.facts.model]


@pytest.mark.parametrize("text", ["../../etc/passwd", "..", "", "a" * 900, "CON", "a/b", "\x00", "\u202e", ".html"])
def test_a_name_of_a_file_is_plain_whatever_it_is_made_of(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9_-]{1,72}", slug(text))
    assert slug(text) != slug(text + "x")


def test_the_data_says_what_the_pages_say(site: Site, out: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((out / "data" / "standings.csv").read_text(encoding="utf-8"))))
    board = next(iter(site.boards.values()))
    assert [(row["model"], row["rank"]) for row in rows] == [
        (one.model if not one.model.startswith("=") else f"'{one.model}", str(one.rank) if one.ranked else "")
        for one in board.standings
    ]
    data = json.loads((out / "data" / "board.json").read_bytes())
    assert data["schema"] == "kbh-site/1" and len(data["trials"]) == len(site.trials) == len(RUNS) + 4
    assert {one["mark"] for one in data["trials"]} == {trial.mark for trial in site.trials}
    script = (out / "data" / "runs.js").read_text(encoding="utf-8")
    assert len(json.loads(script[len("kbhRuns(") : -3])["rows"]) == len(site.trials)


def test_parquet_is_there_with_pyarrow_and_else_left_out_with_a_word(site: Site) -> None:
    files, words = downloads(site)
    if importlib.util.find_spec("pyarrow") is None:
        assert not [one for one in files if one.name.endswith(".parquet")] and "pyarrow" in words[0]
        return
    from pyarrow import parquet

    (made,) = (one for one in files if one.name.endswith(".parquet"))
    rows = parquet.read_table(io.BytesIO(made.data)).to_pylist()
    assert words == [] and [row["id"] for row in rows] == [trial.id for trial in site.trials]
    assert [row["value"] for row in rows] == [trial.score for trial in site.trials]


def test_packed_pages_hold_the_same_parts_in_few_files(site: Site, archive: Archive, tmp_path: Path) -> None:
    write_site(site, tmp_path / "out", transcripts=0, packed_from=3)
    assert not list((tmp_path / "out" / "cells").glob("*.html"))
    found = {}
    for path in (tmp_path / "out" / "cells").glob("*.js"):
        number, text = re.fullmatch(r'kbhPart\((\d+),"([^"]*)"\);\n', path.read_text()).groups()  # type: ignore[union-attr]
        assert path.stem == number
        for page, (title, part) in json.loads(gzip.decompress(base64.b64decode(text))):
            found[page] = (title, part)
    assert found.keys() == {trial.page for trial in site.trials}
    good = trial_of(site, "2026-run-0002")
    whole = replace(site, packed=True)
    among = [trial for trial in site.trials if trial.model == good.model and trial.facts.problem == good.facts.problem]
    assert found[good.page][1] == cell_part(whole, good, among)
    assert "cell.html#" in found[good.page][1] and "<script>window.ran" not in "".join(p for _, p in found.values())
    lean = cell_part(whole, good, among, LEAN)
    assert len(lean) < len(cell_part(whole, good, among, FULL)) and "left out here" in lean


def test_parts_go_to_the_file_that_their_name_says() -> None:
    names = [f"{number * 2654435761 % 2**64:016x}" for number in range(200)]
    ordered = sorted(names, key=lambda name: shard_of(name, 7))
    files = dict(packed(((name, "title", f"<p>{name}</p>") for name in ordered), 7))
    assert set(files) == {int(name[:8], 16) % 7 for name in names}
    text = files[3].decode().partition('"')[2].rpartition('"')[0]
    inside = json.loads(gzip.decompress(base64.b64decode(text)))
    assert [name for name, _ in inside] == [name for name in ordered if int(name[:8], 16) % 7 == 3]


def test_only_a_site_of_ours_is_replaced_and_a_failure_leaves_it(site: Site, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    with pytest.raises(SiteError, match="other things"):
        write_site(site, other)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    mine = replace(site, trials=site.trials[:2], source=NoSource())
    write_site(mine, tmp_path / "out", transcripts=0)
    (tmp_path / "out" / "stale.html").write_text("old")
    with pytest.raises(RuntimeError):
        write_site(replace(mine, source=NoSource(fails=True)), tmp_path / "out", transcripts=0)
    assert (tmp_path / "out" / "stale.html").exists()
    write_site(mine, tmp_path / "out", transcripts=0)
    assert not (tmp_path / "out" / "stale.html").exists() and (tmp_path / "out" / "index.html").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"]


class NoSource:
    """Nothing is known beyond the rows but what is given; or asking fails."""

    def __init__(self, known: Detail | None = None, *, fails: bool = False) -> None:
        self.known = known or Detail()
        self.fails = fails

    def detail(self, trial: Trial) -> Detail:
        if self.fails:
            raise RuntimeError("the disk is full")
        return self.known

    def transcript(self, trial: Trial) -> None:
        return None


def test_what_cannot_be_read_is_said_on_its_page(archive: Archive, site: Site, tmp_path: Path) -> None:
    good = trial_of(site, "2026-run-0003")
    manifest = archive.manifest(good.id)
    entries = sorted(path for path in manifest.files if "/entries/" in path)
    digest = manifest.files[entries[0]].sha256
    place = archive.folder / "objects" / digest[:2] / digest
    kept = place.read_bytes()
    place.chmod(0o644)
    place.write_bytes(kept + b" ")
    try:
        assert "cannot be read whole" in cell_part(site, good, [good])
    finally:
        place.write_bytes(kept)
    assert "cannot be read whole" not in cell_part(site, good, [good])


def test_the_roofline_has_each_shape_where_its_time_puts_it() -> None:
    cell = load_view(bundle_of("01_fp8_gemm", "triton") or Path()).cell
    problem = load_deck(paths.problems_dir())["01_fp8_gemm"]
    plot = roofline(cell, problem, "wide", 720)
    assert plot is not None and len(plot.spots) == 4
    for spot, at in zip(plot.spots, cell.shapes, strict=True):
        assert spot.y >= spot.roof  # nothing is above the roof
        m, n, k = map(int, at.shape.split("x"))
        if m > 32:  # under the flat part the distance is the share that is left
            share = 2 * m * n * k / at.t_scored / (cell.target.peak_tflops * 1e12)
            assert math.isclose(share, at.roofline_fraction, rel_tol=1e-3)
    assert plot.spots[2].x < plot.ridge.at < plot.spots[0].x
    numbers = [(spot.label, spot.y) for spot in plot.spots]
    assert all(math.dist(one, other) > 16 for place, one in enumerate(numbers) for other in numbers[:place])
    assert all(TOP <= spot.y <= TOP + HEIGHT for spot in plot.spots)
    assert roofline(cell, None, "wide", 720) is None


def test_scales_hold_their_values_and_shades_rise() -> None:
    for most in (0.0, 1e-6, 0.0049, 0.1, 0.53, 0.61, 1.0):
        made = scale([most, most / 3])
        assert made.end >= most and 3 <= len(made.ticks) <= 6
        assert made.x(most) <= made.x(made.end) == 196
    assert [shade(value, 1.0) for value in (0.0, 0.01, 0.5, 1.0)] == [0, 1, 3, 5]
    marks = dots(scale([1.0]), [0.5] * 3, 26).split("M")
    assert len(marks) == len(set(marks)) == 4  # each seen by itself


def test_numbers_are_as_short_as_their_places_and_none_is_a_negative_nothing() -> None:
    assert [score(one) for one in (None, 0.0, 3.1e-5, 0.00061, 0.0098, 0.0123, 1.0)] == [
        "–", "0", "3.1e-05", "0.00061", "0.0098", "0.012", "1.000",
    ]  # fmt: skip
    assert [signed(one) for one in (None, -0.0, 0.0123, -3.1e-5)] == ["–", "0", "+0.012", "−3.1e-05"]
    assert [amount(one) for one in (0.0, 63.3, 999_900.0, 6.71e7, 4.81e11)] == ["0 ", "63.3 ", "1 M", "67.1 M", "481 G"]
    assert breakable("a/<b>/\u202ec") == "a/<wbr>&lt;b&gt;/<wbr>\\u202ec"


def test_a_square_of_the_heatmap_has_room_for_its_number(site: Site) -> None:
    board = next(iter(site.boards.values()))
    for factor in (1e-6, 1e-3, 1.0):
        cells = [replace(one, score=one.score and one.score * factor) for one in board.cells]
        squares, _ = _squares(replace(board, cells=tuple(cells)), [one for one in site.trials if one.model])
        assert {len(one.text) for one in squares.values()} == {0, 5}
        assert all(score(cell.score) in squares[cell.model, cell.problem].said for cell in cells if cell.score)


def test_the_command_writes_a_site_with_an_audit_and_says_where(
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = tmp_path / "audit.json"
    cell = {"kind": "we-flag", "run": EVIL, "problem": "p", "theirs": {"verdict": "clean"}, "why": EVIL,
            "ours": {"verdict": "rubric_leak", "classes": ["fp8-upcast-bf16-gemm"]},
            "evidence": [{"line": 7, "by": "KBH101", "message": EVIL}, "odd", {"line": "x"}]}  # fmt: skip
    audit.write_text(json.dumps({"schema": "kbh-audit/1", "cells": [cell, {}, 3], "counts": {"we-flag": 1},
                                 "archive": {"name": "theirs", "revision": "abc"}}))  # fmt: skip
    target = tmp_path / "out"
    words = [str(archive.folder), "-o", str(target), "--audit", str(audit), "--transcripts", "0", "--title", EVIL[:30]]
    assert cli.main(words) == 0
    said = capsys.readouterr()
    assert f"{target / 'index.html'}: " in said.out and "transcripts of 9 runs are left out" in said.err
    page = " ".join(text_of(target / "audit.html").split())
    assert "theirs at abc" in page and "line 7: KBH101" in page and "1 we flag" in page
    assert cli.main([str(archive.folder), "-o", str(audit)]) == 2
    audit.write_text("{}")
    assert cli.main(words) == 2 and "no audit.json" in capsys.readouterr().err
    assert cli.main([str(tmp_path), "-o", str(target)]) == 2


def test_an_archive_of_gradings_alone_has_no_leaderboard_but_pages(tmp_path: Path) -> None:
    made = Archive.create(tmp_path / "archive")
    with pytest.raises(SiteError, match="no run and no grading"):
        gather(made, all_facts(made))
    made.add(bundle_of("01_fp8_gemm", "triton") or tmp_path)
    site_of(made, tmp_path / "out")
    assert "no leaderboard" in text_of(tmp_path / "out" / "index.html")
    assert len(list((tmp_path / "out" / "cells").glob("*.html"))) == 1


def test_a_command_whose_extra_is_missing_says_which_in_one_line() -> None:
    program = "import sys; sys.modules['scipy'] = None; from kbh_lint.cli import kbh_main; sys.exit(kbh_main(['site']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "kbh: error: statistics need numpy and scipy: pip install '.[stats]'\n",
    )


def test_what_the_run_says_of_itself_stands_once_with_its_step(site: Site) -> None:
    good = trial_of(site, "2026-run-0001")
    known = site.source.detail(good)
    assert known.cell is not None and known.record is not None
    said = "Step 2: the answer holds the canary"
    cell = replace(known.cell, verdict=replace(known.cell.verdict, findings=(
        FindingRecord("run:canary", "contamination", "interesting", "run", said),
        FindingRecord("run:near", "contamination", "interesting", "run", "step 2: It is a known one."),
        FindingRecord("run:other", "clock", "interesting", "run", "another layer's own"),
    )))  # fmt: skip
    near = Finding("contamination", "near", "It is a known one.", step=2)
    record = replace(known.record, findings=(Finding("contamination", "canary", said, step=2), near))
    source = NoSource(Detail(cell=cell, record=record))
    part = cell_part(replace(site, source=source, transcripts=frozenset({good.id})), good, [good])
    assert part.count(said) == 1 and f"runs/{good.page}.html#step-2" in part
    assert part.count("It is a known one.") == 1 and "more are in the archive" not in part
    assert "another layer&#39;s own" in part
