"""The kernels that ran beside a profiler, compiled once more by a fresh process with empty caches, and compared.

What a compiler cache holds was written by the submission's process, and what is found there is what its process loads.
So a cubin that was put there by other means than compiling runs, and is read. A second build tells: the submission is
imported anew in a process that finds nothing and is called as often as beside the profiler, and each kernel that ran
must come out again with the same instructions (`grader.silicon.normal` says what may differ). What does not come out
again proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grader import judge
from grader.clock_profile import UNSEEN_CALLS
from grader.sandbox import SandboxError
from grader.silicon.machine_code import Kernel, MachineCode, collect
from grader.silicon.ncu import ProfilerError
from grader.silicon.normal import plain_name
from grader.silicon.passes import MARKED_CALLS, Bench
from grader.silicon.promises import products_of
from grader.silicon.record import CodeRow
from grader.silicon.tools import ToolError
from grader.supervise import CheckError, remove

__all__ = ["Comparison", "compiled_again"]


def compiled_again(bench: Bench, arch: str, scratch: Path) -> MachineCode:
    """The machine code for `arch` of a second build in a fresh folder. Raises ProfilerError where none came about."""
    kept = scratch.parent / "second-build"
    remove(kept)
    try:
        said = judge.build(
            bench.problem, bench.snapshot, device=bench.device, scale=bench.scale, options=bench.options,
            sandbox=bench.sandbox, scratch=scratch, caches=kept, progress=bench.say, calls=UNSEEN_CALLS + MARKED_CALLS,
        )  # fmt: skip
        if said:
            raise ProfilerError(f"a second build was refused: {said}")
        return collect(kept, arch, bench.sandbox)
    except (CheckError, SandboxError, ToolError) as error:
        raise ProfilerError(f"a second build cannot be read: {error}") from error
    finally:
        remove(kept)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second build, or why there is none."""

    again: MachineCode | ProfilerError

    @property
    def lost(self) -> str:
        """Why there is none; empty where there is."""
        return str(self.again) if isinstance(self.again, ProfilerError) else ""

    def differs(self, kernels: Iterable[Kernel]) -> str:
        """Why machine code that may have run is not what compiling gives, as the end of a sentence; empty if it is."""
        found = tuple(kernels)
        if isinstance(self.again, ProfilerError):
            return "could not be compiled again" if found else ""
        digests, names = self.again.digests, {name for name, _ in self.again.digests}
        if all((plain_name(one.name), one.census.digest) in digests for one in found):
            return ""
        if all(plain_name(one.name) in names for one in found):
            return "has other instructions in the cache that it ran from than when it is compiled again"
        return "does not come out when the submission is compiled again"

    def rows(self, ran: Iterable[tuple[str, Kernel]]) -> tuple[CodeRow, ...]:
        """Each kernel's code that may have run at a shape, by its label, and whether it came out again."""
        labels: dict[tuple[str, str], dict[str, None]] = {}
        kernels: dict[tuple[str, str], Kernel] = {}
        for label, one in ran:
            key = one.name, one.census.digest
            labels.setdefault(key, {})[label] = None
            kernels.setdefault(key, one)
        return tuple(
            CodeRow(
                one.name, one.sha256, one.census.digest, not self.differs([one]), products_of([one.census]),
                tuple(labels[key]),
            )
            for key, one in kernels.items()
        )  # fmt: skip
