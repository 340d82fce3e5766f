"""`kbh problems`: what people type, and what they get."""

from __future__ import annotations

import argparse
import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.authoring import run, show
from grader.cli.problems import main, parser
from kbh_lint.base import paths
from kbh_lint.cli import kbh_main

pytestmark = pytest.mark.usefixtures("warm")

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "tests" / "authors" / "base" / "11_bf16_gemm"
COMMANDS = ("new", "list", "show", "render", "ceilings", "check", "solutions", "flops", "tolerance", "mutate", "verify")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A copy of the small problem, where files may be written."""
    folder = tmp_path / "deck" / BASE.name
    shutil.copytree(BASE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"kbh problems {name}" in text and "example:" in text


def test_help_names_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert kbh_main(["problems", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS) and "exit codes" in text


def test_help_and_lists_need_no_torch() -> None:
    code = "import sys; from grader.cli.problems import main; main(['list']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "01_fp8_gemm" in done.stdout


def test_a_command_that_needs_the_extra_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("grader.authoring.common.find_spec", lambda name: None if name == "torch" else object())
    assert main(["mutate", "01_fp8_gemm"]) == 2
    assert "needs torch; in a checkout of kbh: pip install '.[grade]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["show", "03_paged"], "did you mean 03_paged_attention?"),
        (["show", "zzz"], "there is no problem `zzz`; see `list`"),
        (["show", "08_metal_lightning_attention", "--honest"], "is deferred"),
        (["check", "01_fp8_gemm", "nothing.py"], "there is no file nothing.py"),
        (["ceilings", "--target", "abacus"], "there is no target `abacus`"),
        (["new", "Bad Name"], "must be two digits"),
        (["--problems-dir", "nowhere", "list"], "there are no problems in nowhere"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_two(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1 and "Traceback" not in said


def test_list_and_show_are_data_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["id"] for entry in listed if entry["status"] != "deferred"][0] == "01_fp8_gemm"
    assert main(["show", "03_paged_attention", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["decoys"]) >= 4 and shown["honest"]


def test_ceilings_are_data_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ceilings", "01_fp8_gemm", "--target", "h200", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["binding"] for row in rows] == ["compute", "compute", "memory", "compute"]


def test_an_honest_solution_for_this_machine_is_a_path_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "04_kahan_softmax", "--honest", "--target", "cpu"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.is_file() and path.is_relative_to(paths.problems_dir())


def test_a_problem_without_a_solution_for_a_cpu_says_why(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = base / "solutions.yaml"
    file.write_text(file.read_text().replace("cpu: interpreter", "cpu: it needs wgmma"))
    assert main(["show", str(base), "--honest", "--target", "cpu"]) == 2
    assert "can be checked on a CPU: it needs wgmma" in capsys.readouterr().err


def test_a_new_problem_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "12_row_gain", "--dir", str(tmp_path)]) == 0
    assert "kbh problems mutate" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "12_row_gain").iterdir()}
    assert names >= {
        "problem.yaml",
        "reference.py",
        "legal.py",
        "cases.py",
        "mutants.py",
        "prompt.md",
        "solutions.yaml",
        "honest",
        "decoys",
    }
    assert main(["new", "12_row_gain", "--dir", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_a_new_problem_lints_with_only_what_is_left_to_write(tmp_path: Path) -> None:
    import kbh_lint

    main(["new", "12_row_gain", "--dir", str(tmp_path)])
    report = kbh_lint.lint([tmp_path], problems_dir=paths.problems_dir())
    left = {finding.rule for file in report.files for finding in file.findings}
    assert left == {"KBH902", "KBH914", "KBH920"}


def test_a_rendered_prompt_follows_problem_yaml(base: Path) -> None:
    file = base / "problem.yaml"
    file.write_text(file.read_text().replace("M: 8192", "M: 9216"))
    assert main(["render", str(base)]) == 0
    assert "9216" in (base / "prompt.md").read_text()


# --- with torch ----------------------------------------------------------------------------------------------


def test_an_honest_solution_passes_and_a_wrong_one_shows_its_worst_element(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    wrong = base / "decoys" / "wrong.py"
    wrong.write_text((base / "decoys" / "library.py").read_text().replace("x, self.weight)", "x * 1.1, self.weight)"))
    common = ["check", str(base), "--device", "cpu", "--seed", "42"]
    assert main([*common, str(base / "decoys" / "library.py")]) == 0
    assert "passed" in capsys.readouterr().out
    assert main([*common, str(wrong)]) == 1
    said = capsys.readouterr().out
    assert "WRONG" in said and "worst" in said and "failed" in said


def test_a_check_is_data_too_and_repeats_with_its_seed(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    words = [
        "check",
        str(base),
        str(base / "decoys" / "library.py"),
        "--device",
        "cpu",
        "--seed",
        "7",
        "--format",
        "json",
    ]
    runs = []
    for _ in range(2):
        assert main(words) == 0
        (report,) = json.loads(capsys.readouterr().out)
        runs.append([(case["case"], case["error"]) for case in report["cases"]])
        assert report["outcome"] == "passed"
    assert runs[0] == runs[1]


def test_mutants_are_listed_with_the_case_that_kills_them(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert main(["mutate", str(base), "--seed", "1", "--only", "zeros", "--only", "last-k"]) == 0
    said = capsys.readouterr().out
    assert "zeros" in said and "last-k" in said and "100%" in said


def test_a_workspace_checks_itself_on_the_public_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["render", "05_topk_bitonic", "--out", str(tmp_path / "ws")]) == 0
    asked: list[list[str]] = []
    monkeypatch.setattr("grader.cli.problems.main", lambda words: asked.append(words) or 0)
    monkeypatch.setattr(sys, "argv", ["check.py", "--device", "cpu"])
    with pytest.raises(SystemExit) as done:
        runpy.run_path(str(tmp_path / "ws" / "check.py"), run_name="__main__")
    assert done.value.code == 0
    seeds = ["--seed", "42", "--seed", "123", "--seed", "456"]
    assert asked == [["check", "05_topk_bitonic", "solution.py", *seeds, "--device", "cpu"]]
    parser().parse_args(asked[0])


def test_a_decoy_with_wrong_results_is_told(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    honest = "honest:\n  - {file: decoys/library.py, language: triton, cpu: native}\n"
    decoy = (
        "decoys:\n  - {file: decoys/zeros.py, rule: KBH110, promise: authored-compute, idea: Nothing is computed.}\n"
    )
    (base / "solutions.yaml").write_text(honest + decoy)
    (base / "decoys" / "zeros.py").write_text(
        (base / "decoys" / "library.py").read_text().replace("x, self", "x * 0, self")
    )
    assert main(["solutions", str(base), "--device", "cpu"]) == 1
    assert "decoys/zeros.py on cpu, reduced shapes: failed" in capsys.readouterr().out


def test_verify_takes_the_options_of_its_module() -> None:
    """They are repeated here so that --help needs no torch."""
    pytest.importorskip("torch")
    from grader.authoring import verify

    own = argparse.ArgumentParser()
    verify.add_arguments(own)
    words = [
        "05_topk_bitonic",
        "--device",
        "cuda",
        "--write",
        "--mutants",
        "--jobs",
        "2",
        "--timeout",
        "9",
        "--out",
        "x",
    ]
    for argv in ([], words):
        given = vars(parser().parse_args(["verify", *argv]))
        assert vars(own.parse_args(argv)).items() <= given.items()


def test_every_command_is_reachable() -> None:
    choices = next(action.choices for action in parser()._actions if action.dest == "command")
    assert set(choices or ()) == set(COMMANDS) == {*show.COMMANDS, *run.COMMANDS}
