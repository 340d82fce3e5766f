"""CUTLASS's headers in a submission's sandbox, and packages that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy import HONEST, solution, toy_problem

from grader.grading.check import check_submission
from grader.judge.native import cannot_run
from grader.sandbox import SandboxError, choose, cutlass
from grader.sandbox.cutlass import CutlassError
from grader.sandbox.snapshot import snapshot

USES = """import subprocess
text = "#include <cutlass/cutlass.h>\\n#include <cutlass/util/host.h>\\nMAJOR_IS CUTLASS_MAJOR HOST_IS HOST"
done = subprocess.run(["g++", "-x", "c++", "-E", "-P", "-"], input=text, capture_output=True, text=True)
assert done.stdout.split() == ["MAJOR_IS", "4", "HOST_IS", "7"], done.stdout + done.stderr
try:
    open(WHERE + "/include/cutlass/cutlass.h", "a")
except OSError:
    pass
else:
    raise AssertionError("its headers can be written")
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in cutlass.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "cutlass checkout"
    (folder / "include" / "cutlass").mkdir(parents=True)
    (folder / "tools" / "util" / "include" / "cutlass" / "util").mkdir(parents=True)
    (folder / "include" / "cutlass" / "cutlass.h").write_text("#include <cutlass/version.h>\n")
    text = "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n  #define CUTLASS_PATCH 1\n"
    (folder / "include" / "cutlass" / "version.h").write_text(text)
    (folder / "tools" / "util" / "include" / "cutlass" / "util" / "host.h").write_text("#define HOST 7\n")
    return folder


def test_headers_are_on_the_include_path_of_the_sandbox_and_cannot_be_written(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        sandbox = choose(device="cpu", wanted="bubblewrap")
    except SandboxError as error:
        pytest.skip(f"there is no such sandbox here: {error}")
    monkeypatch.setenv("CUTLASS_DIR", str(checkout))
    file = solution(tmp_path, USES.replace("WHERE", repr(str(checkout))) + HONEST)
    report = check_submission(toy_problem(tmp_path), file, master=bytes(32), sandbox=sandbox)
    assert report.outcome == "passed", f"{report.message} {report.detail}"


def test_a_folder_is_known_by_its_headers_and_one_without_them_is_refused(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cutlass.find() is None
    monkeypatch.setenv("CUTLASS_PATH", str(checkout / "include"))
    found = cutlass.find()
    assert found is not None and found.version == "4.2.1" and found.folders[0] == checkout / "include"
    assert found.variables({"CPLUS_INCLUDE_PATH": "/other"})["CPLUS_INCLUDE_PATH"].endswith(":/other")
    assert found.variables({})["CUTLASS_PATH"] == str(checkout)
    cutlass.use(checkout)
    assert cutlass.find() == found
    with pytest.raises(CutlassError, match="holds no CUTLASS"):
        cutlass.use(tmp_path)
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path))
    with pytest.raises(CutlassError, match="CUTLASS_PATH names a folder that holds no CUTLASS"):
        cutlass.find()


def test_the_package_of_nvidia_is_found_without_being_imported(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "cutlass_library"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('it was imported')\n")
    checkout.rename(package / "source")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = cutlass.find()
    assert found is not None and found.version == "4.2.1"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("import fla.ops.kda\nfrom flash_mla_not_here import run\n", "fla, flash_mla_not_here"),
        ("import torch, triton.language as tl, os.path, numpy\n", ""),
        ("try:\n    import fla\nexcept ImportError:\n    fla = None\n", ""),
        ("if False:\n    import fla\ndef helper():\n    import fla\n", ""),
        ("import fla(\n", ""),
        ("import helper_beside\n", "fla"),
    ],
)
def test_what_is_imported_in_any_case_and_is_not_there_is_named(text: str, missing: str, tmp_path: Path) -> None:
    (tmp_path / "helper_beside.py").write_text("import helper_beside\nfrom fla import ops\n")
    taken = snapshot(solution(tmp_path, text), tmp_path / "taken")
    said = f"it cannot be graded here: it imports {missing}, which is not installed" if missing else ""
    assert cannot_run(taken, "cuda") == cannot_run(taken, "cpu") == said


def test_a_submission_that_imports_what_is_absent_is_not_started(tmp_path: Path) -> None:
    report = check_submission(toy_problem(tmp_path), solution(tmp_path, "import fla\n" + HONEST), master=bytes(32))
    assert report.outcome == "not-checkable" and "it imports fla" in report.message
