"""The real CLIs in sealed rooms, through the proxy, against a scripted model: two in every way in which a provider
fails, the others where it does not. `python bench/agents.py --check` runs all of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.agents.install import InstallError, installed
from harness.agents.registry import ADAPTERS

ROOT = Path(__file__).resolve().parents[2]
FULL = ("claude", "codex")
WORKING = ("opencode", "kimi", "gemini")


def there(name: str) -> bool:
    try:
        return bool(installed(ADAPTERS[name]))
    except InstallError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_the_real_clis_work_and_a_provider_that_fails_them_is_told_by_its_fault(tmp_path: Path) -> None:
    agents = [name for name in (*FULL, *WORKING) if there(name)]
    if not agents:
        pytest.skip("none of the CLIs is installed; make agents does it")
    words = ["--agents", ",".join(agents), "--full", ",".join(FULL), "--check", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "agents.py"), *words], capture_output=True, text=True, timeout=540,
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert f"| ok | {'ok, 3 calls' if agents else ''}" in done.stdout
