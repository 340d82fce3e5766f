"""Where the stores of a launch end, by masks, guards and grids, in Triton and CUDA."""

from __future__ import annotations

from typing import Any

import pytest
from compensation_cuda_support import kernel_of
from compensation_support import scope

from kbh_lint.base.values import UNKNOWN, Buffer
from kbh_lint.kernels.extents.intervals import Atoms, Linear, highest, limited, lowest
from kbh_lint.kernels.extents.stores import store_extents

TILE = """
def kernel(y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    at = y + rows[:, None] * N + cols[None, :]
    keep = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(STORE)
"""
ROW = """
__global__ void kernel(float* y, int rows, int n) {
    int row = blockIdx.x;
    GUARD
    float* out = y + (size_t)row * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) BODY
}
"""


def triton_ends(text: str, grid: tuple[Any, ...], **args: Any) -> list[int]:
    given = {"y": Buffer("f32", 7, "f32"), "M": 64, "N": 100, "BM": 16, "BN": 32, **args}
    return list(store_extents(scope(text).vars["kernel"].func, given, grid, ()).ends.values())


def cuda_ends(text: str, grid: Any = 64, **args: Any) -> list[int]:
    given = {"y": Buffer("f32", 7, "f32"), "rows": 64, "n": 100, **args}
    return sorted(set(store_extents(kernel_of(text), given, (grid,), (32,)).ends.values()))


def test_a_mask_ends_a_store_before_the_tensor_does() -> None:
    masked = TILE.replace("STORE", "at, 1.0, mask=keep")
    assert triton_ends(masked, (4, 4)) == [6400]
    assert triton_ends(masked, (4, 4), M=16) == [1600]
    assert triton_ends(masked, (4, 4), M=0) == [0]
    assert triton_ends(masked, (UNKNOWN, UNKNOWN), M=16) == [1600]


def test_a_grid_that_is_too_small_ends_a_store_too() -> None:
    assert triton_ends(TILE.replace("STORE", "at, 1.0, mask=keep"), (1, 4)) == [1600]
    assert triton_ends(TILE.replace("STORE", "at, 1.0"), (4, 4)) == [63 * 100 + 128]
    assert triton_ends(TILE.replace("STORE", "at, 1.0"), (UNKNOWN, 4)) == []


@pytest.mark.parametrize(
    "store",
    ["at, 1.0, mask=rows[:, None] < tl.load(y)", "y + tl.load(at), 1.0", "at.to(tl.pointer_type(tl.int8)), 1"],
    ids=["a loaded bound", "a loaded address", "another pointer"],
)
def test_nothing_is_claimed_of_what_data_decides(store: str) -> None:
    assert triton_ends(TILE.replace("STORE", store), (UNKNOWN, 4)) == []


def test_offsets_count_only_in_the_unit_of_what_is_stored() -> None:
    text = ROW.replace("GUARD", "").replace("float* out = y + (size_t)row * n;", "auto out = y + (size_t)row * n;")
    filled = text.replace("BODY", "out[i] = {};")
    assert cuda_ends(filled) == [6400]
    assert cuda_ends(filled.replace("float* y", "float4* y")) == []
    assert cuda_ends(text.replace("auto out = y", "auto out = (float4*)y").replace("BODY", "out[i] = {};")) == []
    generic = filled.replace("__global__", "template <typename T> __global__").replace("float* y", "T* y")
    assert cuda_ends(generic) == []
    cast = "at.to(tl.pointer_type(tl.float64)), 1.0, mask=keep"
    assert triton_ends(TILE.replace("STORE", cast), (4, 4)) == []


@pytest.mark.parametrize(
    ("guard", "body", "end"),
    [
        ("", "out[i] = 1.f;", 6400),
        ("if (row >= rows) return;", "out[i] = 1.f;", 6400),
        ("if (blockIdx.x >= 1) return;", "out[i] = 1.f;", 100),
        ("if (row > 0) return;", "out[i] = 1.f;", 100),
        ("if (row != 0) return;", "out[i] = 1.f;", 100),
        ("if (row > 3 || rows < 8) return;", "out[i] = 1.f;", 400),
        ("if (!(row < 4 && rows > 8)) return;", "out[i] = 1.f;", 400),
        ("", "if (i < 10) out[i] = 1.f;", 6310),
        ("", "if (row * n + i < 50) out[i] = 1.f;", 50),
        ("", "{ if (row < 2) { out[i] = 1.f; } }", 200),
        ("rows = min(rows, 2); if (row >= rows) return;", "out[i] = 1.f;", 200),
        ("row = row % 2;", "out[i] = 1.f;", 200),
        ("row = row / 32;", "out[i] = 1.f;", 200),
        ("row &= 1;", "out[i] = 1.f;", 200),
        ("row = rows > 8 ? 7 : row;", "out[i] = 1.f;", 800),
        ("row = y[0] > 8.f ? 7 : row / 32;", "out[i] = 1.f;", 800),
        ("for (; row < rows; row += gridDim.x) if (threadIdx.x == 0) y[row] = 0.f; row = 0;", "out[i] = 1.f;", 100),
    ],
)
def test_guards_and_loops_bound_the_stores_behind_them(guard: str, body: str, end: int) -> None:
    assert cuda_ends(ROW.replace("GUARD", guard).replace("BODY", body))[-1] == end


