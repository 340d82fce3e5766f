"""A GPU can be used in every kind of sandbox that works on the machine, and a profiler's tracer sees what it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from grader.record.sandboxes import TRAITS
from grader.sandbox import Jail, SandboxError, choose
from grader.sandbox.places import searched
from grader.sandbox.supervise import environment

pytestmark = pytest.mark.gpu
SECONDS = 120
PROGRAM = """
import sys
sys.path += sys.argv[1:]
import torch
x = torch.ones(64, 64, device="cuda")
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as traced:
    total = (x @ x).sum().item()
kernels = [event for event in traced.events() if event.device_type == torch.autograd.DeviceType.CUDA]
print("total", total, "kernels", len(kernels) > 0)
"""


@pytest.mark.parametrize("kind", [kind for kind, row in TRAITS.items() if row.closed])
def test_a_process_in_the_sandbox_computes_on_the_gpu_and_is_traced(kind: Any, tmp_path: Path) -> None:
    try:
        sandbox = choose(device="cuda", wanted=kind)
    except SandboxError as error:
        assert "CUDA does not start" not in str(error)
        pytest.skip(str(error))
    tmp_path.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with (tmp_path / "output").open("w+b") as output:
        process = sandbox.spawn(
            [sys.executable, "-I", "-c", PROGRAM, *map(str, searched())], env=environment(scratch), cwd=scratch, fds=(),
            jail=Jail((), (scratch,), gpu=True, profiler=True), output=output,
        )  # fmt: skip
        try:
            status = process.wait(SECONDS)
        finally:
            sandbox.end(process)
        output.seek(0)
        said = output.read().decode("utf-8", "replace")
    assert status == 0 and said.splitlines()[-1] == "total 262144.0 kernels True", said[-2000:]
