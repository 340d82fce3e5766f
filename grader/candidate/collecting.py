"""Collects what Triton would compile, and compiles all of it at once, without launching any of it.

A submission that is only called compiles one kernel after the other, each as it comes to it. Here each launch is a
warm-up: the kernel is handed to a compiler in a process of its own, and the call goes on at once. So a call at each
shape takes no longer than its host code, and the device is not needed while the compilers work. What comes out lies in
Triton's cache.

What the submission computes with results that no kernel wrote is garbage, and so is what it measures. A process that
collected is good for nothing else, and what it did not collect is compiled where it is called.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Collector"]

LEAST_CPUS = 4  # of which half are left to what is timed meanwhile
LEAST_SECONDS = 1.0  # of a benchmark, as its caller is told: the same for all, so the first choice is the best


@dataclass
class _Later:
    """What a compiler will have put into the cache: whoever asks for it waits for that, and then reads it."""

    done: Future[None]
    read: Callable[[], Any]
    _key: str = field(default="")

    def result(self) -> Any:
        """The compiled kernel. Raises what compiling it raises."""
        self.done.result()
        return self.read()


class Collector:
    """Stands in for launches of Triton's kernels from now on; compilers run at once on half of the processors."""

    def __init__(self) -> None:
        """Raises ImportError where this Triton cannot compile apart from launching."""
        os.environ["TRITON_CACHE_AUTOTUNING"] = "0"  # what was chosen by these times is not to be kept
        import triton.testing
        from triton.runtime._async_compile import AsyncCompileMode
        from triton.runtime.jit import JITFunction

        self._found: list[Future[None]] = []
        every = sorted(os.sched_getaffinity(0))
        self._where = every[len(every) // 2 :] if len(every) >= LEAST_CPUS else every
        self._compilers = ThreadPoolExecutor(len(self._where))
        self._mode = AsyncCompileMode(self, ignore_errors=True)
        self._mode.__enter__()  # for good
        launch = JITFunction.run

        def run(kernel: object, *arguments: object, grid: object, warmup: bool = False, **named: object) -> object:
            return launch(kernel, *arguments, grid=grid, warmup=True, **named)

        JITFunction.run = run
        triton.testing.do_bench = triton.testing.do_bench_cudagraph = _once

    def submit(self, compile: Callable[[], Any]) -> _Later:
        """Queues the compilation of one kernel; this is the executor's interface that Triton calls."""
        self._found.append(self._compilers.submit(_apart, compile, self._where))
        return _Later(self._found[-1], compile)

    def wait(self) -> int:
        """Waits for all compilers; how many kernels there were."""
        wait(self._found)
        return len(self._found)


def _apart(compile: Callable[[], object], where: Sequence[int]) -> None:
    """Compiles on some processors, in a process that is a copy of this one. Its result is what lies in the cache;
    whether it failed is found when the kernel is wanted.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, where)
        compile()
    finally:
        os._exit(0)


def _once(
    function: Callable[[], object], *_: object, quantiles: Sequence[float] | None = None, return_mode: str = "mean",
    **__: object,
) -> float | list[float]:  # fmt: skip
    """Calls what is to be measured, once, and says that it took as long as anything else."""
    function()
    if quantiles is not None:
        times = [LEAST_SECONDS] * len(quantiles)
        return times if len(times) != 1 else times[0]
    return [LEAST_SECONDS] if return_mode == "all" else LEAST_SECONDS
