"""The page of a run: what it says, that nothing in a run can act on it, and that it stays of bounded size."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sample_run
from sample_run import Story, long, sample

from harness.record.archive import ArchiveError, RunFolder
from harness.record.events import Finding, Graded, JudgeUsed, Message, ModelCalled, Note, ToolCall, ToolResult
from harness.record.run import RoomRecord
from harness.record.usage import Usage
from harness.view import page
from harness.view.gather import Bounds
from harness.view.page import render

pytest.importorskip("jinja2")

VOID = {"meta", "br", "input"}
EVIL = "</script></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'><a href='javascript:alert(1)'>x</a>"
ADDRESSES = {"href", "src", "action", "formaction", "xlink:href", "data", "poster", "srcset", "background", "cite"}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and sees that every tag is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []
        self.ids = [value for _, name, value in self.attributes if name == "id"]
        self.links = [str(value) for _, name, value in self.attributes if name in ADDRESSES]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.text += data


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    return render(sample(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def found(html: str) -> Reader:
    return Reader(html)


def test_the_head_says_how_the_run_ended_with_verdict_score_budget_room_and_cost(found: Reader) -> None:
    head = " ".join(found.text.split())
    for words in (
        "PASS claude-code with claude-opus-5.5 on 01_fp8_gemm", "verdict rubric_leak", "the agent said that it is done",
        "peak_fraction 0.534 (flagged, verdict rubric_leak)", "19 min 44 s of 45 min, 44% used", "$1.27",
        "bubblewrap, sealed, user 1000, GPU GPU-7", "494k sent (402k from a cache)", "claude-code 2.1.329",
        "agent 18 min 8 s", "judge 1 min 36 s", "build 38.5 s", "grade 2 min 20 s",
    ):  # fmt: skip
        assert words in head, words


def test_a_room_that_was_not_sealed_is_said_loudly(tmp_path: Path) -> None:
    open_room = Story(tmp_path, room=RoomRecord("none", False, 0)).end(None)
    said = Reader(render(open_room)).text
    assert "Not sealed." in said and "NOT SEALED" in said and "--no-sandbox" in said
    assert "Not sealed." in Reader(render(Story(tmp_path, run_id="b", room=None).end(None))).text


def test_findings_link_to_their_step_and_the_step_is_there(found: Reader) -> None:
    assert "#step-5" in found.links and "step-5" in found.ids
    assert "a tool call names a path outside the workspace" in found.text


def test_every_link_leads_to_a_place_of_the_page_and_every_place_has_its_own_name(found: Reader) -> None:
    assert found.links and all(link.startswith("#") for link in found.links)
    assert {link[1:] for link in found.links} <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))


def test_writes_and_edits_are_shown_as_what_they_change(html: str) -> None:
    edit = html[html.index('id="step-7"') :]
    assert re.search(r"<del>-[^<]*BLOCK_K=64</del><ins>\+[^<]*BLOCK_K=128</ins>", edit)
    write = html[html.index('id="step-5"') : html.index('id="step-6"')]
    assert "<del>- &#34;&#34;&#34;A first answer" in write and "<ins>+ import triton" in write
    assert '<pre class="shell">python benchmark.py --all\n# and see' in write
    first = html[html.index('id="step-2"') : html.index('id="step-3"')]
    assert "a new file" in first and "<del>" not in first


def test_a_step_says_what_it_used_what_failed_and_what_is_beside_the_conversation(found: Reader) -> None:
    text = " ".join(found.text.split())
    assert "unavailable in 31 s" in text and "the upstream answered HTTP 529 (overloaded)" in text
    assert "side call FP8" in text or "side call 900" in text
    assert "3,200 tokens in, 21,000 from a cache, 5,000 written to it, 420 out (120 of them reasoning), $0.08" in text
    assert "error of Bash" in text and "TimeoutError: late" in text


def test_the_solution_has_the_linters_findings_at_its_lines(found: Reader, html: str) -> None:
    assert re.search(r'class="l marked rubric_leak" id="L23">.*?</div>\n<div class="finding rubric_leak">', html)
    text = " ".join(found.text.split())
    assert re.search("fp8-products ?BROKEN", text) and re.search("authored-compute ?kept", text)
    assert "KBH101, high confidence" in text


def test_scores_over_time_have_practice_gradings_checks_and_snapshots(found: Reader, html: str) -> None:
    kinds = [
        str(value) for tag, name, value in found.attributes if tag in ("circle", "path", "rect") and name == "class"
    ]
    legend = 1
    for kind, count in (("practice", 3), ("final", 1), ("graded", 1), ("graded nil", 1), ("right", 1), ("wrong", 1)):
        drawn = kinds.count(kind) - (legend if kind != "graded nil" else 0)
        assert drawn == 2 * count, kind  # for wide and for narrow screens
    assert kinds.count("snapshot") == 2 * 4 + legend
    assert "#snapshot-4" in found.links and "final grading" in found.text and "0.523" in found.text
    assert found.tags.count("desc") == 4 and 'role="img"' in html


def test_headings_are_in_order_and_landmarks_are_there(html: str, found: Reader) -> None:
    levels = [int(level) for level in re.findall(r"<h([1-6])", html)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    assert {"header", "nav", "main", "footer"} <= set(found.tags) and found.tags.count("main") == 1


def test_only_the_pages_own_style_and_script_may_act(html: str, found: Reader) -> None:
    policy = next(value for tag, name, value in found.attributes if tag == "meta" and str(value).startswith("default"))
    for tag in ("style", "script"):
        bodies = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert len(bodies) == 1
        digest = base64.b64encode(hashlib.sha256(bodies[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in str(policy)
    assert str(policy).startswith("default-src 'none';") and "unsafe" not in str(policy)
    assert html.index("Content-Security-Policy") < html.index("<style>")


def test_the_page_names_no_address_but_its_own_anchors(html: str, found: Reader) -> None:
    assert not {"link", "iframe", "img", "object", "embed", "base", "audio", "video", "use", "image"} & set(found.tags)
    assert not [name for _, name, _ in found.attributes if name.startswith("on") or name == "style"]
    assert not re.search(r"https?://|url\(|@import|javascript:", html)


def test_the_same_archive_gives_the_same_page(tmp_path: Path, html: str) -> None:
    folder = sample(tmp_path)
    assert render(folder) == render(folder) == html


def hostile(out: Path, text: str) -> RunFolder:
    """A run in which everything that an agent, a model or an upstream can choose is this text."""
    story = Story(
        out, agent=text, harness=text, model=text, target=text, effort=text, detail=text, verdict=text,
        grade_outcome=text, versions={text: text}, changed_template=(text,), problem="01_fp8_gemm",
        room=RoomRecord("bubblewrap", True, 1, text, (text,)), findings=(Finding("breach", text, text, text),),
        run_id="hostile", cell=text,
    )  # fmt: skip
    digest = story.wrote(text)
    story.wrote(text, text)
    story.step = 1
    story.tell(ModelCalled(text, text, text, Usage(1), 1.0, text, text))
    for role, thinking in (("system", False), ("user", False), ("assistant", True), ("assistant", False)):
        story.tell(Message(role, text, thinking))  # type: ignore[arg-type]
    for number, arguments in enumerate((text, '{"a": 1', "[1]", "{" * 5_000, '{"command": [' + "[" * 5_000, "")):
        story.tell(ToolCall(f"{text}{number}", text, arguments))
        story.tell(ToolResult(f"{text}{number}", text, True))
    shapes: list[dict[str, object]] = [
        {"file_path": text, "content": text},
        {"path": text, "old_string": text, "new_string": text * 2},
        {"command": text},
        {text: text, "b": {text: text}},
        {"patch": "*** Begin Patch\n" + text},
    ]
    for shape in shapes:
        story.tool(text, text, **shape)
    story.tell(JudgeUsed("check", digest, text, text, None, 0, 0), "judge")
    story.tell(Graded(text, text, text, 0.1, text), "run")
    story.tell(Finding("contamination", text, text, text), "run")
    story.tell(Note(text), "run")
    return story.end(text)


HIDDEN = "a\x00b\x1b[31mred\u202eevil\u2066x\u200b\ufeff\ue000\U000e0041\r\rend"


@pytest.mark.parametrize("text", [EVIL, HIDDEN, "\ud800 lone", "{{ 7 * 7 }}{% raw %}", "&lt;script&gt;", "]]><!--"])
def test_text_of_a_run_never_becomes_markup_and_hides_nothing(tmp_path: Path, text: str) -> None:
    html = render(hostile(tmp_path, text))
    found = Reader(html)
    assert found.tags.count("script") == 1 and found.tags.count("style") == 1
    assert not {"img", "iframe", "object"} & set(found.tags)
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    assert all(link.startswith("#") for link in found.links)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", html
    )
    if text is EVIL:
        assert found.text.count("<script>alert(1)</script>") > 20
    if text is HIDDEN:
        assert r"a\x00b\x1b[31mred\u202eevil" in found.text


def test_a_long_run_is_shown_in_part_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    folder = long(tmp_path, 300, text=6_000)
    bounds = Bounds(steps=60, entries=350, text=60_000, one_text=4_000, listed=5)
    html = render(folder, bounds=bounds)
    assert len(html) < 500_000
    found = Reader(html)
    remarks = " ".join(re.findall(r'class="remark">([^<]*)', html))
    assert "Steps are left out in the middle, 241 of 301" in remarks and "longer than what this page shows" in remarks
    assert "more things that happened within steps are left out" in remarks
    assert "10 more snapshots of the solution are left out" in remarks
    assert {"step-1", "step-300"} <= set(found.ids) and "step-150" not in found.ids
    assert {link[1:] for link in found.links} <= set(found.ids)
    assert "characters are left out here" in Reader(render(folder, bounds=Bounds(steps=60, text=60_000))).text


def test_a_page_that_is_too_large_is_made_again_with_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = long(tmp_path, 120, text=2_000)
    assert len(render(folder)) > 400_000
    monkeypatch.setattr(page, "MOST_BYTES", 400_000)
    assert len(render(folder)) <= 400_000


def test_one_line_of_millions_of_characters_is_cut(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.tool("Bash", "<" * 7_000_000, command="x" * 3_000_000)
    story.tool("Write", "ok", file_path="solution.py", content="y" * 3_000_000 + "\n")
    story.tool("Write", "ok", file_path="solution.py", content="\n".join(map(str, range(200_000))))
    digest = story.wrote("z" * 3_000_000)
    html = render(story.end("w" * 3_000_000 + "\n"))
    assert len(html) < 1_000_000 and digest[:12] in html
    assert Reader(html).text.count("characters are left out here") >= 2


def test_an_archive_that_is_damaged_is_shown_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    folder = sample(tmp_path)
    trajectory = folder.path / "record" / "trajectory.jsonl"
    with trajectory.open("a") as file:
        file.write('{"seq": "x"}\n')
    (folder.path / "record" / "calls.jsonl").write_text('{"number": 1}\n')
    for thing in (folder.path / "record" / "objects").rglob("*"):
        if thing.is_file():
            thing.write_bytes(b"no gzip")
    html = render(folder)
    assert "The trajectory cannot be read to its end" in html and "The record of model calls cannot be read" in html
    assert 'id="step-7"' in html and "cannot be read" in html[html.index('id="snapshots"') :]


def test_a_run_that_has_only_begun_has_a_page_too(tmp_path: Path) -> None:
    folder = Story(tmp_path, state="preparing", outcome="", ending="", detail="", grade_outcome="", verdict="",
                   peak_fraction=None, roofline_fraction=None, room=None).folder  # fmt: skip
    text = Reader(render(folder)).text
    assert (
        "preparing" in text and "no score" in text and "Nothing was recorded." in text and "left no solution.py" in text
    )


def test_a_folder_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"run\.json"):
        render(RunFolder(tmp_path))


def test_a_problem_that_the_deck_lacks_leaves_the_solution_without_a_verdict(tmp_path: Path) -> None:
    story = Story(tmp_path, problem="99_unknown")
    text = Reader(render(story.end(sample_run.FIRST))).text
    assert "No verdict: the linter could not work" in text and "A first answer" in text
