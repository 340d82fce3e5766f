"""A second build beside the first: nvcc takes half a minute for a file with torch's headers, and then takes it once.

Nothing is timed while a submission is compiled. Its second process has a user, a sandbox and a folder of its own and
finds nothing of the first, so what it compiles shows as much as what it would compile later
(`grader.silicon.rebuild` holds the two against each other).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import torch

from grader.deck import DeckError
from grader.driver import GpuError
from grader.job import Job, Progress
from grader.sandbox import Sandbox, SandboxError, second
from grader.supervise import CheckError, remove
from grader.turns import turn

__all__ = ["beside"]


@contextlib.contextmanager
def beside(job: Job, sandbox: Sandbox, caches: Path | None) -> Iterator[None]:
    """While the first build runs within, a second one leaves what it compiled in `caches`, if it comes to its end.

    Nothing is done for a submission that compiles without nvcc, for one that is not to be read (None), and where the
    sandbox does not keep two processes apart. The end waits for the second; an interrupt does not.
    """
    if caches is None or not job.snapshot.calls_nvcc:
        yield
        return
    place = job.scratch / "second"
    remove(place)
    thread = threading.Thread(target=_second, args=(job, sandbox, place, caches), daemon=True)
    thread.start()
    try:
        yield
    except Exception:
        thread.join()
        raise
    thread.join()
    remove(place)


def _second(job: Job, sandbox: Sandbox, place: Path, caches: Path) -> None:
    """The second build. Whatever ends it early leaves nothing: the evidence pass then makes one."""
    from grader.silicon.ncu import ProfilerError
    from grader.silicon.rebuild import second_build

    done = False

    def wait(text: str) -> None:
        job.tell(Progress("build", "wait", text))

    try:
        other = second(sandbox)
        if other is not None:
            second_build(
                job.problem, job.snapshot, device=job.device, scale=job.chosen.record.scale, options=job.options,
                sandbox=other, scratch=place, caches=caches, progress=lambda text: None,
                held=lambda: turn(job.device, wait),
            )  # fmt: skip
            done = True
    except (CheckError, DeckError, GpuError, OSError, ProfilerError, SandboxError, torch.OutOfMemoryError):
        pass  # two at a time may want more of the machine than one, and the one that counts is told of
    finally:
        if not done:
            remove(caches)
