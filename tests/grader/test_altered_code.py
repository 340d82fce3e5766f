"""Machine code of a compiler with one instruction altered: what nobody has judged is refused, never left out."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from grader.silicon.sass.census import Census, SassError, census
from grader.silicon.sass.opcodes import CLASSES, MATRIX
from grader.silicon.tools import ToolError, find_tools
from kbh_lint.base import dtypes

PTX = """
.version 8.4
.target sm_90a
.address_size 64
.visible .entry products(.param .u64 out, .param .u64 a, .param .u64 b)
{
  .reg .b64 %rd<6>; .reg .b32 %r<10>; .reg .f32 %f<9>; .reg .pred %p;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b];
  ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd2]; ld.global.v2.b32 {%r5, %r6}, [%rd3];
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32
    {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};
  mov.f32 %f5, %f1; mov.f32 %f6, %f2; mov.f32 %f7, %f3; mov.f32 %f8, %f4; setp.eq.u32 %p, 1, 1;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f5, %f6, %f7, %f8}, %rd2, %rd3, %p, 1, 1;
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  st.global.v4.f32 [%rd1], {%f5, %f6, %f7, %f8}; ret;
}
"""
INSTRUCTION = re.compile(r"^(\s*/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+ )?)([A-Z][\w.]*)", re.MULTILINE)
KNOWN = MATRIX.union(*CLASSES.values())


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What nvdisasm prints of a kernel with an fp8 product of each kind."""
    try:
        nvdisasm = find_tools().nvdisasm
    except ToolError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("ptx")
    (folder / "a.ptx").write_text(PTX)
    ptxas = Path(nvdisasm).with_name("ptxas")
    subprocess.run([ptxas, "-arch", "sm_90a", "a.ptx", "-o", "a.cubin"], cwd=folder, check=True, timeout=60)
    done = subprocess.run([nvdisasm, "-c", "-ndf", "a.cubin"], cwd=folder, check=True, timeout=60, capture_output=True)
    return done.stdout.decode()


def read(text: str) -> Census:
    (found,) = census(text)
    return found


def alterations(opcode: str) -> list[str]:
    """An opcode with another name that differs by a letter, and with each modifier left out, doubled and renamed."""
    name, *modifiers = opcode.split(".")
    found = [".".join([other, *modifiers]) for other in (name + "X", name[:-1] + "Q", "X" + name[1:])]
    for place, one in enumerate(modifiers):
        for other in ([], [one, one], [one + "7"]):
            found.append(".".join([name, *modifiers[:place], *other, *modifiers[place + 1 :]]))
    return found


def test_the_code_holds_both_kinds_of_fp8_product(text: str) -> None:
    found = read(text)
    assert {product.family for product in found.matrix} == {"HMMA", "QGMMA"} and found.unpacked(dtypes.FP8) > 0


def test_an_instruction_of_a_name_that_nobody_has_judged_is_an_error_wherever_it_stands(text: str) -> None:
    refused = 0
    for match in INSTRUCTION.finditer(text):
        for altered in alterations(match[2])[:3]:
            if altered.partition(".")[0] not in KNOWN:
                refused += 1
                with pytest.raises(SassError, match=r"kernel products, line \d+: sm_90a has no instruction"):
                    census(text[: match.start(2)] + altered + text[match.end(2) :])
    assert refused > 60


def test_an_altered_product_or_conversion_is_another_one_or_an_error_and_never_none(text: str) -> None:
    whole, refused = read(text), 0
    for match in INSTRUCTION.finditer(text):
        name = match[2].partition(".")[0]
        if name not in MATRIX and "UNPACK" not in match[2]:
            continue
        for altered in alterations(match[2]):
            try:
                found = read(text[: match.start(2)] + altered + text[match.end(2) :])
            except SassError:
                refused += 1
                continue
            assert sum(found.matrix.values()) == sum(whole.matrix.values()), altered
            assert found.unpacked(dtypes.FP8) == whole.unpacked(dtypes.FP8), altered
    assert refused > 20
