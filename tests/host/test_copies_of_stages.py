"""What the stages of a loop take of shared memory, held against what Triton's compiler gives them for three GPUs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from kbh_lint.base import ir
from kbh_lint.base.values import Buffer, Env, Func, Scalar, Sym
from kbh_lint.dsl.triton import stages
from kbh_lint.frontends.python import lower

KERNEL = """
@triton.jit
def kernel(x, w, t, u, out, M, N, K, S, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    kk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
{before}    for s in range(0, K, BK):
        k = s + kk
{loop}        acc = tl.dot(a, b, acc)
{end}{after}    tl.store(out + m[:, None] * N + n[None, :], acc.to(tl.bfloat16))
"""
TILES = {"BM": 64, "BN": 64, "BK": 32}
TILE = 64 * 32 * 2  # bytes of either operand
SIZES = {"M": 512, "N": 2048, "K": 1024, "S": 3}
TABLES = {"t": "i32", "u": "i64"}
STAGES = 5
ALL = 2 * TILE * (STAGES - 1)
A = "a = tl.load(x + m[:, None] * K + k[None, :])"
B = "b = tl.load(w + k[:, None] * N + n[None, :])"
B_ROWS = "b = tl.load(w + i[:, None] * N + n[None, :])"
B_ELEMENTS = "b = tl.load(w + i[:, None] + (n * S)[None, :])"


class Case(NamedTuple):
    """Statements of a loop, and of how many copies of an operand the linter is certain with five stages."""

    loop: tuple[str, ...]
    copies: int
    before: str = ""
    end: str = ""
    after: str = ""
    sizes: Mapping[str, int] = SIZES
    tables: Mapping[str, str] = TABLES

    def text(self) -> str:
        """The text of the kernel."""
        loop = "".join(f"        {line}\n" for line in self.loop)
        end = f"        {self.end}\n" if self.end else ""
        before, after = (f"    {line}\n" if line else "" for line in (self.before, self.after))
        return KERNEL.format(before=before, loop=loop, end=end, after=after)


CASES = {
    "both direct": Case((A, B), 8),
    "under a mask that a table does not make": Case((A[:-1] + ", mask=(m < M)[:, None], other=0.0)", B), 8),
    # One operand is gathered element by element: it is not loaded ahead, and takes no stage from the other one.
    "gathered by elements": Case((A, "i = tl.load(t + k)", B_ELEMENTS), 4),
    "gathered by elements under a mask": Case(
        (A, "i = tl.load(t + k)", B_ELEMENTS[:-1] + ", mask=(i >= 0)[:, None], other=0.0)"), 4),
    "the left one gathered": Case(
        ("i = tl.load(u + k)", "a = tl.load(x + (m * S)[:, None] + tl.where(i > 0, i, 0)[None, :])", B), 4),
    "gathered by two tables": Case((A, "i = tl.load(u + tl.load(t + k))", B_ELEMENTS), 4),
    "gathered by what was loaded ahead": Case(
        (A, B_ELEMENTS), 4, "i = tl.load(t + kk)", "i = tl.load(t + k + BK)"),
    # Loads that are wide enough share the stages with those that lead to them.
    "rows of a table": Case((A, "i = tl.load(t + k)", B_ROWS), 4),
    "rows of a table of few small numbers": Case((A, "i = tl.load(t + k)", B_ROWS), 4, tables={**TABLES, "t": "i8"}),
    "rows of a table of small numbers, each fourth": Case(
        (A, "i = tl.load(t + k * 4)", B_ROWS), 8, tables={**TABLES, "t": "i8"}),
    "rows of two tables": Case((A, "i = tl.load(u + tl.load(t + k))", B_ROWS), 2),
    "rows of a page": Case((A, "i = tl.load(t + s // BK) * BK + kk", B_ROWS), 4),
    "under a mask of a table": Case((A, "i = tl.load(t + k)", B[:-1] + ", mask=(i > 0)[:, None], other=0.0)"), 4),
    "elements that are said to be neighbours": Case(
        (A, "i = tl.max_contiguous(tl.multiple_of(tl.load(t + k), 8), 8)", B_ELEMENTS), 2),
    # Nothing is loaded ahead where an iteration hands on what it was given.
    "the counter is handed on": Case((A, B), 0, "last = 0", "last = s", "acc += last"),
    "the counter and nothing are handed on": Case((A, B), 0, "last = 0", "last = s + 0", "acc += last"),
    "an argument is handed on": Case((A, B), 0, "last = 0", "last = M", "acc += last"),
    "the last place is handed on": Case(
        ("a = tl.load(p)", B, "p = q"), 0, "q = x + m[:, None] * K + kk[None, :]\n    p = q", "q += BK"),
    "a place that moves": Case(("a = tl.load(p)", B), 8, "p = x + m[:, None] * K + kk[None, :]", "p += BK"),
    # What does not move is loaded before the loop.
    "the same tile in each iteration": Case((A, "b = tl.load(w + kk[:, None] * N + n[None, :])"), 4),
    "the same tile by a difference": Case((A, "b = tl.load(w + (k - s)[:, None] * N + n[None, :])"), 4),
    # The compiler knows of an argument whether 16 divides it, and no more.
    "rows of 8 numbers more": Case((A, B), 4, sizes={**SIZES, "K": 1000}),
    "a name that is given another place afterwards": Case(
        ("p = x + m[:, None] * S + k[None, :]", "a = tl.load(p)", "p = x + m[:, None] * K + k[None, :]", B), 4),
}  # fmt: skip
MORE = ("gathered by what was loaded ahead", "rows of a table of few small numbers")  # than the linter is certain of
LEVELS = ("both direct", "gathered by two tables", "rows of a table", "rows of two tables")
JOBS = [(case, chip, STAGES) for case in CASES for chip in (80, 90)]
JOBS += [(case, 120, count) for case in LEVELS for count in (2, 4, 7)]
# In a process of its own: the interpreter that other tests of the process may have switched on is chosen when triton is
# imported. It says how much shared memory each kernel takes.
BUILD = """
import importlib.util, json, os, sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
given = json.load(sys.stdin)
os.environ["TRITON_CACHE_DIR"] = given["cache"]
kernels = {}
for name, path in given["files"].items():
    spec = importlib.util.spec_from_file_location(f"case_{len(kernels)}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernels[name] = module.kernel
taken = []
for name, chip, stages in given["jobs"]:
    signature, sizes = given["signatures"][name], given["sizes"][name]
    aligned = {(at,): [["tt.divisibility", 16]] for at, one in enumerate(signature) if sizes.get(one, 16) % 16 == 0}
    aligned = {at: one for at, one in aligned.items() if list(signature.values())[at[0]] != "constexpr"}
    source = ASTSource(kernels[name], signature, given["tiles"], aligned)
    target = GPUTarget("cuda", chip, 32)
    taken.append(compile(source, target=target, options={"num_warps": 4, "num_stages": stages}).metadata.shared)
print(json.dumps(taken))
"""


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int, int], int]:
    """The bytes of shared memory that each job takes, by Triton's compiler."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed")
    folder = tmp_path_factory.mktemp("kernels")
    files = {name: folder / f"{at}.py" for at, name in enumerate(CASES)}
    for name, path in files.items():
        path.write_text("import triton\nimport triton.language as tl\n" + CASES[name].text(), encoding="utf-8")
    pointers = {name: {"x": "*bf16", "w": "*bf16", **_tables(one), "out": "*bf16"} for name, one in CASES.items()}
    given = {
        "cache": str(folder / "cache"), "files": {name: str(path) for name, path in files.items()}, "tiles": TILES,
        "jobs": JOBS, "sizes": {name: one.sizes for name, one in CASES.items()},
        "signatures": {
            name: {**one, **dict.fromkeys(SIZES, "i32"), **dict.fromkeys(TILES, "constexpr")}
            for name, one in pointers.items()
        },
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", BUILD], input=json.dumps(given), capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return dict(zip(JOBS, json.loads(done.stdout), strict=True))


def _tables(case: Case) -> dict[str, str]:
    return {name: f"*{kind}" for name, kind in case.tables.items()}


def copied(case: Case, count: int) -> int:
    """The bytes that the linter is certain of."""
    (node,) = (node for node in lower(case.text()).body if isinstance(node, ir.FuncDef))
    types = {"x": "bf16", "w": "bf16", "out": "bf16", **case.tables}
    pointers = {name: Buffer(dtype, at, dtype) for at, (name, dtype) in enumerate(types.items())}
    sizes = {name: Scalar(value) for name, value in case.sizes.items()}
    kernel = Func(node, Env({"tl": Sym("triton.language")}))
    return stages.copied(kernel, {**pointers, **sizes, **TILES}, set(pointers), count)


@pytest.mark.parametrize("name", CASES)
def test_a_loop_is_said_to_keep_so_many_copies(name: str) -> None:
    assert copied(CASES[name], STAGES) == CASES[name].copies * TILE


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chip", "count"), JOBS)
def test_the_compiler_takes_no_less(
    name: str, chip: int, count: int, taken: Mapping[tuple[str, int, int], int]
) -> None:
    assert taken[name, chip, count] >= copied(CASES[name], count)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.copies < 8 and name not in MORE])
def test_the_compiler_does_not_keep_all_copies(name: str, taken: Mapping[tuple[str, int, int], int]) -> None:
    assert taken[name, 80, STAGES] < ALL


@pytest.mark.parametrize(("name", "copies"), [
    ("both direct", [2, 4, 6, 8, 10, 12]), ("gathered by two tables", [1, 2, 3, 4, 5, 6]),
    ("rows of a table", [2, 2, 2, 4, 4, 6]), ("rows of two tables", [2, 2, 2, 2, 2, 4]),
])  # fmt: skip
def test_loads_that_lead_to_others_share_the_stages(name: str, copies: list[int]) -> None:
    assert [copied(CASES[name], count) // TILE for count in range(2, 8)] == copies
