"""The judge for agents on a GPU: an honest CUDA kernel is checked and timed there, and compiled once for both."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("aiohttp")

import torch
from judging_kit import Judge, body

from harness.judging.pool import JudgePool
from kbh_lint.base import paths
from kbh_lint.problems import load_deck


@pytest.mark.gpu(alone=True)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")
def test_a_kernel_is_checked_and_timed_on_the_gpu_and_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    problem = load_deck(paths.problems_dir())["05_topk_bitonic"]
    text = (Path(problem.path).parent / "honest" / "cuda.py").read_text()

    async def asked() -> tuple[Judge, list[dict[str, Any]]]:
        pool = JudgePool(workers=1)
        judge = await Judge.start(problem, tmp_path / "run", pool, device="cuda", target="auto", lint=True)
        found = [await judge.ask(body(text), what) for what in ("check", "benchmark")]
        await judge.close()
        await pool.close()
        return judge, found

    judge, (check, benchmark) = asyncio.run(asked())
    assert check["code"] == 0 and "full shapes: passed" in check["text"], check["text"]
    assert benchmark["code"] == 0 and 0 < benchmark["score"] < 1.1, benchmark["text"]
    assert set(benchmark["shapes"]) == {shape.label for shape in problem.shapes}
    builds = [entry.name for entry in (tmp_path / "cache/kbh/builds").iterdir() if entry.is_dir()]
    assert len(builds) == 1, f"the build of the check serves the benchmark: {builds}"
    assert [use.outcome for use in judge.uses] == ["passed", "passed"]
