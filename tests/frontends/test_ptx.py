"""PTX text to instructions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbh_lint.frontends.ptx import AsmOperand, Imm, Instr, Mem, Reg, Vec, parse


def one(text: str) -> Instr:
    (instruction,) = parse(text)
    return instruction


def test_an_mma_has_its_types_as_modifiers_and_its_fragments_as_vectors() -> None:
    instr = one("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1}, {%2, %3}, {%4}, {%0,%1};\n")
    assert instr.opcode == "mma"
    assert instr.modifiers == ("sync", "aligned", "m16n8k32", "row", "col", "f32", "e4m3", "e4m3", "f32")
    assert [tuple(item.index for item in op.items) for op in instr.operands if isinstance(op, Vec)] == [
        (0, 1), (2, 3), (4,), (0, 1),
    ]  # fmt: skip


def test_modifiers_with_colons_stay_whole() -> None:
    instr = one(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
    )
    assert instr.opcode == "cp" and "shared::cluster" in instr.modifiers
    first, second, third = instr.operands
    assert isinstance(first, Mem) and isinstance(third, Mem) and isinstance(second, Mem)
    assert isinstance(second.items[1], Vec) and len(second.items[1].items) == 2


def test_guards_and_negation() -> None:
    taken, skipped = parse("@p bra L1; @!%p2 mov.u32 r, 1;")
    assert taken.guard == Reg("p", 1) and taken.operands == (Reg("L1", 7),)
    assert isinstance(skipped.guard, Reg) and skipped.guard.negated and skipped.guard.name == "%p2"


def test_blocks_declarations_labels_and_comments() -> None:
    found = parse(
        "{\n .reg .pred p; // c\n .reg .b32 a, b;\n setp.ne.b32 p, %0, 0; /* x; y */\n LOOP:\n bra LOOP;\n}\n"
    )
    assert [(instr.opcode, instr.modifiers) for instr in found] == [
        (".reg", ("pred",)), (".reg", ("b32",)), ("setp", ("ne", "b32")), ("label", ()), ("bra", ()),
    ]  # fmt: skip
    assert [op.name for op in found[1].operands if isinstance(op, Reg)] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("0x10", 16),
        ("0xFFu", 255),
        ("0f3F800000", 1.0),
        ("0d3FF0000000000000", 1.0),
        ("1.5", 1.5),
    ],
)
def test_immediates(text: str, value: float) -> None:
    instr = one(f"mov.b32 %0, {text};")
    assert isinstance(instr.operands[1], Imm) and instr.operands[1].value == value


def test_addresses_keep_their_parts() -> None:
    load, named = parse("ld.global.v4.u32 {%0, %1, %2, %3}, [%4 + 16]; cvt.rn.f16x2.e4m3x2 %0, %[lo];")
    address = load.operands[1]
    assert isinstance(address, Mem) and [type(part) for part in address.items] == [AsmOperand, Imm]
    assert isinstance(named.operands[1], AsmOperand) and named.operands[1].name == "lo"


def test_a_label_made_unique_with_a_percent_sign_is_a_label() -> None:
    label, jump = parse("WAIT_%=:\n@!p bra WAIT_%=;")
    assert label.opcode == "label" and label.operands == (Reg("WAIT_%=", 0),)
    assert [op.name for op in jump.operands if isinstance(op, Reg)] == ["WAIT_%="]


def test_special_registers_are_registers() -> None:
    assert one("mov.u32 %0, %%laneid;").operands[1] == Reg("%laneid", 12)
    assert one("mov.u32 %r1, %tid.x;").operands[1] == Reg("%tid.x", 13)


def test_offsets_point_at_the_opcode_text() -> None:
    text = "  add.f32 %0, %1, %2;\n  @p fma.rn.f32 %0, %1, %2, %3;"
    first, second = parse(text)
    assert text[first.offset : first.offset + first.length] == "add.f32 %0, %1, %2"
    assert text[second.offset :].startswith("@p fma.rn.f32")


def test_a_whole_kernel_is_read() -> None:
    text = (
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a)\n.maxntid 128\n{\n"
        ".reg .f32 %f<4>;\nld.param.u64 %rd1, [a];\nret;\n}\n"
    )
    opcodes = [instr.opcode for instr in parse(text)]
    assert opcodes[-3:] == [".reg", "ld", "ret"]


def test_text_that_is_not_ptx_becomes_an_unknown_instruction() -> None:
    assert one("= = 3;").opcode == "?"
    assert one("@p;").opcode == "?"


@given(st.text(alphabet='amd. %0123[]{}@!;:,/*\n"-xf_', max_size=80))
def test_any_text_is_read_without_an_error_and_places_stay_inside(text: str) -> None:
    for instr in parse(text):
        assert 0 <= instr.offset <= instr.offset + instr.length <= len(text)
