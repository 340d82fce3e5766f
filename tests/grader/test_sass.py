"""The census of machine code: what it counts, and that it refuses whatever it does not know."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.silicon.sass.census import Census, SassError, census, product_types
from grader.silicon.sass.opcodes import CLASSES, FAMILIES, LATER, MATRIX, class_of, family_of
from grader.silicon.sass.products import Product, read_product
from kbh_lint.base import dtypes


def code(*instructions: str, name: str = "kernel", arch: str = "sm_90a") -> str:
    """A disassembly in nvdisasm's form."""
    lines = [
        f"\t.target\t{arch}", "", '\t.elftype\t@"ET_EXEC"', "",
        f"//--------------------- .text.{name} --------------------------",
        f'\t.section\t.text.{name},"ax",@progbits', '\t.sectionflags\t@"SHF_BARRIERS=1"', "\t.align\t128",
        f"        .global         {name}", f"        .type           {name},@function",
        f"        .size           {name},(.L_x_1 - {name})",
        f'        .other          {name},@"STO_CUDA_ENTRY STV_DEFAULT"', f"{name}:", f".text.{name}:",
    ]  # fmt: skip
    lines += [f"        /*{16 * n:04x}*/                   {text} ;" for n, text in enumerate((*instructions, "EXIT"))]
    return "\n".join([*lines, ".L_x_1:", ""])


def one(*instructions: str, arch: str = "sm_90a") -> Census:
    """The census of one kernel."""
    (found,) = census(code(*instructions, arch=arch))
    return found


KAHAN = ("FADD R5, R4, -R3", "FADD R6, R2, R5", "FADD R7, R6, -R2", "FADD R3, R7, -R5", "MOV R2, R6")


# --- what is read ---


def test_a_kernel_is_counted_by_name_and_arch() -> None:
    found = one(
        "LDC R1, c[0x0][0x28]", "@!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64]", "STL.64 [R1+0x8], R4", "LDL R3, [R1]"
    )
    assert (found.kernel, found.arch, found.entry) == ("kernel", "sm_90a", True)
    assert (found.count("LDG"), found.spills, found.count("EXIT")) == (1, 2, 1)
    assert not found.matrix


def test_both_tools_give_the_same_census() -> None:
    text = """
\tcode for sm_90a
\t\tFunction : kernel
\t.headerflags\t@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_64BIT_ADDRESS EF_CUDA_ACCELERATORS EF_CUDA_SM90"
        /*0000*/                   HMMA.16816.F32.BF16 R4, R20.reuse, R44, R4 ;   /* 0x0000002c1404723c */
                                                                                  /* 0x000fe20000041804 */
        /*0010*/                   EXIT ;                                         /* 0x000000000000794d */
                                                                                  /* 0x000fea0003800000 */
\t\t..........
"""
    assert census(text) == census(code("HMMA.16816.F32.BF16 R4, R20, R44, R4"))


def test_the_architecture_may_stand_in_the_header_flags() -> None:
    flags = '.headerflags\t@"EF_CUDA_64BIT_ADDRESS EF_CUDA_ACCELERATORS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"'
    (found,) = census(code("NOP").replace("\t.target\tsm_90a", f"\t{flags}"))
    assert found.arch == "sm_90a"


