"""The page of an audit in Chromium: sorting, filtering, keys, narrow and dark, and that nothing gets out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from archives import HONEST, LEAK, OPEN, audited, predecessor, run
from axe_kit import faults, held_by_axe

from harness.audit.cells import Audit
from harness.audit.page import render

sync_api = pytest.importorskip("playwright.sync_api")
pytest.importorskip("jinja2")

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (apt-get install chromium)")
EVIL = "<script>window.ran = 1</script><img src=http://127.0.0.1:9/x onerror=alert(1)>"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    runs = {
        run(1): (HONEST, "clean"), run(2): (LEAK, "clean"), run(3): (HONEST, "reward_hack"),
        run(4): (LEAK, "rubric_leak"), run(5): (OPEN, "clean"), run(6): (LEAK, ""), run(7): (HONEST, "bug"),
    }  # fmt: skip
    top = predecessor(tmp_path_factory.mktemp("archive") / "site", runs)
    found = audited(top, "-o", top.parent)
    evil = replace(found.cells[-1], run="evil", problem=EVIL, board=EVIL, why=EVIL, remarks=(EVIL,))
    scored = [replace(cell, theirs=replace(cell.theirs, score=score))
              for cell, score in zip(found.cells, (0.5, None, 0.03, 0.25, 0.4, 0.1, None), strict=True)]  # fmt: skip
    return replace(found, cells=(*scored, evil), troubles=(EVIL,))


@pytest.fixture(scope="module")
def file(made: Audit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "audit.html"
    path.write_text(render(made), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def show(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page; at the end of the test nothing must have been asked for, refused or complained about."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def opened(path: Path, *, width: int = 1180, dark: bool = False, script: bool = True, **more: Any) -> Any:
        scheme = "dark" if dark else "light"
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script, **more
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: request.url != path.as_uri() and wrong.append(request.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def column(page: Any, name: str) -> list[str]:
    """What the rows that are shown have in a column, from above."""
    heads = page.eval_on_selector_all("#runs thead th", "all => all.map(one => one.textContent.trim())")
    found = page.eval_on_selector_all(
        "#runs tbody tr:not([hidden])",
        "(rows, at) => rows.map(row => row.cells[at].textContent.trim())",
        heads.index(name),
    )
    return list(found)


@pytest.mark.parametrize(
    ("name", "width", "dark"), [("wide", 1180, False), ("dark", 1180, True), ("narrow", 360, False)]
)
def test_the_page_fits_every_screen(
    show: Callable[..., Any], file: Path, tmp_path: Path, name: str, width: int, dark: bool
) -> None:
    page = show(file, width=width, dark=dark)
    page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    folder = Path(os.environ.get("KBH_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(folder / f"audit-{name}.png"), full_page=True)
    assert (folder / f"audit-{name}.png").stat().st_size > 5_000


def test_headings_sort_by_keyboard_in_both_directions_and_missing_scores_stand_last(
    show: Callable[..., Any], file: Path
) -> None:
    page = show(file)
    page.get_by_role("button", name="score").focus()
    page.keyboard.press("Enter")
    scores = [float(text) for text in column(page, "score") if text]
    assert scores == sorted(scores) and column(page, "score")[-3:] == ["", "", ""]
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")
    assert [float(text) for text in column(page, "score") if text] == scores[::-1]
    assert column(page, "score")[-3:] == ["", "", ""]
    page.get_by_role("button", name="run", exact=True).press("Space")
    assert column(page, "run") == sorted(column(page, "run"))


def test_runs_are_filtered_by_words_and_by_kind(show: Callable[..., Any], file: Path) -> None:
    page = show(file)
    page.get_by_label("Kind").select_option("we-flag")
    assert column(page, "run") == [run(2)] and page.inner_text("#told") == "1 of 8 runs"
    page.get_by_label("Kind").select_option("")
    page.get_by_label("Filter", exact=True).fill("builtin-op rubric_leak 05_topk")
    page.keyboard.press("Enter")
    assert column(page, "run") == [run(2), run(4), run(6), "evil"]
    page.keyboard.press("Escape")
    assert len(column(page, "run")) == 8 and page.inner_text("#told") == ""


def test_disagreements_are_open_at_first_and_all_is_there_without_scripts(show: Callable[..., Any], file: Path) -> None:
    page = show(file, script=False)
    opened = page.eval_on_selector_all(
        "#runs details[open]", "all => all.map(one => one.closest('tr').cells[1].textContent)"
    )
    assert opened == [run(2), run(3)]
    assert len(column(page, "run")) == 8 and not page.locator("#tools").is_visible()
    assert page.locator("#runs th button").count() == 0
    assert "KBH501" in page.inner_text("#runs")


def test_hostile_text_is_shown_and_does_nothing(show: Callable[..., Any], file: Path) -> None:
    page = show(file, width=360)
    assert page.evaluate("window.ran") is None
    assert page.locator("img, iframe, object, main script").count() == 0
    assert EVIL in page.locator("#summary").text_content()


def test_a_page_of_many_runs_paints_and_sorts_quickly(show: Callable[..., Any], made: Audit, tmp_path: Path) -> None:
    cells = tuple(replace(made.cells[n % 7], run=f"run{n}") for n in range(2_000))
    path = tmp_path / "many.html"
    path.write_text(render(replace(made, cells=cells)), encoding="utf-8")
    page = show(path)
    page.get_by_role("button", name="ours").click()
    taken = page.evaluate(
        "new Promise(done => { const begun = performance.now();"
        " document.querySelectorAll('#runs th button')[1].click(); document.body.offsetHeight;"
        " done(performance.now() - begun); })"
    )
    assert taken < 10_000  # 0.2 s on an idle machine; this one may be busy
    assert column(page, "run")[:2] == ["run0", "run1"]


@held_by_axe(1180)
def test_axe_finds_nothing_on_the_page_of_an_audit(
    show: Callable[..., Any], file: Path, width: int, dark: bool
) -> None:
    page = show(file, width=width, dark=dark, bypass_csp=True)
    page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    assert faults(page) == []
