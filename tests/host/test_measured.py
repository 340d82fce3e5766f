"""Models that time several ways and keep the fastest: any of them may be the one that is scored."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, GRID, HEAD, KERNEL, OUTPUT, classes, lint, model, reasons, states

WAYS = f"""

def tiled(tiles):
    def honest(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
{OUTPUT}        gemm[(triton.cdiv(M, tiles), triton.cdiv(N, 128))]({ARGUMENTS}, BM=tiles, BN=128, BK=64)
        return y
    return honest


def library(self, x):
    y = torch.matmul(x.to(torch.bfloat16), self.weight.to(torch.bfloat16).t())
    return (y * self.weight_scale).to(torch.bfloat16)


WAYS = [ALL]
"""
LOOP = """\
best = float("inf")
for way in WAYS:
    {before}
    way(self, x)
    {after}
    if best is None or time < best:
        best, self.way = time, way
"""
EVENT = "torch.cuda.Event(enable_timing=True)"
BENCH = "triton.testing.do_bench(lambda: way(self, x))"
TIMER = "Timer('work()', globals={'work': lambda: way(self, x)}).timeit(9)"
TUNERS = {
    "do_bench as a key": f"self.way = min(WAYS, key=lambda way: {BENCH})",
    "do_bench in a loop": LOOP.format(before="pass", after=f"time = {BENCH}"),
    "events": LOOP.format(
        before=f"start, end = {EVENT}, {EVENT}; start.record()",
        after="end.record(); end.synchronize(); time = start.elapsed_time(end) / 1000",
    ),
    "a clock": LOOP.format(before="start = clock.perf_counter()", after="time = clock.perf_counter() - start"),
    "sorted pairs": f"self.way = WAYS[sorted(({BENCH}, i) for i, way in enumerate(WAYS))[0][1]]",
    "a dict of times": f"times = {{way: {BENCH} for way in WAYS}}\nself.way = min(times, key=times.get)",
    "an array of times": f"self.way = WAYS[int(np.argmin([{BENCH} for way in WAYS]))]",
    "a timer": f"self.way = min(WAYS, key=lambda way: {TIMER}.median)",
}
IMPORTS = "import time as clock\nimport numpy as np\nfrom torch.utils.benchmark import Timer\n"


def tuned(how: str, ways: list[str]) -> str:
    """A model that times ways in its first call."""
    lines = "".join(f"    {line}\n" for line in TUNERS[how].splitlines())
    body = f"if self.way is None:\n{lines}return self.way(self, x)\n"
    text = HEAD + IMPORTS + KERNEL + WAYS.replace("ALL", ", ".join(ways)) + model(body, "self.way = None\n")
    return text


@pytest.mark.parametrize("how", TUNERS)
@pytest.mark.parametrize("at", [0, 4, 9])
def test_a_library_among_the_ways_that_are_timed_is_told(tmp_path: Path, how: str, at: int) -> None:
    ways = [f"tiled({16 << i % 4})" for i in range(9)]
    report = lint(tmp_path, tuned(how, [*ways[:at], "library", *ways[at:]]))
    assert set(states(report).values()) == {"broken"}, states(report)
    assert "library-gemm-wrapper" in classes(report)


@pytest.mark.parametrize("how", TUNERS)
def test_a_library_whose_time_is_only_shown_is_no_way(tmp_path: Path, how: str) -> None:
    text = tuned(how, ["tiled(16)", "library"]).replace("return self.way(self, x)", "return WAYS[0](self, x)")
    report = lint(tmp_path, text)
    assert not classes(report)
    assert set(states(report).values()) == {"kept"}, reasons(report)


@pytest.mark.parametrize("how", TUNERS)
def test_many_tilings_of_one_kernel_are_one_way(tmp_path: Path, how: str) -> None:
    report = lint(tmp_path, tuned(how, [f"tiled({16 << i % 4})" for i in range(24)]))
    assert not classes(report)
    assert set(states(report).values()) == {"kept"}, reasons(report)


LIMITS = {"less than a number": "if time < 0.002", "more than a number": "if not time > 0.002"}


@pytest.mark.parametrize("how", LIMITS)
def test_a_time_may_be_above_and_below_any_number(tmp_path: Path, how: str) -> None:
    body = f"way = WAYS[0]\ntime = {BENCH}\n{LIMITS[how]}:\n    return way(self, x)\nreturn WAYS[1](self, x)\n"
    text = HEAD + KERNEL + WAYS.replace("ALL", "tiled(64), library") + model(body)
    report = lint(tmp_path, text)
    assert classes(report) or set(states(report).values()) == {"unproven"}, states(report)


FACTOR = """

def scaled(factor):
    def way(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        y = library(self, x)
        gemm[GRID](x, self.weight, self.weight_scale, y, M, N, K, factor, BM=64, BN=128, BK=64)
        return y
    return way
"""


@pytest.mark.parametrize(("factors", "state"), [((1.0, 1.0), "kept"), ((1.0, 0.0), "broken")])
def test_a_factor_of_nothing_makes_another_way(tmp_path: Path, factors: tuple[float, float], state: str) -> None:
    old = "tl.store(y + rows[:, None] * N + cols[None, :], out.to(tl.bfloat16), mask=(rows < M)[:, None])"
    new = f"if factor > 0.5:\n        {old}"
    kernel = KERNEL.replace("M, N, K, BM", "M, N, K, factor, BM").replace(old, new)
    ways = WAYS.replace("ALL", ", ".join(f"scaled({factor})" for factor in factors))
    text = (
        HEAD
        + kernel
        + FACTOR.replace("GRID", GRID)
        + ways
        + model(f"way = min(WAYS, key=lambda way: {BENCH})\nreturn way(self, x)")
    )
    assert states(lint(tmp_path, text))["authored-compute"] == state
