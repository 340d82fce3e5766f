"""What a launch reads and writes at most, found in one walk: the loads come to what they come to alone."""

from __future__ import annotations

from typing import Any

import pytest
from compensation_cuda_support import kernel_of
from compensation_support import scope

from kbh_lint.base.values import Buffer, Func
from kbh_lint.kernels.extents import intervals
from kbh_lint.kernels.extents.parts import Part
from kbh_lint.kernels.extents.reads import parts_under, read_parts
from kbh_lint.kernels.extents.writes import all_parts

ROWS = """
def kernel(x, y, n, BM: tl.constexpr):
    at = tl.program_id(0) * BM + tl.arange(0, BM)
    total = 0.0
    for k in range(0, n):
        total += tl.load(x + at * n + k)
    tl.store(PLACE, total, mask=at < LAST)
"""
CUDA = """
__global__ void kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { y[i] += x[2 * i]; STORE }
}
"""
ARGS = {"x": Buffer("f32", 1, "f32"), "y": Buffer("f32", 2, "f32"), "n": 8, "BM": 16}


def triton(place: str = "y + at", last: str = "64") -> Func:
    made = scope(ROWS.replace("PLACE", place).replace("LAST", last)).vars["kernel"].func
    assert isinstance(made, Func)
    return made


def both(kernel: Func, args: dict[str, Any]) -> tuple[dict[int, list[Part]], dict[int, list[Part]]]:
    """The parts, of which those of loads are what a walk of their own gives."""
    reads, _, touched, _ = all_parts(kernel, args, (4,), (16,))
    assert reads == read_parts(kernel, args, (4,), (16,))
    return reads, touched


def test_loads_and_stores_are_told_apart() -> None:
    reads, written = both(triton(), ARGS)
    assert reads == {1: [Part(0, 512, 512)]}
    assert written == {1: [Part(0, 512, 512)], 2: [Part(0, 64, 64)]}
    assert both(triton(last="40"), ARGS)[1][2] == [Part(0, 40, 40)]


def test_a_store_that_is_not_bounded_takes_nothing_from_the_loads() -> None:
    reads, written = both(triton("y + tl.load(x + at)"), ARGS)
    assert 1 in reads
    assert 2 not in written


@pytest.mark.parametrize("store", ["", "((char*)y)[i] = 0; ", "y[i + 1] = 0; "], ids=["own", "cast", "two"])
def test_what_is_added_to_is_read_too(store: str) -> None:
    reads, written = both(kernel_of(CUDA.replace("STORE", store)), ARGS)
    assert reads[1] == [Part(0, 15, 8, step=2)]
    assert 2 in reads
    assert (2 in written) != store.startswith("((")


def test_a_pointer_that_is_cast_to_vectors_leads_to_as_many_elements() -> None:
    text = CUDA.replace("x[2 * i]", "((const float4*)x)[i].x").replace(
        "STORE", "*reinterpret_cast<float2*>(&y[2 * i]) = v;"
    )
    reads, touched = both(kernel_of(text), ARGS)
    assert reads[1] == [Part(0, 29, 8, step=4)]
    assert reads[2] == [Part(0, 8, 8)]
    assert touched[2] == [Part(0, 8, 8), Part(0, 8, 8), Part(0, 16, 16)]


CALLED = """
__device__ float of(const float* p, int row, int n) {
    float sum = 0;
    for (int j = 0; j < 4; ++j) sum += p[row * 4 + j];
    n = 0;
    return sum;
}
__device__ void moved(int& row) { row = 7; }
__global__ void kernel(const float* x, float* y, int n) {
    int i = threadIdx.x;
    float sum = of(x, i, n);
    CHANGE
    y[i] = sum;
}
"""


def test_a_function_of_cuda_reads_what_it_is_handed_and_leaves_what_it_takes_by_value() -> None:
    reads, touched = both(kernel_of(CALLED.replace("CHANGE", "")), ARGS)
    assert (reads[1], touched[2]) == ([Part(0, 64, 64)], [Part(0, 16, 16)])
    reads, touched = both(kernel_of(CALLED.replace("CHANGE", "moved(i);")), ARGS)
    assert reads[1] == [Part(0, 64, 64)]
    assert 2 not in touched


def test_a_template_of_cuda_reads_at_what_it_is_deduced_from() -> None:
    text = CALLED.replace("__device__ float of(const float* p", "template <typename T>\n__device__ T of(const T* p")
    reads, touched = both(kernel_of(text.replace("CHANGE", "")), ARGS)
    assert (reads[1], touched[2]) == ([Part(0, 64, 64)], [Part(0, 16, 16)])
    led = text.replace("__device__ T of", "__device__ const T* of").replace("return sum;", "return p;")
    assert (
        1
        not in both(
            kernel_of(led.replace("CHANGE", "").replace("float sum = of(x, i, n)", "float sum = *of(x, i, n)")), ARGS
        )[0]
    )


