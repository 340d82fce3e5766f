"""Parts of the page: texts cut by their size, diffs, tool calls of many CLIs, the schema of the trajectory."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_run import sample

from harness.record.events import event_from_json, event_to_json, kinds
from harness.record.usage import Usage
from harness.view.charts import score_chart, split_bar, usage_chart
from harness.view.diffs import Part, Work, diff, parts_within
from harness.view.entries import seconds
from harness.view.model import Called
from harness.view.schema import tables, trajectory_schema
from harness.view.text import LEAST, cap_within, cost, cut, short, visible
from harness.view.tools import asked, place

TEXT = st.text(alphabet=st.characters(codec=None) | st.sampled_from("<>&\"'\n\x00\u202e"), max_size=400)  # type: ignore[arg-type]


@given(TEXT)
def test_the_cost_of_a_text_is_what_it_takes_on_the_page(text: str) -> None:
    shown = html.escape(visible(text)).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")
    assert cost(text) == len(shown.encode())


@given(TEXT, st.integers(LEAST, 500))
def test_a_cut_text_fits_and_says_how_much_is_gone(text: str, most: int) -> None:
    kept = cut(text, most)
    assert cost(kept.head) + cost(kept.tail) <= most
    assert len(kept.head) + kept.left_out + len(kept.tail) == len(text)
    assert text.startswith(kept.head) and text.endswith(kept.tail)
    assert cost(short(text, most)) <= most and "\n" not in short(text, most)


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(0, 300))
def test_a_level_fills_the_room_and_no_more(sizes: list[int], total: int) -> None:
    found = cap_within(sizes, total)
    assert sum(min(size, found) for size in sizes) <= total
    if sum(sizes) > total:
        assert sum(min(size, found + 1) for size in sizes) > total


LINES = st.lists(st.sampled_from("abcd"), max_size=30)


@given(LINES, LINES)
def test_a_diff_has_every_line_that_went_and_every_line_that_came(old: list[str], new: list[str]) -> None:
    parts = diff("\n".join(old), "\n".join(new), Work())
    gone = [line for part in parts if part.kind == "del" for line in part.text.split("\n")]
    came = [line for part in parts if part.kind == "add" for line in part.text.split("\n")]
    assert len(old) - len(gone) == len(new) - len(came) or not "".join(old + new)
    for line in "abcd":
        assert old.count(line) - gone.count(line) == new.count(line) - came.count(line)


def test_a_diff_shows_a_few_lines_around_what_changed() -> None:
    old = "\n".join(map(str, range(1, 41)))
    parts = diff(old, old.replace("\n20\n", "\ntwenty\n"), Work())
    assert parts == (
        Part("hunk", "line 17"), Part("same", "17\n18\n19"), Part("del", "20"), Part("add", "twenty"),
        Part("same", "21\n22\n23"),
    )  # fmt: skip
    assert diff(old, old, Work()) == ()


def test_without_work_left_the_texts_stand_one_after_the_other() -> None:
    assert [part.kind for part in diff("a\nb\nc", "c\nb\na", Work(0))] == ["del", "add"]


def test_parts_that_do_not_fit_are_counted() -> None:
    kept, left_out = parts_within((Part("add", "a\nb"), Part("del", "\n".join("c" * 900))), 100)
    assert kept == (Part("add", "a\nb"),) and left_out == 900


CONTENT, OLD, NEW = "x = 1\n", "x = 1", "x = 2"


@pytest.mark.parametrize(
    ("name", "arguments", "path", "what"),
    [
        ("Write", {"file_path": "/agent/workspace/solution.py", "content": CONTENT}, "solution.py", "content"),
        ("write", {"filePath": "/agent/workspace/a/b.py", "content": CONTENT}, "a/b.py", "content"),
        ("write_file", {"file_path": "./solution.py", "content": CONTENT}, "solution.py", "content"),
        ("WriteFile", {"path": "solution.py", "content": CONTENT, "mode": "overwrite"}, "solution.py", "content"),
        ("str_replace_editor", {"command": "create", "path": "s.py", "file_text": CONTENT}, "s.py", "content"),
        ("Edit", {"file_path": "s.py", "old_string": OLD, "new_string": NEW}, "s.py", "edits"),
        ("edit", {"filePath": "s.py", "oldString": OLD, "newString": NEW, "replaceAll": True}, "s.py", "edits"),
        ("replace", {"file_path": "s.py", "old_string": OLD, "new_string": NEW, "instruction": "i"}, "s.py", "edits"),
        ("MultiEdit", {"file_path": "s.py", "edits": [{"old_string": OLD, "new_string": NEW}]}, "s.py", "edits"),
        ("StrReplaceFile", {"path": "s.py", "edit": {"old": OLD, "new": NEW}}, "s.py", "edits"),
        ("Bash", {"command": "ls -l", "description": "list"}, "", "command"),
        ("shell", {"command": ["bash", "-lc", "ls -l"], "workdir": "/agent"}, "", "command"),
        ("exec_command", {"cmd": "ls -l"}, "", "command"),
        ("apply_patch", {"input": "*** Begin Patch\n*** Update File: s.py\n-a\n+b\n*** End Patch"}, "s.py", "patch"),
        ("Read", {"file_path": "s.py", "offset": 3}, "s.py", "others"),
    ],
)
def test_a_tool_call_of_any_cli_is_read_by_its_shape(name: str, arguments: object, path: str, what: str) -> None:
    found = asked(name, json.dumps(arguments))
    assert found.path == path and bool(getattr(found, what))
    if what == "command":
        assert found.command == "ls -l"
    if what == "edits":
        assert found.applied(CONTENT) == "x = 2\n"


def test_a_patch_without_json_and_arguments_that_are_none_are_shown_as_they_are() -> None:
    assert asked("apply_patch", "*** Begin Patch\n*** Add File: a.py\n+x\n").path == "a.py"
    for broken in ("{", "[1]", "7", '{"a":' * 20_000, "null"):
        assert asked("x", broken).others == (("arguments", broken),)
    assert place("/agent/workspace/../workspace/solution.py") == "solution.py" and place("/etc/passwd") == "/etc/passwd"


def test_an_edit_of_what_is_not_there_leaves_the_content_unknown() -> None:
    call = asked("Edit", json.dumps({"file_path": "s.py", "old_string": "y", "new_string": "z"}))
    assert call.applied("x") is None and call.applied(None) is None


def test_times_for_people() -> None:
    assert [seconds(s) for s in (0.04, 59.9, 60, 200.4, 2700, 7500, 1e9)] == [
        "0.0 s", "59.9 s", "1 min", "3 min 20 s", "45 min", "2 h 5 min", "277,777 h 46 min",
    ]  # fmt: skip


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=900), st.sampled_from([340, 760]))
def test_every_bar_lies_within_its_picture(counts: list[int], width: int) -> None:
    called = [Called(n, "ok", False, Usage(count, count // 3, cost_usd=0.1)) for n, count in enumerate(counts, 1)]
    chart = usage_chart(called, "wide", width)
    assert chart is not None and len(chart.bars) <= 3 * (width // 4)
    for bar in chart.bars:
        assert chart.left <= bar.x and bar.x + bar.width <= chart.right + 1 and bar.y >= chart.top - 1
        assert bar.y + bar.height <= chart.base + 1


def test_nothing_to_draw_is_no_picture() -> None:
    assert usage_chart([], "wide", 760) is None and score_chart([], [], 60, 0, "wide", 760) is None
    assert split_bar([("agent", 0.0)], 720) == ()
    bars = split_bar([("agent", 1e6), ("lint", 1e-3)], 720)
    assert [bar.kind for bar in bars] == ["agent", "lint"] and bars[1].width >= 3
    assert bars[1].x + bars[1].width <= 720.2


def test_every_event_that_is_written_fits_the_schema(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = trajectory_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    folder = sample(tmp_path)
    lines = [json.loads(line) for line in (folder.path / "record/trajectory.jsonl").read_text().splitlines()]
    for line in lines:
        check.validate(line)
        assert event_to_json(event_from_json(line)) == line
    assert {line["kind"] for line in lines} == set(kinds())
    for broken in ({**lines[0], "kind": "other"}, {**lines[0], "more": 1}, {**lines[0], "step": -1}):
        assert not check.is_valid(broken)


def test_the_documented_schema_is_that_of_the_code() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "trajectory.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("<!-- begin: events -->\n")
    assert rest.partition("<!-- end: events -->")[0] == tables(), "docs/trajectory.md has other tables than the code"