@pytest.mark.parametrize(
    "guard",
    [
        "row = y[0] > 8.f ? same_row(row) : row;",
        "int* where = &row; *where = 900;",
        "set(row);",
        "int& same = row; same = 900;",
        "switch (rows) { case 64: row = 900; }",
        "do { row += 7; } while (row < 900);",
    ],
)
def test_nothing_is_claimed_of_a_number_that_may_have_changed(guard: str) -> None:
    text = "__device__ void set(int& row) { row = 900; }\n" + ROW.replace("GUARD", guard).replace(
        "BODY", "out[i] = 1.f;"
    )
    assert cuda_ends(text) == []


def test_bounds_of_operations_hold_for_all_numbers_within_theirs() -> None:
    atoms = Atoms()
    a, b = atoms.between(2, 9), atoms.between(1, 4)
    plain = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "//": lambda x, y: x // y}
    rest = {"%": lambda x, y: x % y, "min": min, "max": max, "&": lambda x, y: x & y}
    for op, function in (plain | rest).items():
        made = atoms.apply(op, a, b)
        results = [function(x, y) for x in range(2, 10) for y in range(1, 5)]
        low, high = lowest(atoms, made, {}), highest(atoms, made, {})
        assert low is not None and high is not None and low <= min(results) and max(results) <= high


def test_a_limit_on_a_part_of_a_sum_bounds_the_whole() -> None:
    atoms = Atoms()
    a, b = atoms.between(0, 100), atoms.between(0, 3)
    whole = atoms.apply("+", atoms.apply("*", a, Linear(10)), b)
    assert highest(atoms, whole, {}) == 1003
    assert highest(atoms, whole, limited({}, a, Linear(5), 1)) == 43
    assert highest(atoms, whole, limited({}, atoms.apply("+", whole, Linear(1)), Linear(8))) == 7


def test_long_kernels_are_not_followed_for_long() -> None:
    guards = "".join(f"    if (row * {i} + n > {i + 900000}) return;\n" for i in range(1, 1500))
    assert cuda_ends(ROW.replace("GUARD", guards).replace("BODY", "out[i] = 1.f;")) in ([], [6400])
    sums = "    row = 0" + "".join(f" + (row + {i}) * (n - row)" for i in range(100)) + ";\n"
    assert cuda_ends(ROW.replace("GUARD", sums * 40).replace("BODY", "out[i] = 1.f;")) == []


@pytest.mark.parametrize(
    ("test", "doubtful"),
    [
        ("i < n", False),
        ("scale > 0.f && i < n", False),
        ("flag && i < n", False),
        ("n - i > 3 || !(i < rows)", False),
        ("y[i] < 0.f", True),
        ("i < n && y[i] != y[i]", True),
        ("flag && y[0]", True),
        ("i < (y[0] > 0.f ? n : 8)", True),
        ("i < (flag ? n : 8)", False),
        ("i < (n > 64 ? n : 8)", False),
    ],
)
def test_a_store_is_doubtful_where_more_than_positions_and_arguments_decide_it(test: str, doubtful: bool) -> None:
    text = "__global__ void kernel(float* y, int rows, int n, float scale, int flag) {\n"
    text += f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if ({test}) y[i] = 1.f;\n}}\n"
    given = {"y": Buffer("f32", 7, "f32"), "rows": 64, "n": 100, "scale": UNKNOWN, "flag": UNKNOWN}
    assert bool(store_extents(kernel_of(text), given, (64,), (32,)).doubtful) is doubtful


@pytest.mark.parametrize(
    ("body", "doubtful"),
    [
        ("if (y[i] < 0.f) return; y[i] = 1.f;", True),
        ("if (y[i] < 0.f) {} else return; y[i] = 1.f;", True),
        ("if (y[i] < 0.f) { if (n > 3) return; else return; } y[i] = 1.f;", True),
        ("if (i >= n) {} else { if (y[i] < 0.f) return; } y[n + i] = 1.f;", False),
        ("if (i >= n) { if (y[i] < 0.f) return; else return; } else { y[i] = 1.f; }", False),
        ("for (int k = 0; k < n; k++) { if (y[k] < 0.f) break; } y[i] = 1.f;", False),
        ("switch (int(y[i])) { case 1: return; } y[i] = 1.f;", True),
        ("switch (int(y[i])) { case 1: break; } y[i] = 1.f;", False),
        ("switch (int(y[i])) { case 1: y[i] = 1.f; }", True),
        ("switch (n) { case 1: y[i] = 1.f; }", False),
    ],
)
def test_what_stands_behind_a_side_that_leaves_is_under_its_condition(body: str, doubtful: bool) -> None:
    text = "__global__ void kernel(float* y, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    given = {"y": Buffer("f32", 7, "f32"), "n": 100}
    assert bool(store_extents(kernel_of(text + body + "\n}\n"), given, (64,), (32,)).doubtful) is doubtful


@pytest.mark.parametrize(
    ("guard", "end"),
    [
        ("if (i >= n) return;", 100),
        ("if (i < n) {} else return;", 100),
        ("if (i >= n) { if (n > 3) return; else return; }", 100),
        ("if (i >= n) { if (n > 3) return; }", 100),
        ("if (i >= n) { if (y[0] > 3.f) return; }", 2048),
    ],
)
def test_a_side_that_leaves_bounds_what_follows_however_it_is_written(guard: str, end: int) -> None:
    text = "__global__ void kernel(float* y, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    given = {"y": Buffer("f32", 7, "f32"), "n": 100}
    found = store_extents(kernel_of(text + guard + " y[i] = 1.f;\n}\n"), given, (64,), (32,))
    assert set(found.ends.values()) == {end}
