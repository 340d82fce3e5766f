"""Progress on a terminal: only on long runs, and gone when they end."""

from __future__ import annotations

import io
import sys
import time

import pytest

from kbh_lint.cli import linting as cli


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_long_run_counts_files_and_wipes_the_line(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    tell = cli._progress()
    assert tell is not None
    tell(1, 9)
    assert terminal.getvalue() == ""
    clock[0] += 3
    tell(2, 9)
    tell(3, 9)
    assert terminal.getvalue() == "\r2/9 files\x1b[K"
    tell(9, 9)
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_pipe_gets_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert cli._progress() is None


def test_a_terminal_gets_colour_unless_it_does_not_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert cli.use_colour("auto")
    assert not cli.use_colour("never")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not cli.use_colour("auto")
    assert cli.use_colour("always")
