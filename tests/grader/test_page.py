"""The page: one file that needs nothing else, with everything that stands behind a number."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from statistics import median

import pytest
from grading import BOX, SCORE, SOURCE, cell, trial

from grader.record.cell import SealedBatch, ShapeTiming
from grader.report.page import PageError, render
from grader.report.page.plot import plot
from grader.report.view import View

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=y>"
VOID = {"meta", "br", "img"}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and sees that every tag is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(*cells: object, **more: object) -> Reader:
    return Reader(render([View(made, SOURCE, "e" * 64, "out/x", **more) for made in cells]))  # type: ignore[arg-type]


@pytest.mark.parametrize("outcome", ["accepted", "flagged", "withheld", "suspect", "wrong", "refused"])
def test_the_page_is_one_whole_file_without_scripts_or_anything_from_elsewhere(outcome: str) -> None:
    found = page(cell(outcome), cell("flagged"))
    assert not {"script", "link", "iframe", "img", "object"} & set(found.tags)
    links = [value for name, value in found.attributes if name in ("href", "src", "action", "xlink:href")]
    assert all(str(value).startswith("#") for value in links)
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert "url(" not in found.text and "@import" not in found.text


def test_text_of_a_submission_is_shown_and_never_becomes_markup() -> None:
    wrong = trial("wrong", EVIL, "1" * 64)
    wrong = replace(wrong, detail=EVIL, sandbox=replace(BOX, notes=(EVIL,)))
    made = cell("wrong", file=EVIL, reason=EVIL, trials=(wrong,), versions={EVIL: EVIL}, problem=EVIL)
    found = page(made, logs={"1" * 64: EVIL}, compared=EVIL, commitments=(EVIL,))
    assert found.text.count("<script>alert(1)</script>") >= 8 and "script" not in found.tags
    leak = cell("flagged")
    shown = Reader(render([View(leak, (EVIL, EVIL, EVIL), EVIL, EVIL)]))
    assert "img" not in shown.tags and EVIL in shown.text


def test_the_page_quotes_the_line_that_leaks_and_lists_promises_by_layer() -> None:
    found = page(cell("flagged"))
    assert "    3     total = tl.dot(a.to(tl.bfloat16), b)" in found.text
    assert re.search(r"fp8\s*BROKEN\s*source: BROKEN\s*sass", found.text)


def test_the_page_pins_what_was_graded_and_reveals_the_key_beside_its_commitment() -> None:
    found = page(cell("accepted"))
    for words in (
        "b" * 64,
        "e" * 64,
        "c" * 64,
        "a" * 64,
        "kbh-lint 0.1.0",
        "torch 2.13.0",
        "bubblewrap, user 2000000007",
    ):
        assert words in found.text


def test_cells_on_measured_peaks_and_on_datasheets_are_in_tables_of_their_own() -> None:
    from grading import H200

    found = page(cell("accepted"), cell("accepted", target=H200))
    measured, datasheet = found.text.index("measured peaks"), found.text.index("Scored against datasheets")
    assert datasheet < measured and found.tags.count("table") >= 4


def test_cells_of_two_protocols_do_not_share_a_page() -> None:
    with pytest.raises(PageError, match="two protocols"):
        page(cell("accepted"), cell("accepted", protocol="2026-04"))


def test_the_plot_has_every_sample_the_median_and_the_floor_on_a_scale_from_zero() -> None:
    claimed = (1.9e-3, 1.8e-3, 2.1e-3, 2.0e-3)
    timing = ShapeTiming(claimed, claimed, (SealedBatch(8, 1.7e-2, 1e-3), SealedBatch(8, 1.8e-2, 1e-3)), 5e-6)
    found = plot([timing, timing], SCORE)
    assert found is not None and len(found.dots) == 8 and len(found.bars) == 4 and found.outside == 0
    unit = (found.dots[2].x - 12) / claimed[2]
    assert [dot.x - 12 for dot in found.dots[:4]] == pytest.approx([s * unit for s in claimed], abs=0.2)
    assert found.median.x - 12 == pytest.approx(median(claimed) * unit, abs=0.2)
    assert found.floor is not None and found.floor.x - 12 == pytest.approx(SCORE.t_floor * unit, abs=0.2)
    assert found.bars[0].x - 12 == pytest.approx(2e-3 * unit, abs=0.2) and found.ticks[0].title == "0"
    assert all(0 <= p.x <= found.width and 0 <= p.y <= found.height for p in (*found.dots, *found.bars, *found.ticks))


def test_the_plot_counts_samples_that_are_far_slower_than_its_scale_and_survives_odd_claims() -> None:
    timing = ShapeTiming((1e-3, 1e-3, 1e-3, 1.0, float("inf"), 0.0), (), (), 0.0)
    found = plot([timing], None)
    assert found is not None and found.outside == 1 and len(found.dots) == 4 and found.floor is None
    assert plot([ShapeTiming((float("inf"),), (), (), 0.0)], None) is None and plot([], None) is None