FORMS = {
    "HMMA.16816.F32": ("16816", "f16", "f16", "f32"), "HMMA.1688.F32.TF32": ("1688", "tf32", "tf32", "f32"),
    "HMMA.16816.F16": ("16816", "f16", "f16", "f16"), "IMMA.16832.S8.U8.SAT": ("16832", "s8", "u8", "s32"),
    "IMMA.16864.U4.S4": ("16864", "u4", "s4", "s32"), "DMMA.8x8x4": ("8x8x4", "f64", "f64", "f64"),
    "BMMA.168256.AND.POPC": ("168256", "b1", "b1", "s32"),
    "HGMMA.64x128x16.F32.BF16": ("64x128x16", "bf16", "bf16", "f32"),
    "QGMMA.64x256x32.F32.E4M3.E5M2": ("64x256x32", "e4m3", "e5m2", "f32"),
    "IGMMA.64x64x32.S8.S8": ("64x64x32", "s8", "s8", "s32"),
    "BGMMA.64x64x256.AND.POPC": ("64x64x256", "b1", "b1", "s32"),
    "QMMA.16832.F16.E2M1.E4M3": ("16832", "e2m1", "e4m3", "f16"), "UTCQMMA.2CTA": ("", "f8f6f4", "f8f6f4", ""),
    "UTCHMMA.WS": ("", "f16|bf16|tf32", "f16|bf16|tf32", ""), "UTCOMMA.2CTA.4X": ("", "f4", "f4", ""),
    "UTCIMMA.2CTA.ASHIFT": ("", "i8", "i8", ""),
}  # fmt: skip


@pytest.mark.parametrize("opcode", FORMS)
def test_a_matrix_instruction_names_its_operand_types(opcode: str) -> None:
    product = read_product(opcode)
    assert product is not None
    assert (product.shape, product.a, product.b, product.accumulator) == FORMS[opcode]
    assert not product.sparse and not product.scaled


def test_sparse_and_scaled_products_are_told_apart() -> None:
    sparse, scaled = read_product("HMMA.SP.16832.F32"), read_product("QMMA.SF.SP.16864.F32.E4M3.E2M1.E8")
    assert sparse == Product("HMMA", "16832", "f16", "f16", "f32", sparse=True)
    assert scaled == Product("QMMA", "16864", "e4m3", "e2m1", "f32", sparse=True, scaled=True)
    assert read_product("OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X") is not None


def test_product_types_are_those_of_all_kernels() -> None:
    found = [one("QGMMA.64x64x32.F32.E4M3.E5M2 R24, gdesc[UR4], R24, UP0"), one("HMMA.16816.F32.BF16 R4, R8, R12, R4")]
    assert product_types(found) == {"e4m3", "e5m2", "bf16"}


def test_a_packed_half_multiply_is_no_matrix_instruction() -> None:
    found = one("HFMA2.MMA R13, -RZ, RZ, 0, 0", "HFMA2.BF16_V2 R4, R4, R5, R6")
    assert not found.matrix and found.count("HFMA2") == 2


def test_unpacking_of_fp8_is_counted_by_types() -> None:
    found = one(
        "F2FP.F16.E4M3.UNPACK_B R12, R4", "F2FP.F16.E5M2.UNPACK_B R12, R4.H1", "F2FP.BF16.F32.PACK_AB R4, R4, R5"
    )
    assert found.conversions == {("e4m3", "f16"): 1, ("e5m2", "f16"): 1}
    assert found.unpacked(dtypes.FP8) == 2


def test_masks_of_four_bit_fields_are_told_from_masks_of_one() -> None:
    found = one(
        "LOP3.LUT R4, R4, 0xf000f, R5, 0xea, !PT", "LOP3.LUT R4, R4, 0xf0f0f0f0, RZ, 0xc0, !PT",
        "LOP3.LUT R4, R4, 0xf, RZ, 0xc0, !PT", "LOP3.LUT R4, R4, 0xff, RZ, 0xc0, !PT", "SGXT R4, R4, 0x4",
    )  # fmt: skip
    assert (found.nibbles, found.small_masks) == (3, 1)


