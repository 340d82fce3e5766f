"""The kernels that ran beside a profiler, compiled once more by a fresh process with empty caches, and compared.

What a compiler cache holds was written by the submission's process, and what was loaded may have come from anywhere.
So a cubin that was put there by other means than compiling runs, and is read. A second build tells: the submission is
imported anew in a process that finds nothing and is called as often as beside the profiler, and each kernel that ran
must come out again with the same instructions (`grader.silicon.sass.normal` says what may differ). What does not come
out again proves nothing.

NVRTC leaves no file of what it compiles. Kernels that no file of the first build holds are compared with what a further
fresh process, which finds nothing either, has loaded beside the profiler.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from grader.judge import judging as judge
from grader.judge.compiling import Yielding
from grader.judge.judging import Held
from grader.judge.plan import TrialOptions
from grader.judge.session import Session
from grader.sandbox import Sandbox, SandboxError
from grader.sandbox.base import CheckError
from grader.sandbox.folders import remove
from grader.sandbox.snapshot import Snapshot
from grader.silicon.kernels import library_of
from grader.silicon.machine_code import Kernel, MachineCode, collect
from grader.silicon.ncu import ProfilerError
from grader.silicon.passes import MARKED_CALLS, Bench, Counted, count
from grader.silicon.promises import products_of
from grader.silicon.record import CodeRow
from grader.silicon.sass.census import Census
from grader.silicon.sass.normal import plain_name
from grader.silicon.tools import ToolError
from grader.wire.marks import UNSEEN_CALLS
from kbh_lint.problems import Problem

__all__ = ["Comparison", "compiled_again", "compiled_beside", "lacks", "loaded_again", "second_build", "unwritten"]

KEPT = "second-build"
CALLS = UNSEEN_CALLS + MARKED_CALLS  # as beside a profiler


def compiled_again(
    bench: Bench, arch: str, scratch: Callable[[], Path], again: Callable[[], Path | None] = lambda: None, *,
    whole: bool = False,
) -> MachineCode:  # fmt: skip
    """The machine code for `arch` of a second build, made here in a fresh folder or by the one that `again` waits for.
    Raises ProfilerError where there is none.

    With `whole` the submission is called as a build that collects nothing calls it.
    """
    beside = compiled_beside(arch, bench, again)
    if beside is not None:
        return beside
    place = scratch()
    kept = place.parent / KEPT
    remove(kept)
    try:
        second_build(
            bench.problem, bench.snapshot, device=bench.device, scale=bench.scale, options=bench.options,
            sandbox=bench.sandbox, scratch=place, caches=kept, progress=bench.say, held=bench.held, whole=whole,
        )  # fmt: skip
        return collect(kept, arch, bench.sandbox, bench.known)
    except (CheckError, SandboxError, ToolError) as error:
        raise ProfilerError(f"a second build cannot be read: {error}") from error
    finally:
        remove(kept)


def compiled_beside(arch: str, bench: Bench, again: Callable[[], Path | None]) -> MachineCode | None:
    """The machine code of the second build that `again` waits for; None where there was none. Needs no device.

    Raises ProfilerError where it cannot be read.
    """
    kept = again()
    if kept is None:
        return None
    try:
        return collect(kept, arch, bench.sandbox, bench.known)
    except (SandboxError, ToolError) as error:
        raise ProfilerError(f"a second build cannot be read: {error}") from error
    finally:
        remove(kept)


def second_build(
    problem: Problem, snapshot: Snapshot, *, device: str, scale: str, options: TrialOptions, sandbox: Sandbox,
    scratch: Path, caches: Path, progress: Callable[[str], None], held: Held = nullcontext,
    yielding: Yielding | None = None, opened: Callable[[Session], None] = lambda _: None,
    begun: Session | None = None, whole: bool = False,
) -> None:  # fmt: skip
    """Has the submission compiled by a process that finds no caches, and keeps what it compiled in `caches`.

    `begun` is its process where that was started before; `whole` as for a build. Raises ProfilerError where it did not
    come to its end: code that is missing then would say nothing.
    """
    said = judge.build(
        problem, snapshot, device=device, scale=scale, options=options, sandbox=sandbox, scratch=scratch,
        caches=caches, progress=progress, calls=CALLS, held=held, yielding=yielding, opened=opened,
        begun=begun, whole=whole, pristine=True,
    )  # fmt: skip
    if said.refused or said.ended:
        raise ProfilerError(f"a second build did not come to its end: {said.refused or said.ended}")


def unwritten(counted: Counted) -> set[str]:
    """The kernels of the submission's own whose code was loaded and lies in no file that a compiler wrote: what NVRTC
    compiles stays in memory.
    """
    if isinstance(counted.loaded, ToolError) or isinstance(counted.code, ToolError):
        return set()
    known = counted.code.names
    own = {launch.kernel for calls in counted.calls.values() for one in calls for launch in one
           if launch.number in counted.loaded and not library_of(launch.kernel, known)}  # fmt: skip
    return own - known


def loaded_again(bench: Bench, metrics: Sequence[str]) -> frozenset[tuple[str, str]]:
    """The names and instructions of all kernels that a fresh process, which finds no caches, has loaded beside the
    profiler. Raises ProfilerError.
    """
    found = count(replace(bench, caches=None, ahead=lambda _: None), metrics).read().loaded
    if isinstance(found, ToolError):
        raise ProfilerError(f"what a second process loads cannot be read: {found}")
    return frozenset((plain_name(one.kernel), one.digest) for one in found.values())


def lacks(again: MachineCode, ran: MachineCode, launched: Collection[str]) -> bool:
    """Whether the build `again` lacks code of kernels that were launched from `ran`, as a build that launches nothing
    may.
    """
    kernels = [one for one in ran.kernels if one.name in launched]
    return any((plain_name(one.name), one.census.digest) not in again.digests for one in kernels)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second build, or why there is none; and what a further process has loaded, by name and instructions, where
    that was asked for.
    """

    again: MachineCode | ProfilerError
    loaded: frozenset[tuple[str, str]] = frozenset()

    @property
    def lost(self) -> str:
        """Why there is no second build to compare with; empty where there is one."""
        return str(self.again) if isinstance(self.again, ProfilerError) else ""

    def differs(self, kernels: Iterable[Kernel], loaded: Census | None = None) -> str:
        """Says how code that ran differs from what compiling gives, as the end of a sentence; empty if it does not.

        `kernels` are those of its name in the caches that it ran from, and `loaded` is what the driver had loaded.
        `loaded` is compared where the loader writes no addresses into the code, else the kernels of the cache are.
        """
        found = tuple(kernels)
        if loaded is not None and not found and (plain_name(loaded.kernel), loaded.digest) in self.loaded:
            return ""
        if isinstance(self.again, ProfilerError):
            return "could not be compiled again" if found or loaded is not None else ""
        if loaded is not None and not self._relocated(loaded.kernel):
            return self._unlike([(plain_name(loaded.kernel), loaded.digest)], "was loaded with")
        return self._unlike([(plain_name(one.name), one.census.digest) for one in found], "has")

    def _unlike(self, found: Sequence[tuple[str, str]], has: str) -> str:
        assert isinstance(self.again, MachineCode)
        digests = self.again.digests
        if all(one in digests for one in found):
            return ""
        if {name for name, _ in found} <= {name for name, _ in digests}:
            return f"{has} other instructions than come out when it is compiled again"
        return "does not come out when the submission is compiled again"

    def _relocated(self, name: str) -> bool:
        assert isinstance(self.again, MachineCode)
        same = (one for one in self.again.kernels if plain_name(one.name) == plain_name(name))
        return any(one.census.relocated or one.census.calls for one in same)

    def rows(self, ran: Iterable[tuple[str, Sequence[Kernel], Census | None]]) -> tuple[CodeRow, ...]:
        """The code that may have run at a shape, by its label, and whether it came out again."""
        rows: dict[tuple[str, str], CodeRow] = {}
        for label, kernels, loaded in ran:
            files = {(one.name, one.census.digest): one.sha256 for one in kernels}
            for census in [loaded] if loaded is not None else [one.census for one in kernels]:
                key = census.kernel, census.digest
                row = rows.get(key) or CodeRow(
                    census.kernel, files.get(key, ""), census.digest, not self.differs(kernels, loaded),
                    loaded is not None, products_of([census]), (),
                )  # fmt: skip
                rows[key] = replace(row, shapes=tuple(dict.fromkeys((*row.shapes, label))))
        return tuple(rows.values())
