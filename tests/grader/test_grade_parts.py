"""The parts of a grading by themselves: requests, the linter's process, stored builds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from toy import HONEST, solution, toy_problem

import kbh_lint
from grader.grading import linting
from grader.grading.linting import lint_snapshot
from grader.grading.request import GradeError, Request, identity, options_from_json, options_of, problem_files, versions
from grader.sandbox import builds
from grader.sandbox.builds import Builds, build_key
from grader.sandbox.snapshot import snapshot


def linted(folder: Path, text: str, *, target: str | None = None, **beside: str) -> linting.Linted:
    deck = folder / "deck"
    deck.mkdir()
    toy_problem(deck)
    for name, content in beside.items():
        (folder / f"{name}.py").write_text(content)
    return lint_snapshot(snapshot(solution(folder, text), folder / "submission"), "toy", target, deck)


def test_the_linter_reads_the_copy_that_runs_and_names_no_place_of_this_machine(tmp_path: Path) -> None:
    found = linted(tmp_path, HONEST)
    assert found.report.problem == "toy" and found.report.contract == "deck" and found.report.path == "solution.py"
    assert str(tmp_path).encode() not in found.data


def test_problems_without_a_hardware_file_are_linted_for_the_targets_of_the_project(
    tmp_path: Path,
) -> None:
    assert linted(tmp_path, HONEST, target="h200").report.target == "h200"


def test_a_sidecar_that_is_called_as_a_part_of_the_linter_is_read_and_never_run(tmp_path: Path) -> None:
    evil = "open('owned', 'w').write('x')"
    found = linted(tmp_path, "import kbh_lint, yaml\n" + HONEST, kbh_lint=evil, yaml=evil)
    assert (tmp_path / "submission" / "kbh_lint.py").is_file() and found.report.problem == "toy"
    assert not list(tmp_path.rglob("owned"))


def test_a_linter_that_cannot_work_ends_the_grading_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        linting, "_BOOT", "import sys; print('kbh-lint: error: the rules are gone', file=sys.stderr); sys.exit(2)"
    )
    with pytest.raises(GradeError, match="the linter cannot work: kbh-lint: error: the rules are gone"):
        linted(tmp_path, HONEST)


def test_options_survive_a_bundle_and_odd_ones_are_refused_by_name() -> None:
    request = Request(Path("x.py"), "05_topk_bitonic", strict=True, samples=7, sandbox="landlock", timeout=12.5)
    data = options_of(request)
    assert Request(Path("y.py"), **options_from_json(data)) == Request(
        Path("y.py"), "05_topk_bitonic", strict=True, samples=7, sandbox="landlock", timeout=12.5
    )
    odd: dict[str, object] = {"strict": 1, "sandbox": "none", "trials": "1", "samples": True, "timeout": None}
    for name, value in odd.items():
        with pytest.raises(GradeError, match=f"the option {name} of the bundle"):
            options_from_json({**data, name: value})
    for broken in ({}, None, {**data, "more": 1}):
        with pytest.raises(GradeError, match="does not hold the options"):
            options_from_json(broken)


def test_the_identity_moves_with_everything_that_decides_a_result_and_with_nothing_else(tmp_path: Path) -> None:
    base = Request(tmp_path / "x.py", "toy")

    def name(request: Request = base, sha: str = "a", files: str = "b", target: str = "cpu", torch: str = "2") -> str:
        return identity(request, sha, {"problem.yaml": files}, target, {"torch": torch})

    elsewhere = Request(Path("/other/y.py"), "toy", out=tmp_path, problems_dir=tmp_path, fresh=True)
    assert name(elsewhere) == name()
    others = [name(Request(base.submission, "toy", strict=True)), name(Request(base.submission, "toy", samples=5)),
              name(sha="c"), name(files="c"), name(target="h200"), name(torch="3")]  # fmt: skip
    assert len({*others, name()}) == len(others) + 1


def test_every_file_that_decides_what_is_right_is_hashed_and_versions_are_known(tmp_path: Path) -> None:
    problem = toy_problem(tmp_path)
    (tmp_path / "hardware.yaml").write_text("{}")
    first = problem_files(problem, tmp_path / "hardware.yaml")
    assert set(first) == {"problem.yaml", "reference.py", "cases.py", "hardware.yaml"}
    (tmp_path / "toy" / "cases.py").write_text("# other")
    second = problem_files(problem, tmp_path / "hardware.yaml")
    assert {name for name in first if first[name] != second[name]} == {"cases.py"}
    assert {"kbh", "python", "kernel", "torch", "triton"} <= set(versions("cpu"))


# --- builds ------------------------------------------------------------------------------------------------


def made(store: Builds, key: str, text: str = "cubin") -> Path:
    folder = store.begin(key)
    folder.mkdir()
    (folder / "kernel").write_text(text)
    return store.keep(key, folder)


def test_a_build_is_found_again_only_by_the_same_submission_problem_target_and_versions(tmp_path: Path) -> None:
    keys = {build_key(s, (p, t), {"torch": v}) for s in "ab" for p in "cd" for t in "ef" for v in "gh"}
    assert len(keys) == 16
    store, key = Builds(tmp_path / "store", tmp_path / "spare"), min(keys)
    assert store.find(key) is None
    assert (made(store, key) / "kernel").read_text() == "cubin"
    assert Builds(tmp_path / "store", tmp_path / "spare").find(key) == tmp_path / "store" / key
    assert store.find(max(keys)) is None


def test_of_two_builds_at_once_one_is_kept_and_an_unfinished_one_is_never_found(tmp_path: Path) -> None:
    store = Builds(tmp_path / "store", tmp_path / "spare")
    unfinished = store.begin("k" * 64)
    unfinished.mkdir()
    assert store.find("k" * 64) is None
    first = made(store, "k" * 64, "first")
    assert made(store, "k" * 64, "second") == first and (first / "kernel").read_text() == "first"
    assert unfinished.is_dir()


def test_builds_nobody_uses_and_parts_of_dead_gradings_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds, "MOST_BUILDS", 3)
    store = Builds(tmp_path / "store", tmp_path / "spare")
    part = store.begin("p" * 64)
    part.mkdir()
    os.utime(part, (1.0, 1.0))
    for number in range(3):
        os.utime(made(store, str(number) * 64), (1e9 + number, 1e9 + number))
    assert not part.exists() and store.find("0" * 64) is not None
    made(store, "4" * 64)
    assert {path.name[0] for path in (tmp_path / "store").iterdir()} == {"0", "2", "4"}


def test_builds_take_so_many_bytes_at_most_and_the_newest_stays_however_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "MOST_BYTES", 10)
    store = Builds(tmp_path / "store", tmp_path / "spare")
    for number, size in enumerate((5, 4, 5, 20)):
        os.utime(made(store, str(number) * 64, "x" * size), (1e9 + number, 1e9 + number))
        found = {path.name[0] for path in (tmp_path / "store").iterdir()}
        assert found == [{"0"}, {"0", "1"}, {"1", "2"}, {"3"}][number]


def test_without_a_place_for_builds_they_go_with_the_scratch_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Builds(tmp_path / "file" / "store", tmp_path / "spare")
    assert made(store, "k" * 64).parent == tmp_path / "spare"


ERRORS = """print('{"files": [], "errors": ["solution.py: it took longer"]}'); raise SystemExit(2)"""


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("import os; os.kill(os.getpid(), 11)", r"crashed \(SIGSEGV\), which says nothing of the submission"),
        (ERRORS, "gave out: solution.py: it took longer, which says nothing"),
        ("import time; time.sleep(60)", "did not come to an end within 0.2 s, which says nothing"),
    ],
)
def test_a_linter_that_gives_out_is_a_fault_of_ours_and_the_file_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, words: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(linting, "_BOOT", ending)
    if "sleep" in ending:
        monkeypatch.setattr(linting, "LIMIT", 0.2)
    with pytest.raises(GradeError, match=words):
        linted(tmp_path, HONEST)
    (kept,) = (tmp_path / "cache" / "kbh" / "crashes").glob("*/solution.py")
    assert kept.read_text() == HONEST


def test_a_linter_that_was_loaded_before_says_the_same_and_one_that_is_not_wanted_is_ended(tmp_path: Path) -> None:
    cold = linted(tmp_path, HONEST)
    taken = snapshot(solution(tmp_path, HONEST), tmp_path / "again")
    warm = linting.begin_linter(taken)
    assert lint_snapshot(taken, "toy", None, tmp_path / "deck", warm) == cold
    assert warm.returncode == 0
    unwanted = linting.begin_linter(taken)
    linting.end_linter(unwanted)
    assert unwanted.returncode == -9


def test_the_linter_is_found_where_it_is_the_current_folder_and_a_crash_says_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = snapshot(solution(tmp_path, HONEST), tmp_path / "copy")
    root = str(Path(kbh_lint.__file__).parents[1])
    monkeypatch.setattr(sys, "path", ["", *(path for path in sys.path if path not in ("", root))])
    monkeypatch.chdir(root)
    linter = linting.begin_linter(taken)
    said, told = linter.communicate(b'["--version"]\n', 60)
    assert linter.returncode == 0 and said.startswith(b"kbh-lint"), told
    monkeypatch.setattr(linting, "_BOOT", "raise SystemExit('no room')")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(GradeError, match=r"crashed \(exit status 1: no room\)"):
        lint_snapshot(taken, "01_fp8_gemm", None)