def test_exponents_above_four_bit_fields_are_told_from_other_constants() -> None:
    found = one(
        "LOP3.LUT R4, R4, 0x43004300, RZ, 0xfc, !PT", "LOP3.LUT R4, R4, 0x64006400, R5, 0xf8, !PT",
        "LOP3.LUT R4, R4, 0x4b000000, RZ, 0xfc, !PT", "LOP3.LUT R4, R4, 0x4300, RZ, 0xfc, !PT",
        "LOP3.LUT R4, R4, 0x43000000, RZ, 0xfc, !PT", "LOP3.LUT R4, R4, 0x48800000, RZ, 0xfc, !PT",
        "LOP3.LUT R4, R4, 0x43006400, RZ, 0xfc, !PT", "LOP3.LUT R4, R4, 0x80008000, RZ, 0xfc, !PT",
        "LOP3.LUT R4, R4, 0x3f800000, RZ, 0xfc, !PT", "LOP3.LUT R4, R4, 0x4b800000, RZ, 0xfc, !PT",
    )  # fmt: skip
    assert found.exponents == 6


def test_tma_and_async_copies_are_counted() -> None:
    found = one(
        "UTMALDG.2D [UR12], [UR20]", "LDGSTS.E.BYPASS.128 [R27], desc[UR12][R38.64]", "UBLKCP.S.G [UR4], [UR6], UR8"
    )
    assert (found.tensor_loads, found.async_copies) == (1, 2)


def test_what_a_called_function_holds_counts_for_the_kernel() -> None:
    kernel = code("CALL.REL.NOINC `(product)")
    callee = code("HMMA.16816.F32 R4, R8, R12, R4", name="product").replace("STO_CUDA_ENTRY ", "")
    found = {each.kernel: each for each in census(kernel + callee)}
    assert found["kernel"].matrix == {Product("HMMA", "16816", "f16", "f16", "f32"): 1}
    assert found["kernel"].entry and not found["product"].entry
    assert not found["kernel"].indirect_calls


@pytest.mark.parametrize("call", ["CALL.ABS.NOINC R4", "CALL.ABS.NOINC `(elsewhere)"])
def test_a_call_into_code_that_is_not_there_is_said(call: str) -> None:
    assert one(call).indirect_calls == 1
    assert one("CALL.REL.NOINC `($__internal_0_$__cuda_sm20_rcp)").indirect_calls == 0


# --- rounding errors that are kept ---


def test_a_kahan_step_keeps_one_rounding_error() -> None:
    assert one(*KAHAN).residuals == 1
    assert one(*KAHAN).subtractions == 3


def test_other_spellings_of_a_compensation_are_found() -> None:
    neumaier = ("FADD R6, R2, R5", "FADD R7, R2, -R6", "FADD R8, R7, R5")
    two_sum = ("FADD R6, R2, R5", "FADD R7, R6, -R2", "FADD R8, R6, -R7", "FADD R9, R2, -R8", "FADD R10, R5, -R7")
    contracted = ("FMUL R5, R10, R11", "FFMA R6, R10, R11, R2", "FADD R7, R6, -R2", "FADD R8, -R7, R5")
    packed = (
        "FADD2 R6, R2.F32x2.HI_LO, R4.F32x2.HI_LO", "FADD2 R8, R6.F32x2.HI_LO, -R2.F32x2.HI_LO",
        "FADD2 R8, R8.F32x2.HI_LO, -R4.F32x2.HI_LO",
    )  # fmt: skip
    assert [one(*steps).residuals for steps in (neumaier, two_sum, contracted)] == [1, 2, 1]
    assert one(*packed, arch="sm_100a").residuals == 2


def test_counters_and_addresses_between_the_steps_do_not_hide_a_compensation() -> None:
    rescaled = (  # a sum and its error times a scale, contracted, as compilers write it beside a loop's bookkeeping
        "FFMA R36, R7, -R36, R8", "IADD3 R4, P4, R4, 0x4000, RZ", "FFMA R14, R7, R27, R36", "FFMA R7, R7, -R27, R14",
        "IADD3.X R5, RZ, R5, RZ, P4, !PT", "MOV R35, R0", "FADD R36, -R36, R7",
    )  # fmt: skip
    uniform = (  # the sum lies in a register that the warp shares
        "FFMA R28, R5, -R28, R8", "FFMA R4, R5, UR4, R28", "R2UR UR7, R4", "MOV R4, UR4", "FFMA R5, R5, -R4, UR7",
        "UMOV UR4, UR7", "FADD R28, -R28, R5",
    )  # fmt: skip
    assert [one(*steps).residuals for steps in (rescaled, uniform)] == [1, 1]


