"""The page of a run in Debian's Chromium: folds, keys, anchors, filter, narrow and dark, and that nothing gets out.

Screenshots are kept in the folder that KBH_SCREENSHOTS names, else among the test's temporary files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_kit import faults, held_by_axe
from sample_run import Story, long, sample
from test_view import EVIL, HIDDEN, hostile

from harness.record.events import Message
from harness.view.page import render

sync_api = pytest.importorskip("playwright.sync_api")
pytest.importorskip("jinja2")

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (apt-get install chromium)")
Open = Callable[..., Any]

# Text with too little contrast to what is behind it: [text, ratio]. A colour's alpha and opacity count as seen.
CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const over = (top, under) => { const a = top.length > 3 ? top[3] : 1; return [0, 1, 2].map((i) => top[i] * a + under[i] * (1 - a)); };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (node) => { if (!node) return parse(getComputedStyle(document.body).backgroundColor).slice(0, 3); const own = parse(getComputedStyle(node).backgroundColor); return own.length < 4 || own[3] === 1 ? own.slice(0, 3) : over(own, behind(node.parentElement)); };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.data.trim(), node = walk.currentNode.parentElement;
    if (!text || node.closest("script, style, title, desc, .hush, .skip, dialog")) continue;
    const style = getComputedStyle(node), under = behind(node);
    const colour = over(parse(node.closest("svg") ? style.fill : style.color), under);
    const [a, b] = [light(colour), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push([text.slice(0, 40), node.className, Math.round(ratio * 100) / 100]);
  }
  return found;
}"""  # noqa: E501


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page")
    (out / "a.html").write_text(render(sample(out)), encoding="utf-8")
    return out / "a.html"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page")
    (out / "a.html").write_text(render(long(out, 200, text=600)), encoding="utf-8")
    return out / "a.html"


