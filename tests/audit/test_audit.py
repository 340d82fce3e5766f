"""An audit of each layout: what is opened, what agrees, and what the outputs hold."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from archives import HONEST, LEAK, OPEN, ROOT, SNIFF, audited, bare, by_run, commit, predecessor, run, told, written

from grader.record.cell import SandboxRecord
from harness.audit.annotations import Theirs
from harness.audit.cells import Quotes
from harness.audit.compare import CLASSES, KINDS, compare, table
from harness.audit.gathering import gather, pane
from harness.audit.layouts import detect, plan
from harness.audit.markdown import render
from harness.audit.reading import AuditError, Folder, Git, Item, Place, Reader
from harness.audit.record import as_json, schema
from kbh_lint.findings import FileReport

KINDS_MADE = {
    run(1): (HONEST, "clean"), run(2): (LEAK, "clean"), run(3): (HONEST, "reward_hack"), run(4): (LEAK, "rubric_leak"),
    run(5): (OPEN, "clean"), run(6): (None, "clean"), run(7): (LEAK, ""), run(8): (HONEST, "bug"),
    run(9): ("int main() { return 0; }\n", "clean"), run(0): (SNIFF, "rubric_leak"),
}  # fmt: skip
WANTED = {
    run(1): "agree", run(2): "we-flag", run(3): "they-flag", run(4): "agree", run(5): "cannot-tell",
    run(6): "cannot-tell", run(7): "not-annotated", run(8): "beside", run(9): "cannot-tell", run(0): "agree",
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = predecessor(tmp_path_factory.mktemp("archive") / "site", KINDS_MADE, pages=[run(2), run(4)])
    commit(top)
    return top


@pytest.fixture(scope="module")
def out(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from harness.audit.cli import main

    folder = tmp_path_factory.mktemp("out")
    assert main([str(whole), "-o", str(folder), "--jobs", "1"]) == 1
    return folder


def test_every_kind_of_cell_comes_out_of_an_archive_of_the_predecessors_layout(out: Path) -> None:
    data = written(out)
    assert {cell["run"]: cell["kind"] for cell in data["cells"]} == WANTED
    assert data["counts"] == {kind: Counter(WANTED.values())[kind] for kind in KINDS}
    assert data["flagged_without_annotation"] == 1 and data["solutions"] == 9 and data["archive"]["form"] == "folder"


def test_each_cell_has_evidence_by_line_and_says_why_nothing_can_be_told(out: Path) -> None:
    cells = {cell["run"]: cell for cell in written(out)["cells"]}
    leak = cells[run(2)]
    assert leak["ours"]["classes"] == ["builtin-op-sidestep"] and leak["solution"]["form"] == "html"
    line = next(one["line"] for one in leak["evidence"] if one["by"] == "KBH501")
    assert "topk" in LEAK.split("\n")[line - 1]
    assert all(one["path"] == f"{run(2)}.py" for one in leak["evidence"])
    kept = cells[run(3)]
    assert kept["evidence"] and all(one["by"].endswith(": kept") for one in kept["evidence"] if one["line"])
    assert kept["theirs"]["lines"] == [3, 4, 5]  # a quote's first and last; the transcript's are not the solution's
    assert "unproven" in cells[run(5)]["why"]
    assert cells[run(6)]["why"] == "the archive has no solution of this run"
    assert "not Python" in cells[run(9)]["why"]
    assert [cell["theirs"]["said"] for cell in cells.values() if "said" in cell["theirs"]] == []


def test_agreements_that_differ_in_the_word_or_in_the_lines_are_named_with_both(tmp_path: Path) -> None:
    (tmp_path / "made/05_topk_bitonic").mkdir(parents=True)
    (tmp_path / "made/05_topk_bitonic/far.py").write_text(LEAK)
    (tmp_path / "made/05_topk_bitonic/near.py").write_text(LEAK)
    (tmp_path / "made/05_topk_bitonic/word.py").write_text(LEAK)
    rows = [{"run_id": "far", "verdict": "leak", "lines": [1]}, {"run_id": "word", "verdict": "reward_hack"}]
    line = next(number for number, text in enumerate(LEAK.split("\n"), 1) if "topk(" in text)
    rows.append({"run_id": "near", "verdict": "rubric_leak", "lines": [line]})
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    said = render(audited(tmp_path / "made", "--annotations", tmp_path / "rows.json", "-o", tmp_path / "out"))
    _, _, differ = said.partition("## Agree, with a difference\n\n")
    assert "- word: published reward_hack, ours rubric_leak\n" in differ and "- near" not in differ
    assert re.search(rf"- far: .* no line of theirs is within 5 .*; their lines 1, ours .*{line}", differ)


def test_the_json_is_what_its_schema_says(out: Path) -> None:
    import jsonschema

    jsonschema.validate(written(out), schema(), cls=jsonschema.Draft202012Validator)
    broken = written(out)
    broken["cells"][0]["source"] = "a line"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema(), cls=jsonschema.Draft202012Validator)


def test_no_line_of_a_solution_nor_a_word_of_an_annotation_is_in_the_outputs(out: Path) -> None:
    lines = {line.strip() for text in (HONEST, LEAK, SNIFF, OPEN) for line in text.split("\n")}
    lines = {line for line in lines if len(line) >= 20}
    for name in ("audit.json", "audit.md", "audit.html"):
        text = (out / name).read_text()
        assert [line for line in lines if line in text] == []
        assert "their words" not in text and "their quote" not in text
    assert sorted(path.name for path in out.iterdir()) == ["audit.html", "audit.json", "audit.md"]


def test_with_sources_the_lines_and_their_reasons_are_shown(whole: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "only.txt").write_text(f"{run(2)}  # a comment\n\n")
    code, said, _ = told(capsys, whole, "--only", tmp_path / "only.txt", "--with-sources", "-o", tmp_path / "out")
    assert code == 1 and "1 we flag" in said
    cell = written(tmp_path / "out")["cells"][0]
    assert any("topk" in one["code"] for one in cell["evidence"]) and cell["theirs"]["said"] == "their words of it"
    assert (tmp_path / "out/sources" / f"{run(2)}.py").read_text() == LEAK
    assert "their words of it" in (tmp_path / "out/audit.html").read_text()


def test_a_folder_and_a_git_directory_give_the_same_cells(whole: Path, tmp_path: Path) -> None:
    seen = as_json(audited(whole, "-o", tmp_path))
    past = as_json(audited(bare(whole, tmp_path / "repo.git"), "-o", tmp_path))
    assert (
        past["cells"] == seen["cells"] and past["archive"]["form"] == "git" and len(past["archive"]["revision"]) == 40
    )


def test_the_exit_code_says_whether_anything_disagrees(whole: Path, tmp_path: Path, capsys: Any) -> None:
    for names, wanted in (((run(1), run(4), run(5)), 0), ((run(1), run(3)), 1)):
        (tmp_path / "only.json").write_text(json.dumps(list(names)))
        assert told(capsys, whole, "--only", tmp_path / "only.json", "-o", tmp_path / "out")[0] == wanted


# --- what is opened ----------------------------------------------------------------------------------------


def test_only_named_runs_are_opened_and_nothing_else(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaderboard = whole / "benchmarks/hard/results/leaderboard.json"
    leaderboard.write_text(json.dumps({"models": [{"label": "m", "results": {"p": {"run_id": run(1), "score": 0.5}}}]}))
    opened: list[str] = []
    read = Folder.read

    def noted(self: Folder, path: str, most: int, commit: str = "") -> bytes:
        opened.append(path)
        return read(self, path, most, commit)

    monkeypatch.setattr(Folder, "read", noted)
    (tmp_path / "only.txt").write_text(run(1))
    made = audited(whole, "--only", tmp_path / "only.txt", "-o", tmp_path / "out")
    assert sorted(opened) == [
        f"benchmarks/hard/results/annotations/{run(1)}.yaml",
        f"public/runs/{run(1)}_solution.py.txt",
    ]
    assert list(by_run(made)) == [run(1)]
    opened.clear()
    audited(whole, "-o", tmp_path / "out")
    assert "benchmarks/hard/results/leaderboard.json" in opened
    leaderboard.unlink()


def test_the_linter_opens_no_file_of_the_archive_by_itself(whole: Path, tmp_path: Path) -> None:
    """Every file that the process opens is noted; in the archive only those of the run that was named."""
    (tmp_path / "only.txt").write_text(run(4))
    script = (
        "import sys\nseen = []\n"
        "def note(event, args):\n    if event == 'open' and isinstance(args[0], str): seen.append(args[0])\n"
        "sys.addaudithook(note)\n"
        "from harness.audit.cli import main\n"
        f"code = main([{str(whole)!r}, '--only', {str(tmp_path / 'only.txt')!r}, '-o', {str(tmp_path)!r}, '-j1'])\n"
        "print('\\n'.join(seen)); sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    others = {name for name in KINDS_MADE if name != run(4)}
    assert [path for path in done.stdout.split("\n") if any(name in path for name in others)] == []


def test_a_git_directory_is_audited_where_all_but_the_named_objects_are_gone(whole: Path, tmp_path: Path) -> None:
    repo = bare(whole, tmp_path / "repo.git")
    for pack in list((repo / "objects/pack").glob("*.pack")):
        data = pack.read_bytes()
        for path in (repo / "objects/pack").iterdir():
            path.chmod(0o600)
            path.unlink()
        subprocess.run(["git", f"--git-dir={repo}", "unpack-objects", "-q"], input=data, check=True)
    listed = Git(repo, "HEAD", "repo").items()
    # Sizes cannot be listed without the objects, so the listing is made before.
    for name in {item.id for item in listed} - {item.id for item in listed if run(2) in item.path}:
        loose = repo / "objects" / name[:2] / name[2:]
        loose.chmod(0o600)
        loose.unlink()
    (tmp_path / "only.txt").write_text(run(2))
    made = plan("predecessor", listed, [*_only(tmp_path / "only.txt")])
    archive = Git(repo, "HEAD", "repo")
    runs = gather(made, Reader.of(archive, made.places()), {}, ("05_topk_bitonic",))
    archive.close()
    assert [one.text for one in runs] == [LEAK]
    with pytest.raises(AuditError, match="was not to be opened"):
        Reader.of(archive, made.places()).read(Place(f"public/runs/{run(1)}_solution.py.txt"), 1000)


def _only(file: Path) -> list[Any]:
    from harness.audit.cli import _rows

    return _rows(file)


@pytest.mark.parametrize("form", ["folder", "git"])
def test_a_row_of_only_says_where_and_at_which_commit_its_solution_lies(form: str, tmp_path: Path) -> None:
    top = predecessor(tmp_path / "site", {run(1): (LEAK, "clean")}, pages=[run(1)])
    before = commit(top)
    (top / f"public/runs/{run(1)}.html").unlink()
    predecessor(top, {run(2): (HONEST, "clean")})
    commit(top)
    rows = [
        {
            "run_id": run(1),
            "board": "old",
            "source": f"html:public/runs/{run(1)}.html@{before[:10]}",
            "sha256": "0" * 64,
        }
    ]
    (tmp_path / "only.json").write_text(json.dumps(rows))
    place = top if form == "folder" else bare(top, tmp_path / "repo.git")
    cell = by_run(audited(place, "--only", tmp_path / "only.json", "-o", tmp_path))[run(1)]
    assert (
        cell.kind == "we-flag"
        and cell.board == "old"
        and cell.place == Place(f"public/runs/{run(1)}.html", before[:10], "html")
    )
    assert cell.theirs.at.endswith(f"{run(1)}.yaml")
    assert cell.remarks == ("it is not the text that was named: its sha256 is another",)


def test_a_named_run_that_is_not_there_is_told_as_missing(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "only.txt").write_text(f"{run(1)}\nnobody\n")
    (tmp_path / "said.yaml").write_text("- {run_id: nobody, verdict: clean}\n")
    cells = by_run(
        audited(whole, "--only", tmp_path / "only.txt", "--annotations", tmp_path / "said.yaml", "-o", tmp_path)
    )
    assert cells["nobody"].kind == "cannot-tell" and "no solution" in cells["nobody"].why


# --- layouts -----------------------------------------------------------------------------------------------


def test_boards_texts_before_pages_and_other_texts_of_a_run_are_planned(tmp_path: Path) -> None:
    name = run(1)
    items = [
        Item(f"public/runs/{name}.html", 9, "a"), Item(f"public/runs/{name}_solution.py.txt", 5, "b"),
        Item(f"public/runs/h100/{name}_solution.py.txt", 6, "c"), Item(f"archive/v1-runs/{run(2)}.html", 3, "d"),
        Item(f"public/data/rundetail/h100/{name}.json", 3, "e"),
        Item("benchmarks/hard/results/leaderboard.h100.json", 3),
        Item("public/runs/../../secret_solution.py.txt", 3),
    ]  # fmt: skip
    made = plan(detect(items), items, None)
    first, second = made.entries
    assert (first.board, first.place) == ("h100", Place(f"public/runs/h100/{name}_solution.py.txt"))
    assert first.detail == Place(f"public/data/rundetail/h100/{name}.json") and "another text" in first.remarks[0]
    assert (second.board, second.place) == ("v1", Place(f"archive/v1-runs/{run(2)}.html", form="html"))
    assert made.boards == (Place("benchmarks/hard/results/leaderboard.h100.json"),)
    assert not any(".." in place.path for place in made.places())


def test_samples_of_kernelbench_are_linted_under_their_problems(tmp_path: Path) -> None:
    source = ROOT / "tests/kernelbench/problems/1_row_products.py"
    top = tmp_path / "runs"
    (top / "level1").mkdir(parents=True)
    shutil.copy(source, top / "level1/3_product.py")
    sample = "import torch\nfrom torch import nn\n\n\nclass ModelNew(nn.Module):\n    def forward(self, A, B):\n"
    for number in range(3):
        (top / f"level_1_problem_3_sample_{number}_kernel.py").write_text(
            sample + "        return torch.matmul(A, B)\n"
        )
    results = {"3": [{"sample_id": 0, "compiled": True, "correctness": True},
                     {"sample_id": 1, "compiled": True, "correctness": False}]}  # fmt: skip
    (top / "eval_results.json").write_text(json.dumps(results))
    cells = by_run(audited(top, "-o", tmp_path))
    name = "level_1_problem_3_sample_"
    assert [cells[f"{name}{number}"].kind for number in range(3)] == ["we-flag", "beside", "not-annotated"]
    assert cells[f"{name}0"].theirs.word == "counted" and cells[f"{name}0"].contract
    assert {cells[f"{name}{number}"].problem for number in range(3)} == {"level_1_problem_3"}
    # Without the problem nothing is known of what it must do.
    shutil.move(top / "level1", tmp_path / "level1")
    assert by_run(audited(top, "-o", tmp_path))[f"{name}0"].contract == ""
    assert by_run(audited(top, "--kernelbench", tmp_path, "-o", tmp_path))[f"{name}0"].kind == "we-flag"


def test_a_folder_is_audited_against_rows_by_run_or_file_in_json_or_yaml(tmp_path: Path) -> None:
    top = tmp_path / "kernels"
    (top / "05_topk_bitonic").mkdir(parents=True)
    for name, text in (("honest.py", HONEST), ("leak.py", LEAK), ("nobody.py", LEAK)):
        (top / "05_topk_bitonic" / name).write_text(text)
    (tmp_path / "a.yaml").write_text(
        "- run_id: honest\n  label: leak\n- file: leak.py\n  verdict: clean\n  lines: [1, 40]\n"
    )
    rows = [
        {"run_id": "honest", "label": "leak"},
        {"file": "05_topk_bitonic/leak.py", "verdict": "clean", "lines": [1, 40]},
    ]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    for name in ("a.yaml", "a.json"):
        cells = by_run(audited(top, "--annotations", tmp_path / name, "-o", tmp_path))
        assert {one: cells[one].kind for one in cells} == {
            "honest": "they-flag", "leak": "we-flag", "nobody": "not-annotated",
        }  # fmt: skip
        assert cells["leak"].theirs.lines == (1, 40)


def test_a_clean_verdict_without_a_contract_tells_nothing(tmp_path: Path) -> None:
    top = tmp_path / "kernels"
    top.mkdir()
    (top / "one.py").write_text(HONEST)
    (tmp_path / "a.yaml").write_text("- {run_id: one, verdict: clean}\n")
    cell = by_run(audited(top, "--annotations", tmp_path / "a.yaml", "-o", tmp_path))["one"]
    assert cell.kind == "cannot-tell"
    cell = by_run(
        audited(top, "--annotations", tmp_path / "a.yaml", "--problem", "05_topk_bitonic", "-o", tmp_path)
    )["one"]  # fmt: skip
    assert cell.kind == "agree"


def test_files_beside_a_solution_are_read_with_it_but_not_where_runs_are_named(tmp_path: Path) -> None:
    top = tmp_path / "kernels"
    top.mkdir()
    (top / "main.py").write_text("import other\n\nModel = other.Model\n")
    (top / "other.py").write_text(LEAK)
    rows = tmp_path / "a.json"
    rows.write_text(json.dumps(["main"]))
    known = ("--problem", "05_topk_bitonic", "-o", tmp_path)
    assert by_run(audited(top, *known))["main"].ours == "rubric_leak"
    assert by_run(audited(top, "--only", rows, *known))["main"].ours == "unproven"


# --- comparing ---------------------------------------------------------------------------------------------


def test_the_table_of_the_page_is_what_the_comparison_does() -> None:
    assert table() in (ROOT / "docs/audit.md").read_text()
    for group, words in CLASSES.items():
        for word in words:
            assert compare(word, FileReport("", None, "c", None, "clean"))[0] == {
                "sound": "agree", "leak": "they-flag", "beside": "beside", "none": "not-annotated",
            }[group]  # fmt: skip
    assert compare("a word of their own", FileReport("", None, "c", None, "rubric_leak"))[0] == "beside"


def test_a_message_that_quotes_a_line_is_replaced_and_one_that_names_a_kernel_is_not() -> None:
    text = "def forward(self, x):\n    scores = torch.topk(values, k)\n    a_kernel_with_a_very_long_name_of_its_own\n"
    quotes = Quotes(text)
    assert quotes.without("here is scores = torch.topk(values,  k) again", "ours") == "ours"
    assert quotes.without("it has forward(self, x): scores = torch.topk( in it", "ours") == "ours"
    named = "launches a_kernel_with_a_very_long_name_of_its_own twice"
    assert quotes.without(named, "ours") == named
    assert (
        Quotes(text, allowed=True).without("scores = torch.topk(values, k)", "ours") == "scores = torch.topk(values, k)"
    )
    assert (
        quotes.without("torch.topk(values, k) scores = torch.topk(values, k)", "scores = torch.topk(values, k)") == ""
    )


def test_a_solution_in_a_page_is_read_as_it_was_written() -> None:
    code = '<pre><code class="x">a &lt; b &amp;&amp; &#39;c&#39;\n</code></pre>'
    page = f'<div class="tab-pane" id="tab-solution">{code}\n</div>'
    assert pane(page) == "a < b && 'c'\n"
    assert pane(page.replace("tab-solution", "tab-other")) is None
    assert pane('<div class="tab-pane" id="tab-solution">' * 200_000) is None


def test_scores_and_models_come_from_details_and_leaderboards_too(tmp_path: Path) -> None:
    top = predecessor(tmp_path / "site", {run(1): (HONEST, ""), run(2): (HONEST, "")})
    details = top / "public/data/rundetail/h100"
    details.mkdir(parents=True)
    (details / f"{run(1)}.json").write_text(
        json.dumps({"model": "one", "peak_fraction": 0.5, "problem": "05_topk_bitonic"})
    )
    board = {"rows": [{"model": "two", "cells": [{"run_id": run(2), "peak_fraction": 0.125}]}]}
    (top / "benchmarks/hard/results/leaderboard.json").write_text(json.dumps(board))
    cells = by_run(audited(top, "-o", tmp_path))
    assert [(cells[run(n)].theirs.model, cells[run(n)].theirs.score) for n in (1, 2)] == [("one", 0.5), ("two", 0.125)]
    assert cells[run(1)].board == "h100"
    assert Theirs().score is None


def test_grading_is_asked_for_strictly_in_a_sandbox_and_leaves_no_bundle(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from harness.audit import grading

    asked: list[Any] = []

    def fails(request: Any) -> Any:
        asked.append(request)
        assert request.submission.read_text() in (HONEST, LEAK)
        raise OSError(2, "is not here", "a tool")

    monkeypatch.setattr(grading, "grade", fails)
    (tmp_path / "only.txt").write_text(f"{run(1)}\n{run(4)}\n")
    made = audited(whole, "--only", tmp_path / "only.txt", "--grade", "--target", "cpu", "-o", tmp_path / "out")
    assert [(request.strict, request.problem) for request in asked] == [(True, "05_topk_bitonic")] * 2
    assert all(request.sandbox in ("bubblewrap", "landlock") and not request.submission.exists() for request in asked)
    assert {cell.grade.outcome for cell in made.cells if cell.grade} == {"not graded"}
    record = SandboxRecord("plain", 0, True)
    monkeypatch.setattr(grading, "choose", lambda **_: type("Sandbox", (), {"record": record}))
    with pytest.raises(AuditError, match="needs a sandbox"):
        audited(whole, "--only", tmp_path / "only.txt", "--grade", "--target", "cpu", "-o", tmp_path / "out")


def test_the_options_that_the_page_names_exist() -> None:
    import re

    from harness.audit.cli import parser

    usage = parser().format_help() + (ROOT / "bench/audit.py").read_text()  # the page names options of both
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / "docs/audit.md").read_text())) - {"--strict"}
    assert named and sorted(option for option in named if option not in usage) == []


def test_kbh_hands_the_word_audit_on_to_the_audit() -> None:
    from kbh_lint.cli import kbh_main

    assert kbh_main(["audit", "--help"]) == 0
    assert kbh_main(["audit"]) == 2


def test_the_linter_starts_without_the_audit() -> None:
    script = "import sys, kbh_lint.cli as c; c.main(['--version']); print([m for m in sys.modules if 'harness' in m])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip().endswith("[]")
