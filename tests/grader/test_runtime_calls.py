"""Calls of the device's runtime in machine code: known as such, and nothing else is taken for one.

The programs are assembled for several chips. Needs the assembler and disassembler that triton brings.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="triton is not installed, which brings the disassembler")
from grader.silicon.machine_code import disassemble
from grader.silicon.sass.census import Census, census
from grader.silicon.sass.elf import ElfError, calls_runtime_alone
from grader.silicon.tools import ToolError, find_tools

CHIPS = ("sm_80", "sm_90a", "sm_100a")
HEAD = """
.version 8.6
.target {chip}
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 text[3] = {{104, 105, 0}};
.func (.param .b32 r) ours (.param .b64 a, .param .b64 b)
{{
  .reg .b64 %rd<4>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [a]; ld.global.f32 %f1, [%rd1]; mul.f32 %f2, %f1, %f1; st.global.f32 [%rd1], %f2;
  st.param.b32 [r], 0; ret;
}}
.func (.param .b32 r) other (.param .b64 a, .param .b64 b)
{{
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [a]; st.global.f32 [%rd1], 0f00000000; st.param.b32 [r], 0; ret;
}}
.visible .entry kernel(.param .u64 p, .param .u64 q, .param .u32 n)
{{
  .reg .pred %p<4>; .reg .b64 %rd<9>; .reg .b32 %r<4>;
  ld.param.u64 %rd5, [p]; ld.param.u64 %rd6, [q]; ld.param.u32 %r1, [n];
  mov.u64 %rd1, text; cvta.global.u64 %rd2, %rd1; mov.u64 %rd3, 0;
  setp.eq.u32 %p1, %r1, 0; @%p1 bra FIRST;
  setp.eq.u32 %p2, %r1, 1; @%p2 bra SECOND;
  ret;
FIRST:
{first}
  ret;
SECOND:
  {{ .param .b64 a; st.param.b64 [a], %rd2; .param .b64 b; st.param.b64 [b], %rd2; .param .b32 c; st.param.b32 [c], 7;
    .param .b64 d; st.param.b64 [d], %rd2; .param .b64 e; st.param.b64 [e], 1; call __assertfail, (a, b, c, d, e); }}
  ret;
}}
"""
CALL = """
  {{ .param .b64 a; st.param.b64 [a], {what}; .param .b64 b; st.param.b64 [b], %rd3; .param .b32 r; call (r), {name}; }}
"""
PROTOTYPE = "form: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b64 _);"
PROGRAMS = {
    "the runtime's": CALL.format(what="%rd2", name="vprintf, (a, b)"),
    "a function by its address": "\n".join([
        PROTOTYPE, "mov.u64 %rd7, ours;", CALL.format(what="%rd5", name="%rd7, (a, b), form"),
    ]),
    "a pointer that the host gives": "\n".join([PROTOTYPE, CALL.format(what="%rd5", name="%rd6, (a, b), form")]),
    "one of two": "\n".join([
        PROTOTYPE, "setp.gt.u64 %p3, %rd6, 9;", "mov.u64 %rd7, ours;", "mov.u64 %rd8, other;",
        "selp.b64 %rd7, %rd7, %rd8, %p3;", CALL.format(what="%rd5", name="%rd7, (a, b), form"),
    ]),
}  # fmt: skip


def assembled(folder: Path, name: str, chip: str) -> Path:
    """The cubin of a program."""
    try:
        ptxas = find_tools().nvdisasm.with_name("ptxas-blackwell" if chip == "sm_100a" else "ptxas")
    except ToolError as error:
        pytest.skip(str(error))
    (folder / "a.ptx").write_text(HEAD.format(chip=chip, first=PROGRAMS[name]))
    subprocess.run([ptxas, "-arch", chip, "a.ptx", "-o", "a.cubin"], cwd=folder, check=True, timeout=60)
    return folder / "a.cubin"


def kernel_of(cubin: Path) -> Census:
    return next(one for one in disassemble(cubin) if one.kernel == "kernel")


@pytest.mark.parametrize("chip", CHIPS)
def test_what_prints_and_asserts_calls_no_unknown_code(tmp_path: Path, chip: str) -> None:
    found = kernel_of(assembled(tmp_path, "the runtime's", chip))
    assert (found.count("CALL"), found.indirect_calls) == (2, 0)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "the runtime's"])
def test_a_call_through_a_pointer_is_one_of_unknown_code(tmp_path: Path, name: str, chip: str) -> None:
    assert kernel_of(assembled(tmp_path, name, chip)).indirect_calls


def test_without_the_file_a_call_by_the_table_is_not_known() -> None:
    load, call = "LDC.64 R2, c[0x4][R0]", "CALL.ABS.NOINC R2"

    def calls(*instructions: str, runtime: bool = True) -> int:
        lines = ["\t.target\tsm_90a", '\t.section\t.text.k,"ax",@progbits', '\t.other k,@"STO_CUDA_ENTRY STV_DEFAULT"']
        for place, text in enumerate(instructions):
            lines.append(text if text.endswith(":") else f"        /*{16 * place:04x}*/ {text} ;")
        (found,) = census("\n".join([*lines, ""]), runtime=runtime)
        return found.indirect_calls

    assert calls(load, call) == 0
    assert calls(load, "LEPC R20, `(.L_x_1)", call) == 0
    assert calls(load, call, runtime=False) == 1
    assert calls("LDC.64 R2, c[0x0][R0]", call) == 1
    assert calls("@P0 " + load, call) == 1
    assert calls(load, "MOV R3, R9", call) == 1  # half of the address is another
    assert calls(load, "LDG.E.128 R0, desc[UR4][R8.64]", call) == 1
    assert calls(load, "SHFL.IDX PT, R2, R5, R6, 0x1f", call) == 1
    assert calls(load, ".L_x_3:", call) == 1  # something else may come from elsewhere
    assert calls(load, "CALL.ABS.NOINC R2", call) == 1
    assert calls(load, "CALL.REL.NOINC R2 `(k)") == 1
    assert calls("CALL.ABS.NOINC `(vprintf)") == 0
    assert calls("CALL.ABS.NOINC `(somewhere)") == 1


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A cubin whose table holds functions of the runtime alone."""
    return assembled(tmp_path_factory.mktemp("cubin"), "the runtime's", "sm_90a").read_bytes()


def test_files_that_are_no_cubins_are_refused_in_a_sentence(tmp_path: Path, cubin: bytes) -> None:
    place = tmp_path / "a.cubin"
    for data in (b"", b"\x7fELF", cubin[:40], cubin[: len(cubin) // 2], b"\x7fELF\x01\x01" + cubin[6:], bytes(200)):
        place.write_bytes(data)
        with pytest.raises(ElfError):
            calls_runtime_alone(place)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_damage_does_more_than_refuse(
    tmp_path_factory: pytest.TempPathFactory, cubin: bytes, data: st.DataObject
) -> None:
    changed = bytearray(cubin)
    for _ in range(data.draw(st.integers(1, 8))):
        changed[data.draw(st.integers(0, len(cubin) - 1))] = data.draw(st.integers(0, 255))
    place = tmp_path_factory.mktemp("damaged") / "a.cubin"
    place.write_bytes(changed)
    try:
        assert calls_runtime_alone(place) in (False, True)
    except ElfError as error:
        assert "\n" not in str(error)
