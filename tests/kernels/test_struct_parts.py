"""Fields of structs in memory: which elements of a storage a kernel reads and writes through them."""

from __future__ import annotations

from typing import Any

import pytest
from compensation_cuda_support import kernel_of

from kbh_lint.base.values import Buffer
from kbh_lint.kernels.extents.parts import Part
from kbh_lint.kernels.extents.reads import Parts
from kbh_lint.kernels.extents.writes import all_parts

STRUCTS = """
struct Sum { float high, low; };
struct Mixed { double whole; float part; };
struct Row { float scale; float of[3]; Sum sum; };
union Either { float number; int bits; };
__device__ void changed(Sum& own) { own.low = 0.f; }
__device__ float low_of(const Sum* own, int i) { return own[i].low; }
__device__ void set(Sum* own, int i) { own[i].high = 0.f; }
__device__ float seen(const Sum& own) { return own.low; }
__global__ void kernel(const float* x, float* y, PARAM p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    BODY
}
"""
OF_TWO, OF_SIX = 2 * 63, 6 * 63


def parts(body: str, param: str = "Sum*", dtype: str = "f32") -> tuple[Parts, Parts, Any]:
    args = {"x": Buffer("f32", 1, "f32"), "y": Buffer("f32", 2, "f32"), "p": Buffer(dtype, 3, dtype)}
    kernel = kernel_of(STRUCTS.replace("PARAM", param).replace("BODY", body))
    loads, stores, _, widths = all_parts(kernel, args, (4,), (16,))
    return loads, stores, widths.get(3)


HIGH = Part(0, OF_TWO + 1, 64, step=2)
LOW = Part(1, OF_TWO + 2, 64, step=2, phase=1)
BOTH = Part(0, OF_TWO + 2, 128)


@pytest.mark.parametrize(
    "body",
    [
        "p[i].low = p[i].high;",
        "(p + i)->low = (*(p + i)).high;",
        "Sum* own = &p[i]; own->low = own->high;",
        "Sum& own = p[i]; own.low = own.high;",
        "const Sum& own = p[i]; p[i].low = own.high;",
        "float& low = p[i].low; low = p[i].high;",
        "float* of = &p[i].low; *of = __ldg(&p[i].high);",
    ],
)
def test_a_field_is_every_second_element_of_pairs(body: str) -> None:
    loads, stores, _ = parts(body)
    assert (loads[3], stores[3]) == ([HIGH], [LOW])


@pytest.mark.parametrize("body", ["Sum own = p[i]; own.low = x[i]; p[i] = own;", "Sum& own = p[i]; p[i] = own;"])
def test_a_struct_that_is_copied_is_all_of_its_fields(body: str) -> None:
    loads, stores, _ = parts(body)
    assert (loads[3], stores[3]) == ([BOTH], [BOTH])


def test_what_a_function_takes_by_reference_may_be_changed() -> None:
    assert parts("changed(p[i]);")[1][3] == [BOTH]
    assert parts("y[i] = seen(p[i]);")[1][3] == []


def test_a_function_that_is_handed_a_pointer_to_structs_reads_and_writes_fields() -> None:
    loads, stores, _ = parts("y[i] = low_of(p, i); set(p, i);")
    assert (loads[3], stores[3]) == ([LOW], [HIGH])


def test_what_is_added_to_is_read() -> None:
    loads, stores, _ = parts("Sum& own = p[i]; own.high += x[i];")
    assert (loads[3], stores[3]) == ([HIGH], [HIGH])


def test_arrays_and_structs_in_a_struct_lie_where_they_lie() -> None:
    loads, stores, _ = parts("p[i].of[2] = p[i].scale; p[i].sum.low = 0.f; p[i].sum = p[i].sum;", "Row*")
    assert loads[3] == [Part(0, OF_SIX + 1, 64, step=6), Part(4, OF_SIX + 6, 128, step=6, phase=4, width=2)]
    assert stores[3] == [
        Part(3, OF_SIX + 4, 64, step=6, phase=3),
        Part(5, OF_SIX + 6, 64, step=6, phase=5),
        Part(4, OF_SIX + 6, 128, step=6, phase=4, width=2),
    ]


def test_fields_are_counted_in_elements_of_what_is_given() -> None:
    loads, stores, width = parts("p[i].part = p[i].whole;", "Mixed*", "u8")
    assert width == 8
    assert loads[3] == [Part(0, 16 * 63 + 8, 512, step=16, width=8)]
    assert stores[3] == [Part(8, 16 * 63 + 12, 256, step=16, phase=8, width=4)]
    assert 3 not in parts("p[i].part = p[i].whole;", "Mixed*", "f64")[1]  # half an element


def test_fields_of_a_union_lie_in_one_place() -> None:
    loads, stores, _ = parts("p[i].bits = p[i].number;", "Either*")
    assert loads[3] == stores[3] == [Part(0, 64, 64)]


def test_a_pointer_that_is_cast_to_structs_leads_to_as_many_elements() -> None:
    loads, stores, _ = parts("Sum* s = reinterpret_cast<Sum*>(p + 8); s[i].high = p[i];", "float*")
    assert loads[3] == [Part(0, 64, 64)]
    assert stores[3] == [Part(8, 8 + OF_TWO + 1, 64, step=2)]


def test_a_lane_of_a_vector_is_a_field() -> None:
    loads, stores, _ = parts("p[i].x = p[i].y;", "float2*")
    assert (loads[3], stores[3]) == ([LOW], [HIGH])


@pytest.mark.parametrize(
    "body",
    [
        "Sum& own = i < 8 ? p[i] : p[0]; own.low = 0.f;",  # which one it is
        "Sum* own = p; Sum*& other = own; other = p + 8; own[i].low = 0.f;",
    ],
)
def test_a_reference_that_may_lead_elsewhere_is_not_followed(body: str) -> None:
    assert 3 not in parts(body)[1]


def test_a_reference_that_a_loop_binds_anew_leads_to_each() -> None:
    loads, stores, _ = parts("for (int j = 0; j < 4; ++j) { Sum& own = p[j]; own.low = own.high; }")
    assert loads[3] == [Part(0, 7, 4, step=2)]
    assert stores[3] == [Part(1, 8, 4, step=2, phase=1)]
