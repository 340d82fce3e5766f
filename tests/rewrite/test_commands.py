"""The commands `kbh-lint evade` and `kbh-lint leakify` as people use them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rewritten import CUDA, HOST

from kbh_lint.cli import kbh_main, main
from kbh_lint.rewrite.compose import evasions
from kbh_lint.rewrite.leaks.all_leaks import leaks
from kbh_lint.rewrite.program import Program, read_program

ROOT = Path(__file__).parents[2]


@pytest.fixture
def solution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "solution.py"
    path.write_text(HOST, encoding="utf-8")
    return path


def test_the_list_names_every_rewrite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evade", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(evasions())
    assert main(["leakify", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(leaks())


def test_a_seed_draws_the_same_rewrites_again(solution: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for seed in ("5", "5", "6"):
        assert main(["evade", "--seed", seed, str(solution)]) == 0
        said.append(capsys.readouterr())
    assert said[0] == said[1] != said[2]
    assert said[0].out != HOST
    assert "applied: " in said[0].err


def test_named_rewrites_are_applied_in_their_order(solution: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evade", "--only", "walrus", "--only", "rename-locals", str(solution)]) == 0
    captured = capsys.readouterr()
    assert captured.err == "applied: walrus, rename-locals\n"
    assert ":=" in captured.out


def test_a_sidecar_is_written_beside_the_solution(tmp_path: Path) -> None:
    source = tmp_path / "in.py"
    source.write_text(f'SOURCE = r"""{CUDA}"""\n', encoding="utf-8")
    out = tmp_path / "out" / "solution.py"
    out.parent.mkdir()
    assert main(["evade", "--only", "text-file", "-o", str(out), str(source)]) == 0
    (sidecar,) = out.parent.glob("*.cu")
    assert sidecar.read_text(encoding="utf-8") == CUDA
    assert sidecar.name in out.read_text(encoding="utf-8")


def test_a_program_with_sidecars_survives_as_one_text() -> None:
    program = Program("import torch\n", {"a.cu": "int x;\n", "b.py": "y = 1\n"})
    assert read_program(program.bundle(), "solution.py") == program


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "cuda-rename"], "does not apply"),
        (["--only", "no-such"], "there is no rewrite 'no-such'"),
        (["--seed", "-1"], "is not a number from 0"),
        (["--check", "--goal", "2"], "is not a share"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(
    words: list[str], sentence: str, solution: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evade", *words, str(solution)]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert "Traceback" not in captured.err


def test_a_path_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evade", "no/such.py"]) == 2
    assert "no/such.py: cannot be read (no such file or directory)" in capsys.readouterr().err


def test_a_leak_needs_a_name(solution: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leakify", str(solution)]) == 2
    assert "--only NAME" in capsys.readouterr().err


def test_a_file_of_a_command_s_name_is_linted_by_its_path(solution: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("evade", "leakify"):
        (solution.parent / name).write_text(HOST, encoding="utf-8")
        assert main([f"./{name}", "--no-cache"]) == 0
        assert name in capsys.readouterr().out
        assert kbh_main([name, "--list"]) == main([name, "--list"]) == 0
        assert "usage" not in capsys.readouterr().out


def test_linting_does_not_load_libcst(solution: Path) -> None:
    code = (
        "import sys; from kbh_lint.cli import main; main(['--no-cache', 'solution.py']); print('libcst' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=solution.parent, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert run.stdout.splitlines()[-1] == "False"


def test_without_libcst_the_extra_is_named(
    solution: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("libcst", "kbh_lint.rewrite"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "libcst", None)
    assert main(["evade", str(solution)]) == 2
    assert "pip install '.[rewrite]'" in capsys.readouterr().err
