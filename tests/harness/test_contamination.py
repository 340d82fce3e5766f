"""Canaries, hidden lines and tokens of runs in what a model is sent and says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.contamination.canaries import CANARIES, CARRIERS, TOKEN_FILE, canary_line, known_tokens, plant
from harness.contamination.hidden import Index, Source, build, checkout, hidden_index, hidden_texts, lines_of
from harness.contamination.rules import DECISIVE, MOST_EVIDENCE, RULES, docs_table, finding
from harness.contamination.watch import LINES, LINES_OF_A_RUN, MOST_NEW, PRIOR_LINES, Watch
from harness.record.events import Finding
from harness.record.exchange import Exchange, Item
from kbh_lint.base.paths import problems_dir

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = problems_dir() / "01_fp8_gemm"
HONEST = (PROBLEM / "honest/triton.py").read_text(encoding="utf-8")


def said(*items: Item, output: tuple[Item, ...] = (), system: str = "") -> Exchange:
    return Exchange("anthropic-messages", "model", system=system, input=items, output=output)


def result(text: str) -> Item:
    return Item("tool_result", "tool", text, call_id="c1")


def answer(text: str) -> Item:
    return Item("text", "assistant", text)


def rules(found: list[Finding]) -> list[str]:
    return [one.rule for one in found]


def watch(**more: object) -> Watch:
    given = {"reference.py": (PROBLEM / "reference.py").read_bytes(), "prompt.md": (PROBLEM / "prompt.md").read_bytes()}
    return Watch("01_fp8_gemm", given, **more)  # type: ignore[arg-type]


# --- canaries ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CARRIERS)
def test_every_carrier_holds_the_canary_of_its_kind(kind: str) -> None:
    for pattern in CARRIERS[kind]:
        files = sorted(ROOT.glob(pattern))
        assert files, pattern
        assert not [file for file in files if canary_line(kind) not in file.read_text(encoding="utf-8")]


@pytest.mark.parametrize("kind", CANARIES)
def test_a_canary_in_a_request_is_decisive_and_names_the_step(kind: str) -> None:
    (found,) = watch().look(said(result(f"1\t# {canary_line(kind)}")), 7)
    assert found.rule == "canary-in-request" and found.decisive and found.step == 7
    assert "Step 7" in found.message and kind in found.message
    assert CANARIES[kind] not in found.evidence  # a record that quotes it would be taken for a leak itself


def test_a_canary_that_the_model_says_first_is_from_its_training() -> None:
    looking = watch()
    (found,) = looking.look(said(output=(answer(f"I remember {CANARIES['grader'].upper()}"),)), 1)
    assert found.rule == "canary-in-answer" and not found.decisive
    assert looking.look(said(answer(f"I remember {CANARIES['grader'].upper()}"), result(CANARIES["grader"])), 2) == []


def test_a_canary_that_was_read_and_is_repeated_is_told_of_once() -> None:
    looking = watch()
    line = canary_line("results")
    assert rules(looking.look(said(result(line), output=(answer(line),)), 3)) == ["canary-in-request"]
    assert looking.look(said(result(line), answer(line), result("more\n" + line)), 4) == []


def test_a_canary_is_found_in_system_text_in_arguments_and_in_escaped_output() -> None:
    token = CANARIES["cases"]
    assert rules(watch().look(said(system=f"x {token}"), 1)) == ["canary-in-request"]
    call = Item("tool_call", "assistant", name="Write", arguments=json.dumps({"file_path": "a", "content": token}))
    assert rules(watch().look(said(output=(call,)), 1)) == ["canary-in-answer"]
    assert rules(watch().look(said(result(json.dumps({"output": f"a\n{token}\n"}))), 1)) == ["canary-in-request"]


# --- tokens of runs ----------------------------------------------------------------------------------------


def test_the_token_of_another_run_is_decisive_and_names_the_run(tmp_path: Path) -> None:
    own, other = plant(tmp_path / "own"), plant(tmp_path / "other")
    assert known_tokens(tmp_path) == {own: "own", other: "other"}
    looking = watch(out_dir=tmp_path, own_token=own)
    (found,) = looking.look(said(result((tmp_path / "other" / TOKEN_FILE).read_text())), 2)
    assert found.rule == "foreign-run-token" and found.decisive and "the run other" in found.message
    (found,) = looking.look(said(result(own)), 3)
    assert "this run itself" in found.message


def test_a_token_of_a_run_that_nobody_knows_is_found_by_its_form(tmp_path: Path) -> None:
    (found,) = watch().look(said(result(f"# {plant(tmp_path)}: a token")), 1)
    assert found.rule == "foreign-run-token" and "unknown" in found.message


def test_a_token_is_planted_once_and_no_link_is_followed(tmp_path: Path) -> None:
    plant(tmp_path / "a")
    with pytest.raises(FileExistsError):
        plant(tmp_path / "a")
    (tmp_path / "b" / "record").mkdir(parents=True)
    (tmp_path / "b" / TOKEN_FILE).symlink_to(tmp_path / "a" / TOKEN_FILE)
    (tmp_path / "c").symlink_to(tmp_path / "a")
    assert list(known_tokens(tmp_path).values()) == ["a"]
    assert known_tokens(tmp_path / "missing") == {}


# --- hidden text -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["honest/triton.py", "honest/cuda.py", "decoys/upcast_dot.py", "mutants.py", "cases.py"]
)
def test_a_hidden_file_is_known_by_its_lines(kind: str) -> None:
    text = (PROBLEM / kind).read_text(encoding="utf-8")
    (found,) = watch().look(said(result(text)), 4)
    assert found.rule == "hidden-text-in-request" and found.decisive
    assert "01_fp8_gemm" in found.message


def shown(text: str) -> dict[str, str]:
    lines = text.splitlines()
    return {
        "cat -n": "\n".join(f"{n:6}\t{line}" for n, line in enumerate(lines, 1)),
        "Read": "\n".join(f"{n:>5}→{line}" for n, line in enumerate(lines, 1)),
        "grep -n": "\n".join(f"{n}:{line}" for n, line in enumerate(lines, 1)),
        "grep -rn": "\n".join(f"./problems/01/honest/triton.py:{n}:{line}" for n, line in enumerate(lines, 1)),
        "git diff": "\n".join(f"+{line}" for line in lines),
        "json": json.dumps({"output": text, "exit_code": 0}),
        "escaped": "result: " + json.dumps(text),
        "crlf": "\r\n".join(lines),
        "indented": "\n".join(f"      {line}" for line in lines),
        "head -40": "\n".join(lines[:40]),
    }


@pytest.mark.parametrize("how", shown("a"))
def test_hidden_lines_are_found_however_a_tool_shows_them(how: str) -> None:
    assert rules(watch().look(said(result(shown(HONEST)[how])), 1)) == ["hidden-text-in-request"]


def test_hidden_text_that_comes_in_small_parts_adds_up() -> None:
    looking, index = watch(), hidden_index()
    given = (PROBLEM / "prompt.md").read_text() + (PROBLEM / "reference.py").read_text()
    mine = [line for line in sorted(lines_of(HONEST) - lines_of(given)) if line in index.lines][:LINES_OF_A_RUN]
    found = [one for step, line in enumerate(mine, 1) for one in looking.look(said(result(f"{step}\n{line}")), step)]
    assert rules(found) == ["hidden-text-in-request"] and found[0].step == LINES_OF_A_RUN


def test_what_the_model_wrote_itself_may_be_read_again() -> None:
    looking = watch()
    call = Item("tool_call", "assistant", name="Write", arguments=json.dumps({"content": HONEST}))
    (found,) = looking.look(said(output=(call,)), 1)
    assert found.rule == "hidden-text-in-answer" and not found.decisive
    assert looking.look(said(call, result(shown(HONEST)["cat -n"])), 2) == []


def test_what_was_given_is_not_hidden() -> None:
    text = "The oracle keeps every partial sum of the deep product in sixty-four bits, line {}.\n"
    index = build([(Source("hidden", "hidden"), "".join(text.format(n) for n in range(20)))])
    given = "".join(text.format(n) for n in range(10)).encode()
    assert rules(Watch("p", {}, index=index).look(said(result(given.decode())), 1)) == ["hidden-text-in-request"]
    assert Watch("p", {"reference.py": given}, index=index).look(said(result(given.decode())), 1) == []
    assert watch().look(said(Item("text", "user", (PROBLEM / "prompt.md").read_text())), 1) == []


def test_a_number_of_stored_evidence_is_enough() -> None:
    key = json.loads((PROBLEM / "evidence/h200.json").read_text())["key"]
    (found,) = watch().look(said(result(f"key = {key}")), 1)
    assert found.rule == "hidden-text-in-request"


def test_lines_that_several_problems_share_are_idioms() -> None:
    line = "accumulator = tl.dot(a_tile, b_tile, accumulator, out_dtype=tl.float32)"
    alone = "scores = tl.where(column[None, :] < seq_len_of_this_row, scores, float('-inf'))"
    index = build([(Source("a", "01"), f"{line}\n{alone}"), (Source("b", "02"), line), (Source("c", "01"), alone)])
    assert index.lines == {alone: (0, 2)}


def test_most_files_of_the_deck_are_known_by_their_lines() -> None:
    index = hidden_index()
    deck = {at for at, source in enumerate(index.sources) if re.match(r"problems/\d", source.label)}
    lines = [at for of in index.lines.values() for at in set(of)]
    known = {at for at in deck if lines.count(at) >= LINES} | set(index.numbers.values())
    assert len(deck & known) >= 0.9 * len(deck)
    assert not {index.sources[at].label for at in deck - known if "honest" in index.sources[at].label}


def test_independent_work_has_too_few_lines_to_be_flagged() -> None:
    import torch
    import triton

    for package, below in ((triton, "language"), (torch, "nn/modules")):
        assert package.__file__
        for file in sorted((Path(package.__file__).parent / below).glob("*.py"))[:60]:
            assert watch().look(said(result(file.read_text(encoding="utf-8"))), 1) == [], file


def test_an_installation_without_a_checkout_has_an_index_too() -> None:
    assert checkout() == ROOT
    labels = {source.label for source, _ in hidden_texts(None)}
    assert {"grader/deck/keys.py", "harness/contamination/canaries.py", "problems/01_fp8_gemm/legal.py"} <= labels
    assert not [label for label in labels if label.startswith(("tests", "results"))]


# --- earlier solutions -------------------------------------------------------------------------------------


def test_an_earlier_solution_that_was_not_written_here_is_told_of(tmp_path: Path) -> None:
    run = tmp_path / "earlier-run"
    run.mkdir()
    (run / "solution.py").write_text(HONEST)
    nothing = Index((), {})
    looking = Watch("01_fp8_gemm", {}, prior=[run, tmp_path / "missing"], index=nothing)
    (found,) = looking.look(said(result(HONEST)), 5)
    assert found.rule == "prior-text-in-request" and found.decisive and "earlier-run" in found.message
    assert looking.look(said(result("again\n" + HONEST)), 6) == []

    looking = Watch("01_fp8_gemm", {}, prior=[run / "solution.py"], index=nothing)
    assert looking.look(said(output=(answer(HONEST),)), 1) == []  # the same idea, twice
    assert looking.look(said(answer(HONEST), result(HONEST)), 2) == []


def test_a_few_lines_of_an_earlier_solution_are_chance(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(HONEST)
    few = "\n".join(sorted(lines_of(HONEST))[: PRIOR_LINES - 1])
    assert Watch("01_fp8_gemm", {}, prior=[tmp_path / "a.py"], index=Index((), {})).look(said(result(few)), 1) == []


# --- the work of looking -----------------------------------------------------------------------------------


def test_a_tool_call_that_reaches_out_is_told_of_at_its_step() -> None:
    call = Item("tool_call", "assistant", name="Bash", arguments=json.dumps({"command": "cat /root/.ssh/id_rsa"}))
    again = Item("tool_call", "assistant", name="Bash", arguments=json.dumps({"command": "cat  /root/.ssh/id_rsa"}))
    looking = watch()
    (found,) = looking.look(said(output=(call,)), 9)
    assert (found.rule, found.step, found.evidence) == ("reaches-for-secrets", 9, "/root/.ssh/id_rsa")
    assert looking.look(said(call, result("no such file"), output=(again,)), 10) == []


def test_only_new_items_are_looked_at() -> None:
    looking = watch()
    items = (Item("text", "user", "x" * 1000), result("y" * 1000))
    looking.look(said(*items), 1)
    assert [item.text for _, item in looking._new(said(*items, result("z")))] == ["z"]


def test_a_huge_text_is_cut_and_that_is_told() -> None:
    text = "a short line\n" * (MOST_NEW // 10)
    assert rules(watch().look(said(result(text)), 1)) == ["not-all-read"]


@pytest.mark.parametrize("text", ["\0" * 100, "{" * 10_000, '["' * 5000, "-" * 100_000, "\ud800", "a-" * 50_000])
def test_hostile_text_finds_nothing_and_raises_nothing(text: str) -> None:
    call = Item("tool_call", "assistant", name="t", arguments=text)
    assert set(rules(watch().look(said(result(text), output=(call,)), 1))) <= {"outside-workspace"}


# --- rules -------------------------------------------------------------------------------------------------


def test_the_table_of_rules_is_complete() -> None:
    table = docs_table()
    assert all(f"| `{slug}` |" in table for slug in RULES)
    assert {"canary-in-request", "foreign-run-token", "hidden-text-in-request", "prior-text-in-request"} == DECISIVE
    assert len(finding("near-identical", "m", "e" * 10_000).evidence) == MOST_EVIDENCE
