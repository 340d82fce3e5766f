"""How the process of a submission is started. Needs no torch, so that one can import it while the judge does."""

from __future__ import annotations

from pathlib import Path

from grader.sandbox.base import Sandbox
from grader.sandbox.snapshot import Snapshot
from grader.sandbox.supervise import Child

__all__ = ["SETUP_LIMIT", "candidate"]

SETUP_LIMIT = 300.0  # seconds for what is mostly our own work, such as a start


def candidate(
    snapshot: Snapshot, *, device: str, sandbox: Sandbox, scratch: Path, timing: bool, published: bool = False,
    ahead: bool = False, collect: bool = False,
) -> Child:  # fmt: skip
    """Starts `grader.candidate.serve` for a snapshot, in a folder of its own; no code of the submission runs yet.

    With `timing` it has a clock, with `published` that of the protocol of 2026-04. `ahead` of its turn it imports torch
    and leaves the device alone. With `collect` it compiles what Triton would launch and launches nothing. Raises what a
    sandbox raises.
    """
    on_gpu = device.partition(":")[0] == "cuda"
    arguments = [str(snapshot.file), "--device", device]
    arguments += ["--timing"] if timing else []
    arguments += ["--published"] if published else []
    arguments += ["--ahead"] if ahead else []
    arguments += ["--collect"] if collect else []
    arguments += ["--interpret"] if device.partition(":")[0] == "cpu" and snapshot.triton else []
    folder = snapshot.file.parent
    return Child(
        arguments, sandbox=sandbox, scratch=scratch, read=(folder,), cwd=folder, budget=SETUP_LIMIT, gpu=on_gpu,
        submission=folder,
    )  # fmt: skip
