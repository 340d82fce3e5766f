"""Tuners of the submission's own, below Triton's class of what is launched: `tuner[grid](...)` calls their `run`."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, DOT, GEMM, GRID, HEAD, OUTPUT, WIDE, classes, lint, model, states

TUNER = """
import builtins

class Tuner(triton.KernelInterface):
    def __init__(self, fn, configs):
        self.fn, self.configs, self.best = fn, configs, {}

    def timed(self, args, config, given):
        def call():
            self.fn.run(*args, num_warps=config.num_warps, num_stages=config.num_stages, **dict(given, **config.kwargs))
        return triton.testing.do_bench(call, quantiles=(0.5, 0.2, 0.8), rep=40)

    def run(self, *args, **given):
        if args[-1] not in self.best:
            times = {config: self.timed(args, config, given) for config in self.configs}
            self.best[args[-1]] = builtins.min(times, key=times.get)
        best = self.best[args[-1]]
        RUN

gemm = Tuner(gemm, [triton.Config({"BM": 64, "BN": 128, "BK": k}, num_warps=4) for k in (64, 128)])
"""
RUN = "return self.fn.run(*args, num_warps=best.num_warps, num_stages=best.num_stages, **given, **best.kwargs)"
LIBRARY = "args[3].copy_((args[0].half() @ args[1].half().t()).float() * args[2])"
BODY = f"{OUTPUT.strip()}\ngemm[{GRID}]({ARGUMENTS})\nreturn y\n"


def program(run: str = RUN, kernel: str = GEMM) -> str:
    return f"{HEAD}\n\n@triton.jit{kernel}{TUNER.replace('RUN', run)}{model(BODY)}"


def test_its_kernel_is_launched(tmp_path: Path) -> None:
    report = lint(tmp_path, program())
    assert set(states(report).values()) == {"kept"}
    assert not classes(report)


@pytest.mark.parametrize(
    ("run", "kernel", "found"),
    [
        (RUN, GEMM.replace(DOT, WIDE), "fp8-upcast-bf16-gemm"),
        (LIBRARY, GEMM, "dead-decoy-kernel"),
    ],
)
def test_what_its_run_does_counts(tmp_path: Path, run: str, kernel: str, found: str) -> None:
    assert found in classes(lint(tmp_path, program(run, kernel)))
