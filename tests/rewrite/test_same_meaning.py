"""Rewritten programs are run: they compute what the originals compute."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rewritten import CUDA, HOST, TRITON

from kbh_lint.rewrite.compose import apply, compose, drawn, evasions
from kbh_lint.rewrite.cuda.text import tokens
from kbh_lint.rewrite.program import NotApplicable, Program

ROOT = Path(__file__).parents[2]
REWRITES = list(evasions().values())
# Triton's interpreter (not its compiler) knows `tl.constexpr` only by that spelling.
NOT_INTERPRETED = "alias-imports"
LOADED = f'import torch\n\nSOURCE = r"""{CUDA}"""\n'


def written(program: Program, folder: Path) -> Path:
    """The solution's path, its sidecars beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in program.sidecars.items():
        (folder / name).write_text(text, encoding="utf-8")
    path = folder / "solution.py"
    path.write_text(program.main, encoding="utf-8")
    return path


def loaded(program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of a program."""
    path = written(program, folder)
    monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location("solution_under_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def host_result(program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    import torch

    x = (torch.arange(6 * 32, dtype=torch.float64).reshape(6, 32) / 77).to(torch.float16)
    with torch.no_grad():
        model = loaded(program, folder, monkeypatch).Model(32, 12)
        assert set(model.state_dict()) == {"weight", "bias"}
        return model(x)


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda rewrite: rewrite.name)
def test_a_rewritten_host_program_computes_the_same(
    rewrite: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    try:
        new = apply(rewrite, Program(HOST), 3)
    except NotApplicable:
        pytest.skip("it does not apply to a host program")
    before = host_result(Program(HOST), tmp_path / "before", monkeypatch)
    assert torch.equal(host_result(new, tmp_path / "after", monkeypatch), before)


@pytest.mark.parametrize("seed", range(8))
def test_a_composition_of_rewrites_computes_the_same(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    new, names = compose(drawn(seed, 16), Program(HOST), seed)
    assert len(names) > 3
    before = host_result(Program(HOST), tmp_path / "before", monkeypatch)
    assert torch.equal(host_result(new, tmp_path / "after", monkeypatch), before), names


def test_rewritten_triton_programs_compute_the_same_in_the_interpreter(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    paths = {"original": str(written(Program(TRITON), tmp_path / "original"))}
    for rewrite in REWRITES:
        try:
            program = apply(rewrite, Program(TRITON), 5)
        except NotApplicable:
            continue
        if rewrite.name != NOT_INTERPRETED:
            paths[rewrite.name] = str(written(program, tmp_path / rewrite.name))
    for seed in range(4):
        chosen = [rewrite for rewrite in drawn(seed, 10) if rewrite.name != NOT_INTERPRETED]
        program, _ = compose(chosen, Program(TRITON), seed)
        paths[f"composed-{seed}"] = str(written(program, tmp_path / f"composed-{seed}"))
    assert len(paths) > 35
    run = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "run_triton.py")],
        input=json.dumps(paths), capture_output=True, text=True, cwd=ROOT, timeout=120,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert {name: said for name, said in found.items() if said != "same"} == {}
    assert set(found) == set(paths)


@pytest.mark.parametrize(
    "name", [r.name for r in REWRITES if r.name.startswith("cuda-") or r.name.endswith(("-text", "-file"))]
)
def test_rewritten_device_code_computes_the_same_as_c_plus_plus(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        new = apply(evasions()[name], Program(LOADED.replace("import torch\n", "")), 4)
    except NotApplicable:
        pytest.skip("it does not apply to this text")
    assert printed(loaded(new, tmp_path, monkeypatch).SOURCE) == printed(CUDA)


@cache
def printed(source: str) -> bytes:
    """What a C++ program prints."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.cpp"
        path.write_text(source, encoding="utf-8")
        subprocess.run([compiler, "-std=c++17", "-w", "-o", f"{path}.out", str(path)], check=True, timeout=60)
        said = subprocess.run([f"{path}.out"], capture_output=True, check=True, timeout=10).stdout
    assert said.count(b" ") == 3
    return said


@pytest.mark.parametrize("name", ["join-text", "format-text", "replace-text", "concatenate-text", "text-file"])
def test_a_text_that_is_made_elsewhere_is_the_same_text(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(LOADED.replace("import torch\n", ""))
    assert loaded(apply(evasions()[name], program, 9), tmp_path, monkeypatch).SOURCE == CUDA


def test_a_method_is_called_on_the_whole_of_a_concatenated_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = apply(evasions()["concatenate-text"], Program(LOADED.rstrip() + '.replace("TILE", "SIZE")\n'), 3)
    said = loaded(new, tmp_path, monkeypatch).SOURCE
    assert said == CUDA.replace("TILE", "SIZE")


def test_a_compact_text_has_the_same_tokens() -> None:
    program = Program(LOADED.replace("import torch\n", ""))
    new = apply(evasions()["cuda-compact"], program, 0)

    def solid(text: str) -> list[str]:
        return [t.text.strip() for t in tokens(text) if t.kind not in ("space", "comment")]

    scope: dict[str, Any] = {}
    exec(new.main, scope)
    assert solid(scope["SOURCE"]) == solid(CUDA)
    assert "comment" not in scope["SOURCE"]


def test_every_rewrite_applies_to_one_of_the_programs() -> None:
    extension = (
        "import torch\nfrom torch.utils.cpp_extension import load_inline\n\n"
        f'library = load_inline("a", cpp_sources="", cuda_sources=r"""{CUDA}""")\n\n\n'
        "class Model(torch.nn.Module):\n    def forward(self, x):\n        return library.run(x.matmul(x), x)\n"
    )
    launched = LOADED.replace("accumulate(source, target, 64)", "accumulate<<<1, 1>>>(source, target, 64)").replace(
        "value / two", "__bfloat162float(value) / two"
    )
    plain = re.sub(r"#define __(?:global|device)__.*\n", "", launched)
    left = []
    for rewrite in REWRITES:
        for text in (HOST, TRITON, LOADED, extension, launched, plain):
            try:
                apply(rewrite, Program(text), 1)
                break
            except NotApplicable:
                continue
        else:
            left.append(rewrite.name)
    assert left == [], "they apply to no program of tests/rewrite/rewritten.py: put what they change into one there"
    assert len(REWRITES) >= 20
