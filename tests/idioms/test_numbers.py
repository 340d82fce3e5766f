"""The honest idioms compute what their problem asks for: Triton's through its interpreter, all of them on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from idiom_catalogue import HERE, Idiom, load
from idiom_reference import SMALL, error, load_module
from shares import taken

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")
IDIOMS = load()
LIMIT = {"fp8": 2e-2, "int4": 2e-2, "kahan": 1e-5}
INTERPRETED = [i for i in IDIOMS if i.triton and i.name not in {"fp8/triton_autotune", "fp8/cuda_graph"}]


@pytest.fixture(scope="module")
def errors(request: pytest.FixtureRequest, once: Callable[..., Any]) -> dict[str, float]:
    """Worst error of each interpreted idiom; Triton reads the switch to its interpreter once, hence the process."""
    names = [idiom.name for idiom in taken(request, "idiom") if idiom in INTERPRETED]
    return dict(once("interpreted-idioms", lambda: interpreted(names)))


def interpreted(names: Sequence[str]) -> dict[str, float]:
    command = [sys.executable, str(HERE / "idiom_reference.py"), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.share(3)
@pytest.mark.parametrize("idiom", INTERPRETED, ids=lambda idiom: idiom.name)
def test_an_interpreted_triton_idiom_is_within_tolerance(idiom: Idiom, errors: dict[str, float]) -> None:
    assert errors[idiom.name] < LIMIT[idiom.name.split("/")[0]]


def _skip_elsewhere(idiom: Idiom) -> None:
    """Skip an idiom that this GPU cannot run: the first `arch` is the one the file builds for."""
    major, minor = torch.cuda.get_device_capability()
    archs = idiom.cuda.get("arch", [])
    if idiom.cuda.get("pinned") and archs[0].rstrip("a") != f"sm_{major}{minor}":
        pytest.skip(f"built for {archs[0]}")
    if idiom.cuda.get("cutlass") and "CUTLASS_PATH" not in os.environ:
        pytest.skip("CUTLASS_PATH is not set")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.name)
def test_an_idiom_is_within_tolerance_on_a_gpu(idiom: Idiom) -> None:
    _skip_elsewhere(idiom)
    group = idiom.name.split("/")[0]
    module = load_module(idiom.path)
    for sizes in SMALL[group]:
        assert error(group, module, sizes, "cuda") < LIMIT[group], sizes
