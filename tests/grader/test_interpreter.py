"""Triton's interpreter after `install()`: operation by operation against torch, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from grader.candidate.interpreter.formats import BF16, E4M3, E5M2, Narrow, truncate_tf32

PROGRAMS = Path(__file__).with_name("interpreter_programs.py")
CHECKS = re.findall(r"^def check_(\w+)", PROGRAMS.read_text(encoding="utf-8"), re.MULTILINE)
TORCH = {"bf16": torch.bfloat16, "fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux")


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    settings = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1", **(env or {})}
    settings.pop("TRITON_INTERPRET", None)
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=settings, timeout=180)


@pytest.fixture(scope="module")
def told(once: Callable[..., Any]) -> dict[str, str]:
    """What each check said; empty when all was well."""
    return dict(once("interpreter-checks", checked))


def checked() -> dict[str, str]:
    done = run(str(PROGRAMS))
    assert "RESULT" in done.stdout, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.split("RESULT", 1)[1])
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_interpreter(told: dict[str, str], check: str) -> None:
    assert told[check] == "", told[check]


def test_a_triton_that_was_imported_as_a_compiler_is_refused() -> None:
    done = run("-c", "import triton\nfrom grader.candidate.interpreter import install\ninstall()")
    assert done.returncode == 1
    assert "InterpreterRefusal: Triton was imported before the interpreter was installed" in done.stderr


def test_another_triton_is_refused_with_its_version() -> None:
    script = (
        "import os\nos.environ['TRITON_INTERPRET'] = '1'\nimport triton\ntriton.__version__ = '9.9.9'\n"
        "from grader.candidate.interpreter import install\ninstall()"
    )
    done = run("-c", script)
    assert "InterpreterRefusal: the interpreter is known for Triton 3.7.x, and this is 9.9.9" in done.stderr


def test_a_machine_without_triton_is_told_so() -> None:
    script = "import sys\nsys.modules['triton'] = None\nfrom grader.candidate.interpreter import install\ninstall()"
    done = run("-c", script)
    assert "InterpreterRefusal: Triton cannot be imported here" in done.stderr


def test_a_submission_cannot_swallow_a_refusal() -> None:
    script = (
        "from grader.candidate.interpreter import install\ninstall()\nimport torch\n"
        "try:\n    torch.cuda.current_device()\nexcept Exception:\n    print('swallowed')"
    )
    done = run("-c", script)
    assert "swallowed" not in done.stdout
    assert "it calls torch.cuda.current_device, and this is a check without a GPU" in done.stderr


@pytest.mark.parametrize("form", [BF16, E4M3, E5M2], ids=lambda form: form.name)
def test_formats_agree_with_torch_on_every_stored_value(form: Narrow) -> None:
    codes = np.arange(2 ** (8 * np.dtype(form.storage).itemsize)).astype(form.storage)
    wide = form.decode(codes)
    assert np.array_equal(wide, torch.from_numpy(codes).view(TORCH[form.name]).float().numpy(), equal_nan=True)
    assert np.array_equal(form.encode(wide)[~np.isnan(wide)], codes[~np.isnan(wide)])
    assert np.isnan(form.decode(form.encode(wide[np.isnan(wide)]))).all()
    assert np.array_equal(form.round(wide)[np.isfinite(wide)], wide[np.isfinite(wide)])


@pytest.mark.parametrize("form", [BF16, E4M3, E5M2], ids=lambda form: form.name)
def test_formats_round_as_torch_does_inside_their_range(form: Narrow) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(200_000) * np.exp2(rng.integers(-30, 9, 200_000))
    for wide in (values.astype(np.float32), values.astype(np.float32).astype(np.float64)):
        inside = wide[np.abs(wide) <= form.largest]
        want = torch.from_numpy(inside).float().to(TORCH[form.name]).float().numpy()
        assert np.array_equal(form.round(inside), want)


def test_what_is_too_large_saturates_in_fp8_and_overflows_in_bf16() -> None:
    large = np.array([np.inf, -np.inf, 1e30, -470.0, 3.4e38, np.nan], dtype=np.float32)
    assert E4M3.round(large)[:5].tolist() == [448, -448, 448, -448, 448]
    assert E5M2.round(large)[:3].tolist() == [57344, -57344, 57344]
    assert BF16.round(large)[[0, 1, 4]].tolist() == [np.inf, -np.inf, np.inf]
    assert all(np.isnan(form.round(large)[5]) for form in (BF16, E4M3, E5M2))


def test_rounding_towards_zero_never_grows_a_value() -> None:
    values = np.random.default_rng(1).standard_normal(10_000).astype(np.float32)
    for form in (BF16, E4M3, E5M2):
        cut = form.truncate(values)
        assert (np.abs(cut) <= np.abs(values)).all()
        assert np.array_equal(form.round(cut), cut)
    low_bits = truncate_tf32(values).view(np.uint32) & 0x1FFF
    assert not low_bits.any() and (np.abs(values - truncate_tf32(values)) < np.abs(values) * 2.0**-10).all()
