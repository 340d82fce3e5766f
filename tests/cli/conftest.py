"""A folder with rules and a few submissions for the fake engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_support import write_rule

LEAK = 'y = torch.matmul(a, b)  # do: fact library-work {"symbol": "torch.matmul"}\n'
CLEAN = "x = 1\n"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working folder: rules/, leak.py, clean.py, odd.py, unread.py."""
    write_rule(tmp_path / "rules")
    write_rule(tmp_path / "rules", id="KBH201", name="odd", leak_class="odd", verdict="interesting", fact="sniff")
    (tmp_path / "leak.py").write_text(LEAK)
    (tmp_path / "clean.py").write_text(CLEAN)
    (tmp_path / "odd.py").write_text("z = 1  # do: fact sniff\n")
    (tmp_path / "unread.py").write_text("q = 1  # do: unread exec of decoded text\n")
    return tmp_path