def test_loads_have_their_steps_to_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = read_parts(triton(), ARGS, (4,), (16,))
    spent: list[int] = []
    for most in range(1, 60):
        monkeypatch.setattr(intervals, "MAX_STEPS", most)
        reads, _ = both(triton(), ARGS)
        spent += [most] if reads != alone else []
    assert spent and max(spent) < 59


@pytest.mark.parametrize("where", ["{ const float* x = y; total += x[i]; }", "for (const float* x = y; i < n; i++) {}"])
def test_a_name_of_a_block_says_nothing_of_what_it_hides(where: str) -> None:
    text = "__global__ void kernel(const float* x, float* y, int n) {\n  int i = threadIdx.x; float total = 0.f;\n"
    reads, _ = both(kernel_of(text + where + " y[i] = total + x[8 * i];\n}\n"), ARGS)
    assert 1 not in reads
    assert 2 not in reads


FROM = (
    "__global__ void kernel(const float* x, float* y, int n) {\n  int i = threadIdx.x; const float* from = x; BODY\n}\n"
)


@pytest.mark.parametrize(
    "body",
    [
        "for (int k = 0; k < n; k++) { if (x[k] > 0.f) { from = y; break; } } y[8] = from[i] + y[0];",
        "for (int k = 0; k < n; k++) { if (x[k] > 0.f) { from = y; continue; } } y[8] = from[i] + y[0];",
        "switch (n) { case 8: from = y; } y[8] = from[i] + y[0];",
        "switch (n) { case 8: if (x[0] > 0.f) { from = y; break; } } y[8] = from[i] + y[0];",
    ],
)
def test_a_pointer_that_leads_elsewhere_behind_an_early_exit_is_followed_no_further(body: str) -> None:
    reads, written = both(kernel_of(FROM.replace("BODY", body)), ARGS)
    assert not reads
    assert not written


def test_the_cases_of_a_switch_are_read_and_written_each_under_its_label() -> None:
    body = "switch (i) { case 3: y[i] = x[i]; break; case 5: y[2 * i] = 0.f; default: y[40] = x[7]; }"
    reads, written = both(kernel_of(FROM.replace("BODY", body)), ARGS)
    assert reads == {1: [Part(3, 4, 1), Part(7, 8, 1), Part(7, 8, 1)]}
    assert written[2] == [Part(3, 4, 1), Part(10, 11, 1, step=2), Part(40, 41, 1), Part(40, 41, 1)]


ASKED = {"loads": frozenset((1,)), "stores": frozenset((2,)), "both": frozenset((1, 2))}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("made", [triton(), kernel_of(CUDA.replace("STORE", "y[i + 1] = x[i];"))], ids=["py", "cu"])
def test_storages_that_are_asked_for_come_to_what_they_come_to_among_all(made: Func, asked: frozenset[int]) -> None:
    every, some = all_parts(made, ARGS, (4,), (16,)), all_parts(made, ARGS, (4,), (16,), asked)
    for whole, part in ((every.loads, some.loads), (every.stores, some.stores)):
        assert {at: part.get(at) for at in asked} == {at: whole.get(at) for at in asked}
    assert some.loads == read_parts(made, ARGS, (4,), (16,), asked=asked)


def test_a_storage_that_is_lost_is_so_where_it_alone_is_asked_for() -> None:
    lost = kernel_of(CUDA.replace("STORE", "((char*)y)[i] = 0;"))
    assert 2 not in all_parts(lost, ARGS, (4,), (16,), frozenset((2,))).stores
    assert 1 in all_parts(lost, ARGS, (4,), (16,), frozenset((1,))).loads


@pytest.mark.parametrize(("size", "told"), [(512, False), (513, True)], ids=["whole", "part"])
def test_loads_that_may_be_of_all_of_a_storage_are_followed_no_further(size: int, told: bool) -> None:
    asked = frozenset((1,))
    alone, _ = parts_under(triton(), ARGS, (4,), (16,), {}, asked, {1: size})
    assert alone == ({1: [Part(0, 512, 512)]} if told else {})
    assert all_parts(triton(), ARGS, (4,), (16,), asked, frozenset(), {1: size}).loads == alone


@pytest.mark.parametrize(("size", "told"), [(64, False), (65, True)], ids=["whole", "part"])
def test_stores_that_may_be_of_all_of_a_storage_are_followed_no_further(size: int, told: bool) -> None:
    found = all_parts(triton(), ARGS, (4,), (16,), frozenset(), frozenset((2,)), {2: size})
    assert found.stores == ({2: [Part(0, 64, 64)]} if told else {})


def test_a_storage_of_which_more_is_asked_keeps_a_walk_going() -> None:
    found = all_parts(triton(), ARGS, (4,), (16,), frozenset((1,)), frozenset((2,)), {1: 512, 2: 65})
    assert found.loads == {1: [Part(0, 512, 512)]}
    assert found.stores[2] == [Part(0, 64, 64)]