def test_a_compensation_in_uniform_arithmetic_or_in_packed_products_is_one() -> None:
    uniform = ("R2UR UR7, R12", "UFADD UR6, UR7, -UR6", "UFADD UR7, UR6, UR5", "UFADD UR5, UR7, -UR5",
               "UFADD UR6, -UR6, UR5", "UMOV UR5, UR7")  # fmt: skip
    packed = tuple(
        step.replace(",", ".F32x2.HI_LO,").replace(".F32x2.HI_LO,", ",", 1) + ".F32x2.HI_LO"
        for step in ("FFMA2 R36, R6, -R36, R8", "FFMA2 R14, R6, R26, R36", "FFMA2 R6, R6, -R26, R14",
                     "FADD2 R36, -R36, R6")
    )  # fmt: skip
    assert one(*uniform, arch="sm_120").residuals == 1
    assert one(*packed, arch="sm_100a").residuals == 2


LARGER = ("FSETP.GE.AND P0, PT, |R8|, |R3|, PT", "FADD R19, R3, R8", "FSEL R10, R8, R3, P0", "FSEL R8, R3, R8, P0",
          "FADD R9, -R19, R10", "FADD R9, R8, R9")  # fmt: skip


def test_the_larger_of_two_less_their_sum_and_the_smaller_is_a_rounding_error() -> None:
    negated = tuple(step.replace("R8, P0", "R11, P0").replace("R3, R11, P0", "R8, R3, !P0") for step in LARGER)
    assert negated != LARGER
    assert [one(*steps).residuals for steps in (LARGER, negated)] == [1, 1]


def test_the_minimum_and_the_maximum_of_two_values_are_both_of_them() -> None:
    sorted_sum = ("FADD R6, R2, R5", "FMNMX R8, R2, R5, !PT", "FMNMX R9, R5, R2, PT", "FADD R7, R6, -R8",
                  "FADD R10, -R7, R9")  # fmt: skip
    same = tuple(step.replace("!PT", "PT") for step in sorted_sum)  # the smaller twice
    other = tuple(step.replace("FMNMX R9, R5", "FMNMX R9, R4") for step in sorted_sum)
    assert [one(*steps).residuals for steps in (sorted_sum, same, other)] == [1, 0, 0]


@pytest.mark.parametrize(
    "between",
    [
        "FSETP.GE.AND P0, PT, |R8|, |R4|, PT",  # another question
        "R2P PR, R1, 0x7f",
        "IADD3 R4, P0, R4, 0x4000, RZ",
        "LDG.E R3, desc[UR4][R6.64]",  # another value
    ],
)
def test_two_picks_of_one_predicate_are_of_the_same_two_values(between: str) -> None:
    assert one(*LARGER[:3], between, *LARGER[3:]).residuals == 0
    same = (*LARGER[:3], "FSEL R8, R8, R3, P0", *LARGER[4:])  # the larger twice
    assert one(*same).residuals == 0


UNITS = {
    "FFMA R9, R7, -1, R5": "the term less what became of it",
    "FFMA R9, -R7, 1, R5": "the same",
    "FFMA R9, -1, R7, R5": "the same",
    "FFMA.FTZ R9, R7.reuse, -1, R5": "the same",
    "FFMA R9, R7, 1, -R5": "its negative",
    "FFMA R9, R7, 0xbf800000, R5": "as bits",
    "FFMA R9, R7, R12, R5": "a register that holds -1",
    "FFMA R9, R7, -R13, R5": "one that holds 1",
    "FFMA R9, R14, R7, R5": "-1 as two halves",
    "FFMA R9, R7, UR4, R5": "-1 of a warp",
    "FFMA R9, R7, R15, R5": "a copy",
}
HELD = ("MOV R12, 0xbf800000", "IMAD.MOV.U32 R13, RZ, RZ, 0x3f800000", "HFMA2.MMA R14, -RZ, RZ, -1.875, 0",
        "UMOV UR4, -0x40800000", "MOV R15, R14")  # fmt: skip


