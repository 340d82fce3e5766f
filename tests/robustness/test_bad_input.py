"""Bad input through the command line with the real engine: a sentence each, the other files still linted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HONEST = (ROOT / "tests/idioms/fp8/triton_dot.py").read_text(encoding="utf-8")
LEAK = HONEST.replace("tl.dot(a, b, acc)", "tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), acc)")
FP8 = ("--problem", "01_fp8_gemm")


def kbh_lint(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """`kbh-lint ARGS` in `folder`, as it is installed, its cache beside the files."""
    code = f"import sys; sys.path[:1] = [{str(ROOT)!r}]; from kbh_lint.cli import main; raise SystemExit(main())"
    env = {**os.environ, "XDG_CACHE_HOME": str(folder.parent / "cache"), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *args], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )
    assert "Traceback" not in done.stderr + done.stdout
    return done


BAD = {
    "binary.py": (b"\x7fELF\0\0\1\2", "binary file"),
    "empty.py": (b"", "is empty"),
    "huge.py": (b"x = 1\n" * 3_500_000, "MB long"),
    "latin1.py": (b"name = '\xe9t\xe9'\n", "not UTF-8 (line 1"),
    "nul.py": (b"x = 1\ny = '\0'\n", "binary file"),
    "syntax.py": (b"import torch\ndef f(:\n    pass\n", "line 2 is not Python"),
    "tabs.py": (b"if 1:\n\tx = 1\n        y = 2\n", "is not Python"),
    "utf16.py": ("import torch\n".encode("utf-16"), "UTF-16"),
}


def test_bad_files_in_a_folder_cost_only_themselves(tmp_path: Path) -> None:
    top = tmp_path / "in"
    (top / "sub").mkdir(parents=True)
    for name, (data, _) in BAD.items():
        (top / name).write_bytes(data)
    (top / "honest.py").write_text(HONEST, encoding="utf-8")
    (top / "sub" / "leak.py").write_text(LEAK, encoding="utf-8")
    (top / "sub" / "loop").symlink_to(top)
    done = kbh_lint(top, ".", *FP8, "--output-format", "json")
    report = json.loads(done.stdout)
    files = {file["path"]: file for file in report["files"]}
    assert done.returncode == 2  # a leak was found, but not everything could be read
    assert files.pop("honest.py")["verdict"] == "clean"
    assert files.pop("sub/leak.py")["verdict"] == "rubric_leak"
    assert set(files) == set(BAD)
    for name, (_, words) in BAD.items():
        (hole,) = files[name]["unread"]
        assert files[name]["verdict"] == "unproven"
        assert words in hole["reason"] and "\n" not in hole["reason"], hole
    assert any("links back" in error for error in report["errors"])


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_alone_is_told_in_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BAD[name][0])
    done = kbh_lint(tmp_path, name, *FP8, "--output-format", "concise")
    is_source = name in ("syntax.py", "tabs.py")
    assert done.returncode == (0 if is_source else 2)
    assert (done.stdout + done.stderr).count(BAD[name][1]) == 1


def test_a_file_that_is_not_python_fails_only_a_strict_run(tmp_path: Path) -> None:
    (tmp_path / "syntax.py").write_bytes(BAD["syntax.py"][0])
    assert kbh_lint(tmp_path, "syntax.py", *FP8).returncode == 0
    assert kbh_lint(tmp_path, "syntax.py", *FP8, "--strict").returncode == 1


MISSING = """\
from pathlib import Path
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load, load_inline
ext = BUILD


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.empty(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.empty(N))

    def forward(self, x):
        return ext.run(x, self.weight, self.weight_scale)
