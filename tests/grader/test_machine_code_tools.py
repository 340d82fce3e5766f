"""Disassemblers and readers are run bounded and alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not installed, which brings the disassembler")
from grader.sandbox import choose
from grader.silicon.tools import ToolError, find_tools, run_tool

BOX = choose(device="cpu")


def test_a_tool_that_fails_or_lasts_or_prints_too_much_ends_in_one_sentence() -> None:
    with pytest.raises(ToolError, match="ended with 1: no"):
        run_tool(["/bin/sh", "-c", "echo yes; echo no >&2; exit 1"], BOX)
    with pytest.raises(ToolError, match=r"within 0\.2 s"):
        run_tool(["/bin/sh", "-c", "while :; do :; done"], BOX, seconds=0.2)
    with pytest.raises(ToolError, match="printed more than 100000 bytes"):
        run_tool(["/bin/sh", "-c", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"], BOX, most=100_000)
    with pytest.raises(ToolError, match="nvdisasm ended with"):
        run_tool(["/nowhere/nvdisasm"], BOX)


@pytest.mark.skipif(BOX.record.kind == "plain", reason="this machine has no sandbox")
def test_a_tool_sees_the_one_file_and_has_no_network(tmp_path: Path) -> None:
    shown, other, work = tmp_path / "shown", tmp_path / "other", tmp_path / "work"
    shown.write_text("yes")
    other.write_text("no")
    work.mkdir()
    script = f"cat {shown}; cat {other}; echo x > {shown}; echo kept > file; true"
    assert run_tool(["/bin/sh", "-c", script], BOX, read=[shown], work=work) == "yes"
    assert shown.read_text() == "yes" and (work / "file").read_text() == "kept\n"
    with pytest.raises(ToolError, match="PermissionError"):
        run_tool([sys.executable, "-I", "-c", "import socket; socket.socket()"], BOX)


def test_the_tools_are_those_that_triton_brings() -> None:
    tools = find_tools()
    assert tools.nvdisasm.is_file() and tools.cuobjdump.is_file()
    assert tools.version.count(".") == 2