@pytest.mark.parametrize("last", UNITS)
def test_a_product_by_one_or_minus_one_is_a_sign(last: str) -> None:
    assert one(*HELD, "FADD R6, R2, R5", "FADD R7, R6, -R2", last).residuals == 1
    other = last.replace("R5", "R8")  # of a value that is no part of the sum
    assert one(*HELD, "FADD R6, R2, R5", "FADD R7, R6, -R2", other).residuals == 0


def test_all_steps_of_a_compensation_may_be_products_by_one() -> None:
    kahan = ("FFMA R5, R3, -1, R4", "FFMA R6, R2, 1, R5", "FFMA R7, R2, -1, R6", "FFMA R3, R5, -1, R7")
    negated = ("FMUL R9, R2, -1", "FADD R6, R2, R5", "FADD R7, R6, R9", "FFMA R8, R7, -1, R5")
    assert [one(*steps).residuals for steps in (kahan, negated)] == [1, 1]


@pytest.mark.parametrize(
    "steps",
    [
        ("FFMA R6, R2, -1, R5", "FFMA R7, R6, -1, R8"),  # differences of other values
        ("FADD R6, R2, R5", "FADD R7, R6, -R2", "FFMA R8, R7, 1, R5"),  # the sign is the other one
        ("FADD R6, R2, R5", "FADD R7, R6, -R2", "FFMA R8, R7, -2, R5"),  # no sign
        ("FADD R6, R2, R5", "FADD R7, R6, -R2", "FFMA R8, R7, 0x1, R5"),  # the smallest number
        ("FADD R6, R2, R5", "FADD R7, R6, -R2", "FFMA R8, R7, |R12|, R5"),
        ("MOV R12, 0x1", "FADD R6, R2, R5", "FADD R7, R6, -R2", "FFMA R8, R7, -R12, R5"),
        ("MOV R12, 0xbf800000", "LDG.E R12, desc[UR4][R8.64]", "FADD R6, R2, R5", "FADD R7, R6, -R2",
         "FFMA R8, R7, R12, R5"),  # what it held was loaded over
        ("MOV R12, 0xbf800000", "FADD R12, R9, R10", "FADD R6, R2, R5", "FADD R7, R6, -R2", "FFMA R8, R7, R12, R5"),
        ("@P0 MOV R12, 0xbf800000", "FADD R6, R2, R5", "FADD R7, R6, -R2", "FFMA R8, R7, R12, R5"),  # perhaps
        ("FMUL R7, R6, -1", "FADD R8, R6, R7"),  # a value from itself: nothing was rounded
        ("FFMA R7, R6, 1, RZ", "FADD R8, R7, -R6"),
        ("FADD R7, R6, RZ", "FFMA R8, R7, -1, R6"),
        ("FMUL R7, R6, -1", "FMUL R8, R7, R2", "FFMA R9, R6, R2, R8"),  # one product, of a value and its negative
        ("FADD R6, R2, 1", "FADD R7, R6, -1", "FADD R8, R7, -R2"),  # how log1p finds what 1 swallowed
    ],
)  # fmt: skip
def test_a_product_by_one_makes_no_compensation(steps: tuple[str, ...]) -> None:
    assert one(*steps).residuals == 0