"""


@pytest.mark.parametrize(
    "build",
    [
        'load(name="e", sources=["gone.cu"])',
        'load_inline("e", [""], [(Path(__file__).parent / "gone.cu").read_text()])',
        'load_inline("e", [""], [open("gone.cu").read()])',
    ],
)
def test_a_missing_sidecar_is_named(tmp_path: Path, build: str) -> None:
    (tmp_path / "solution.py").write_text(MISSING.replace("BUILD", build))
    done = kbh_lint(tmp_path, "solution.py", *FP8, "--output-format", "json")
    (file,) = json.loads(done.stdout)["files"]
    assert file["verdict"] == "unproven"
    assert any("gone.cu is not part of the submission" in hole["reason"] for hole in file["unread"]), file["unread"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("id: KBH101", "id: 101", "`id`"),
        ("verdict: rubric_leak", "verdict: bad", "`verdict`"),
        ("severity: error", "severity: [error", "KBH101-fp8-upcast-bf16-gemm.yaml:"),
        ("when:", "whenever:", "`when`"),
    ],
)
def test_a_malformed_rule_stops_the_run_with_file_and_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    shutil.copytree(ROOT / "rules", tmp_path / "rules")
    rule = tmp_path / "rules" / "KBH101-fp8-upcast-bf16-gemm.yaml"
    text = rule.read_text(encoding="utf-8")
    assert old in text
    rule.write_text(text.replace(old, new, 1), encoding="utf-8")
    (tmp_path / "solution.py").write_text(HONEST, encoding="utf-8")
    done = kbh_lint(tmp_path, "--rules-dir", "rules", "solution.py", *FP8)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("kbh-lint: error: rules/KBH101-fp8-upcast-bf16-gemm.yaml:") and words in line


@pytest.mark.parametrize(
    ("old", "new"), [("shapes:", "shapez:"), ("contracts:", "contracts: ["), ("quantifier: every", "quantifier: all")]
)
def test_a_malformed_problem_stops_the_run_with_file_and_line(tmp_path: Path, old: str, new: str) -> None:
    shutil.copytree(ROOT / "problems", tmp_path / "problems")
    problem = tmp_path / "problems" / "01_fp8_gemm" / "problem.yaml"
    text = problem.read_text(encoding="utf-8")
    assert old in text
    problem.write_text(text.replace(old, new, 1), encoding="utf-8")
    (tmp_path / "solution.py").write_text(HONEST, encoding="utf-8")
    done = kbh_lint(tmp_path, "--problems-dir", "problems", "solution.py", *FP8)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("kbh-lint: error: problems/01_fp8_gemm/problem.yaml:")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--problem", "fp8"), "there is no problem `fp8`"),
        (("--target", "gtx"), "there is no target `gtx`"),
        (("--rules-dir", "nowhere"), "nowhere"),
        (("--problems-dir", "nowhere", *FP8), "nowhere"),
    ],
)
def test_a_choice_that_does_not_exist_is_one_sentence(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    (tmp_path / "solution.py").write_text(HONEST, encoding="utf-8")
    done = kbh_lint(tmp_path, "solution.py", *options)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("kbh-lint: error:") and words in line


SPITEFUL = """\
import os, pathlib, sys
pathlib.Path("touched-by-import").write_text("x")
open("touched-by-open", "w").write("x")
os.system("touch touched-by-system")
if os.fork() == 0:
    pathlib.Path("touched-by-fork").write_text("x")
import helper
exec("open('touched-by-exec', 'w')")
__import__("helper").go()
sys.exit(7)
raise SystemExit(9)
"""


def test_linting_runs_nothing_of_a_submission_or_of_what_lies_beside_it(tmp_path: Path) -> None:
    names = ("helper", "torch", "triton", "yaml", "libcst", "conftest", "sitecustomize", "usercustomize", "kbh_lint")
    for name in names:
        (tmp_path / f"{name}.py").write_text("open('touched-by-neighbour', 'w').write(__name__)\ndef go(): pass\n")
    (tmp_path / "solution.py").write_text(SPITEFUL + HONEST)
    for jobs in ("1", "2"):
        done = kbh_lint(tmp_path, "solution.py", "helper.py", *FP8, "--jobs", jobs, "--no-cache")
        assert done.returncode in (0, 1), done.stderr
    expected = {"solution.py", *(f"{name}.py" for name in names)}
    assert {path.name for path in tmp_path.iterdir()} == expected