@pytest.fixture
def show(browser: Any) -> Iterator[Open]:
    """Opens a page; at the end of the test nothing must have been asked for, refused or complained about."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def opened(path: Path, at: str = "", *, width: int = 1180, dark: bool = False, script: bool = True,
               **more: Any) -> Any:  # fmt: skip
        scheme = "dark" if dark else "light"
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script, **more
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: request.url.split("#")[0] != path.as_uri() and wrong.append(request.url))
        page.goto(path.as_uri() + at)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def keep(page: Any, name: str, tmp_path: Path) -> None:
    """A screenshot, for people to look at."""
    folder = Path(os.environ.get("KBH_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(folder / f"{name}.png"))
    assert (folder / f"{name}.png").stat().st_size > 5_000


def opened(page: Any) -> list[int]:
    """Which steps are open."""
    found = page.eval_on_selector_all(
        "details.step[open] > .inside > .anchor", "nodes => nodes.map(node => Number(node.id.slice(5)))"
    )
    return list(found)


def here(page: Any) -> str:
    return str(page.eval_on_selector("details.step.here .number", "node => node.textContent"))


def settled(page: Any, script: str) -> None:
    """Waits until an expression is true. (The page's policy forbids the usual way, which evaluates text in it.)"""
    page.evaluate(f"new Promise(done => {{ const look = () => ({script}) ? done() : setTimeout(look, 10); look(); }})")


SCREENS = (("wide", 1180, False), ("dark", 1180, True), ("narrow", 360, False), ("narrow-dark", 360, True))


@pytest.mark.parametrize(("name", "width", "dark"), SCREENS)
def test_the_page_fits_every_screen_and_can_be_read_in_light_and_dark(
    show: Open, file: Path, tmp_path: Path, name: str, width: int, dark: bool
) -> None:
    page = show(file, width=width, dark=dark)
    page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    seen = "all => all.filter(s => s.checkVisibility()).map(s => s.classList[0])"
    shown = page.eval_on_selector_all("figure > svg", seen)
    assert shown == ["narrow" if width < 500 else "wide"] * 2
    for at in ("", "#scores", "#solution", "#step-5", "#snapshot-2"):
        page.goto(file.as_uri() + at)
        keep(page, f"view-{name}{at.replace('#', '-')}", tmp_path)


def test_keys_move_fold_and_filter(show: Open, many: Path, tmp_path: Path) -> None:
    page = show(many)
    assert opened(page) == []
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert here(page) == "Step 1"
    page.keyboard.press("o")
    assert opened(page) == [1]
    page.keyboard.press("Enter")  # the summary has the focus, and folds by itself
    assert opened(page) == []
    page.keyboard.press("k")
    assert here(page) == "Step 0"
    page.keyboard.press("e")
    assert len(opened(page)) == 201 and page.inner_text("#all") == "Fold all"
    page.keyboard.press("e")
    assert opened(page) == []
    page.keyboard.press("/")
    page.keyboard.type("round 177")
    settled(page, "document.getElementById('told').textContent === '1 of 201 steps'")
    page.keyboard.press("Enter")
    assert here(page) == "Step 177" and opened(page) == []
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    assert page.inner_text("#told") == "" and page.locator("details.step[hidden]").count() == 0
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    keep(page, "view-help", tmp_path)
    page.keyboard.press("j")
    assert here(page) == "Step 177"
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("s")
    assert page.evaluate("location.hash") == "#solution"
    assert 0 <= page.eval_on_selector("#solution", "node => node.getBoundingClientRect().top") < 200


def test_single_keys_can_be_turned_off(show: Open, many: Path) -> None:
    page = show(many)
    page.click("#asks")
    page.uncheck("#single")
    page.click("#help button")
    page.keyboard.press("e")
    assert opened(page) == []


@pytest.mark.parametrize("script", [True, False])
def test_an_anchor_opens_its_step_with_and_without_scripts(show: Open, many: Path, script: bool) -> None:
    page = show(many, "#step-120", script=script)
    if script:
        assert opened(page) == [120] and here(page) == "Step 120"
    place = page.locator("#step-120").locator("xpath=ancestor::details")
    assert place.get_attribute("open") is not None
    box = place.locator("summary").first.bounding_box()
    assert box is not None and 0 <= box["y"] < 900
    if not script:  # and steps fold by hand
        place.locator("summary").first.click()
        assert place.get_attribute("open") is None
        assert not page.locator(".tools").is_visible()


def test_a_link_to_a_step_that_the_filter_hides_shows_it(show: Open, many: Path) -> None:
    page = show(many)
    page.fill("#filter", "round 30\n")
    settled(page, "document.getElementById('told').textContent === '1 of 201 steps'")
    page.evaluate("location.hash = '#step-50'")
    settled(page, "document.querySelector('details.step.here .number')?.textContent === 'Step 50'")
    assert opened(page) == [50] and page.input_value("#filter") == ""


@pytest.mark.parametrize("text", [EVIL, HIDDEN, "x" * 200_000, "<" * 50_000])
def test_hostile_text_does_nothing_and_does_not_widen_the_page(show: Open, tmp_path: Path, text: str) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(render(hostile(tmp_path, text) if len(text) < 1_000 else _loud(tmp_path, text)), encoding="utf-8")
    page = show(path, width=360)
    page.keyboard.press("e")
    page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("img, iframe, object, a[href^=javascript]").count() == 0
    keep(page, "view-hostile", tmp_path)


def _loud(out: Path, text: str) -> Any:
    story = Story(out)
    story.tell(Message("assistant", text))
    story.tool(text[:500], text, command=text, path=text)
    story.tool("Write", text, file_path="solution.py", content=text)
    return story.end(text)


def test_what_is_put_into_the_page_by_hand_does_not_run(browser: Any, file: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(file.as_uri())
    refused = page.evaluate(
        """() => new Promise((done) => {
          const seen = [];
          document.addEventListener("securitypolicyviolation", (e) => { seen.push(e.effectiveDirective); if (seen.length === 3) done(seen); });
          const script = document.createElement("script"); script.textContent = "window.ran = 1"; document.body.append(script);
          const image = document.createElement("img"); image.src = "http://127.0.0.1:9/x"; document.body.append(image);
          document.body.setAttribute("style", "color: red");
        })"""  # noqa: E501
    )
    assert sorted(refused) == ["img-src", "script-src-elem", "style-src-attr"]
    assert page.evaluate("window.ran") is None
    context.close()


def test_the_solutions_lines_have_anchors_and_are_seen_through_them(show: Open, file: Path) -> None:
    page = show(file, "#L40")
    box = page.locator("#L40").bounding_box()
    assert box is not None and 0 < box["y"] < 900


def test_a_printed_page_has_everything_open(show: Open, many: Path) -> None:
    page = show(many)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert len(opened(page)) == 201
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert opened(page) == []


def test_a_page_of_many_steps_paints_at_once_and_answers_quickly(show: Open, many: Path) -> None:
    page = show(many)
    settled(page, "performance.getEntriesByType('paint').length")
    first = page.evaluate("performance.getEntriesByType('paint')[0].startTime")
    assert first < 5_000  # 0.2 s on an idle machine for 1,000 steps; this one may be busy
    page.keyboard.press("e")
    seen = page.eval_on_selector_all(
        "details.step > summary", "all => all.filter(s => s.checkVisibility({ contentVisibilityAuto: true })).length"
    )
    assert seen < 60  # the others are not laid out


@held_by_axe(1180)
def test_axe_finds_nothing(show: Open, file: Path, width: int, dark: bool) -> None:
    page = show(file, width=width, dark=dark, bypass_csp=True)
    page.add_style_tag(content=".step, .snap { content-visibility: visible !important }")
    page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    assert faults(page) == []