@pytest.mark.parametrize("wide", ["LDG.E.128 R4, desc[UR4][R8.64]", "IMAD.WIDE R6, R2, 0x4, R8", "LDS.64 R6, [R9]"])
def test_a_wide_write_over_a_register_of_the_chain_ends_it(wide: str) -> None:
    assert one("FADD R6, R2, R5", "FADD R7, R6, -R2", wide, "FADD R8, R7, -R5").residuals == 0


@pytest.mark.parametrize(
    "steps",
    [
        ("FADD R6, R2, R5", "FADD R7, R6, R4", "FADD R8, R7, -R9"),  # a plain sum
        ("FADD R6, R2, R5", "FADD R7, R6, -R6"),  # a value from itself: no rounding
        ("FADD R6, R2, R5", "FADD R7, R6, -R2", "LDG.E R5, desc[UR4][R8.64]", "FADD R8, R7, -R5"),  # another value
        ("FADD R6, R2, R5", "@P0 FADD R7, R6, -R2", "FADD R8, R7, -R5"),  # perhaps another value
        ("FADD R6, R2, R5", "FADD.SAT R7, R6, -R2", "FADD R8, R7, -R5"),  # clamped: another value
        ("FADD R6, |R2|, R5", "FADD R7, R6, -R2", "FADD R8, R7, -R5"),
        ("FFMA R6, R2, R5, 12582913", "FADD R7, R6, -12582913", "FFMA R8, R2, R5, -R7"),  # how exp finds its exponent
    ],
)  # fmt: skip
def test_what_is_no_compensation_is_not_counted(steps: tuple[str, ...]) -> None:
    assert one(*steps).residuals == 0


# --- what is refused ---


@pytest.mark.parametrize(
    ("instruction", "arch", "why"),
    [
        ("XMMA.16816.F32 R4, R8, R12, R4", "sm_90a", "no instruction XMMA.16816.F32"),
        ("QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR4], R24", "sm_120a", "no instruction QGMMA"),
        ("UTCQMMA gdesc[UR6], gdesc[UR8], tmem[UR10]", "sm_90a", "no instruction UTCQMMA"),
        ("HMMA.16816.F32.FP9 R4, R8, R12, R4", "sm_90a", "HMMA.16816.F32.FP9 is a matrix instruction of no known form"),
        ("HMMA R4, R8, R12, R4", "sm_90a", "of no known form"),
        ("QMMA.16832.F32.E4M3 R4, R8, R12, R4", "sm_89", "of no known form"),
        ("UTCHMMA.8CTA gdesc[UR6]", "sm_100a", "of no known form"),
        ("IMMA.16816.S8.INVALID2 R4, R8", "sm_80", "INVALID2"),
        ("F2FP.F16.E9M9.UNPACK_B R12, R4", "sm_90a", "unpacks what is not known"),
        ("hmma.16816.f32 R4, R8, R12, R4", "sm_90a", "is not an instruction"),
        ("@P0", "sm_90a", "is not an instruction"),
        ("NOP ; HMMA.16816.F32 R4, R8, R12, R4", "sm_90a", "is not an instruction"),
        ("NOP", "sm_70", "sm_70 is not one this census knows"),
    ],
)  # fmt: skip
def test_a_form_that_is_not_known_is_an_error_that_names_the_kernel(instruction: str, arch: str, why: str) -> None:
    with pytest.raises(SassError, match="kernel kernel, line") as caught:
        census(code(instruction, arch=arch))
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "        /*0000*/   EXIT ;", "Fatal error", "{ HMMA.16816.F32 R4, R8, R12, R4 ; }",
        "HMMA.16816.F32 R4, R8, R12, R4",
        "\t.section\t.nv.info\n        /*0000*/   EXIT ;",
    ],
)  # fmt: skip
def test_a_line_of_no_known_kind_is_an_error(text: str) -> None:
    with pytest.raises(SassError, match="line"):
        census(text)


def test_an_empty_disassembly_has_no_kernels() -> None:
    assert census("") == ()
    assert census("\t.target\tsm_90a\n\n") == ()


