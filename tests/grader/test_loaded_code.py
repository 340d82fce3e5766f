"""Which code a launch had, from a listing that has it several times; and where nothing can be counted at all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader import sandbox
from grader.record.cell import SandboxRecord
from grader.record.sandboxes import TRAITS
from grader.sandbox import SandboxError, choose
from grader.silicon import passes
from grader.silicon.loaded import Block, blocks, one_each
from grader.silicon.ncu import Ncu, Unavailable
from grader.silicon.tools import ToolError


def listing(*kernels: str) -> list[Block]:
    """A listing with a kernel for each word: its name, and an instruction that tells versions of it apart."""
    rows = [
        row for word in kernels for row in (f'"Kernel Name","{word[0]}"', f'"0x7f3de77a3400","{word[1:] or "NOP"}"')
    ]
    return list(blocks("\n".join(rows)))


@pytest.mark.parametrize(
    ("listed", "launched", "taken"),
    [
        (["a", "b"], "ab", ["a", "b"]),
        (["a"] * 3 + ["b"] * 3 + ["a"] * 3, "aba", ["a", "b", "a"]),  # a module of three functions
        (["a"] * 6 + ["b"], "aab", ["a", "a", "b"]),
        (["aX", "aX", "aY", "aY"], "aa", ["aX", "aY"]),  # one name, two versions
        ([], "", []),
    ],
)
def test_a_launch_has_the_code_that_is_listed_for_it_once_for_each_function_of_its_module(
    listed: list[str], launched: str, taken: list[str]
) -> None:
    assert one_each(listing(*listed), launched) == listing(*taken)


@pytest.mark.parametrize(
    ("listed", "launched", "why"),
    [
        (["a", "c"], "ab", "of other kernels"),
        (["a"], "ab", "of other kernels"),
        (["b", "a"], "ab", "of other kernels"),
        (["a", "a", "a"], "aa", "not known which code of a"),
        (["a"], "aa", "not known which code of a"),
        (["aX", "aY"], "a", "not known which code of a"),
        (["aX", "aX", "aX", "aY"], "aa", "not known which code of a"),
    ],
)
def test_a_listing_that_leaves_it_open_which_code_a_launch_had_is_refused(
    listed: list[str], launched: str, why: str
) -> None:
    with pytest.raises(ToolError, match=why):
        one_each(listing(*listed), launched)


def test_where_the_sandbox_gives_no_network_of_its_own_counters_are_missing_and_nobody_is_accused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(passes, "find_ncu", lambda: Ncu(Path("ncu"), "2025.3"))
    sandbox: Any = SimpleNamespace(record=SandboxRecord("landlock", 7, False))
    nothing: Any = None
    bench = passes.Bench(
        nothing, nothing, nothing, "cuda", "full", nothing, sandbox, lambda: tmp_path, None, str, lambda said: None
    )
    with pytest.raises(Unavailable, match="Landlock does not give"):
        passes.count(bench, ())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [kind for kind, row in TRAITS.items() if row.closed])
def test_a_sandbox_in_which_cuda_does_not_start_is_none_for_a_gpu_and_the_reason_is_told(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        choose(device="cpu", wanted=kind)
    except SandboxError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(sandbox, "PROBE", sandbox.PROBE.replace('ctypes.CDLL("libcuda.so.1").cuInit(0)', "304"))
    sandbox._CHOSEN.clear()
    try:
        with pytest.raises(SandboxError, match=rf"no {kind}: .*CUDA does not start in it, cuInit gives 304"):
            choose(device="cuda", wanted=kind)
    finally:
        sandbox._CHOSEN.clear()