# --- the table ---


def test_every_instruction_is_in_one_class() -> None:
    names = [name for members in CLASSES.values() for name in members]
    assert len(names) == len(set(names))
    assert not MATRIX & set(names)
    assert LATER.keys() <= set(names) | MATRIX


def test_newer_families_alone_have_their_instructions() -> None:
    assert family_of("sm_90a") == "hopper" and family_of("sm_120") == "blackwell" and family_of("sm_70") is None
    assert class_of("HGMMA", "hopper") == "matrix" and class_of("HGMMA", "blackwell") is None
    assert class_of("QMMA", "ada") == "matrix" and class_of("QMMA", "hopper") is None
    assert all(class_of("EXIT", family) == "control" for family in FAMILIES.values())


# --- any text ---

PIECES = st.sampled_from(
    [
        "/*0000*/", ";", "@P0", "@!UPT", "HMMA.16816.F32", "QGMMA", ".target\tsm_90a", "\t.section\t.text.k,\"ax\"",
        "FADD",
        "R4", "-R5.reuse", "RZ", ",", ".L_x_1:", "CALL.REL", "`(k)", "/* 0x0000000000007918 */", "LOP3.LUT", "0xf000f",
        "\n",
        " ", "Function : k", "code for sm_100a", "FADD2", "R2.F32x2.HI_LO", "F2FP.F16.E4M3.UNPACK_B", "URZ", "FFMA",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=60).map(" ".join)))
@example("\t.target sm_90a\n\t.section\t.text.k\n/*0000*/ FADD , ;")
def test_any_text_is_a_census_or_one_sentence(text: str) -> None:
    try:
        found = census(text)
    except SassError as error:
        assert "\n" not in str(error)
    else:
        assert all(isinstance(each, Census) for each in found)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 2000), st.text(max_size=8))
def test_damaged_machine_code_is_a_census_or_one_sentence(start: int, length: int, inserted: str) -> None:
    whole = code(
        *KAHAN, "HMMA.16816.F32 R4, R8, R12, R4", "CALL.REL.NOINC `(other)", "LOP3.LUT R4, R4, 0xf, RZ, 0xc0, !PT"
    )
    try:
        census(whole[:start] + inserted + whole[start + length :])
    except SassError as error:
        assert "line" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        code(*("FADD R5, R4, -R3",) * 40_000),
        code("NOP" + " " * 60_000),
        code("FADD R1" + ", R2" * 15_000),
        "".join(f".L_x_{n}:\n" for n in range(50_000)),
        "/*" * 30_000,
        "\t.target\tsm_90a\n"
        + "".join(f"\t.section\t.text.k{n}\n/*0000*/ CALL.REL `(k{n + 1}) ;\n" for n in range(4_000)),
    ],
    ids=["instructions", "blanks", "operands", "labels", "comments", "calls"],
)
def test_time_grows_with_the_text_alone(text: str) -> None:
    begin = time.process_time()
    with contextlib.suppress(SassError):
        census(text)
    assert time.process_time() - begin < 10.0  # seconds; a time that grows faster than the text takes minutes


@pytest.mark.parametrize(
    ("opcode", "groups"),
    [
        ("QGMMA.64x128x32.F32.E4M3.E5M2", {"fp8"}),
        ("QMMA.16832.F32.E2M1.E2M1", {"fp4"}),
        ("UTCQMMA", {"fp8", "fp6", "fp4"}),  # a descriptor says which of them
        ("UTCOMMA.4X", {"fp4"}),
        ("HMMA.16816.F32.BF16", {"bf16"}),
    ],
)
def test_a_matrix_instruction_tells_of_which_groups_of_types_its_operands_may_be(opcode: str, groups: set[str]) -> None:
    found = read_product(opcode)
    known = {row.group for row in dtypes.ROWS if row.group}
    assert found is not None and {name for name in known if found.may_be_of(dtypes.group(name))} == groups
