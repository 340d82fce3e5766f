"""What an agent prints is read at once, bounded, without secrets, and line by line."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from room_kit import opened, python

from harness.room.output import Output

TOKEN = "sk-" + "A1b2" * 8


def test_lines_are_handed_on_whole_and_kept_without_secrets(tmp_path: Path) -> None:
    lines: list[str] = []
    output = Output(tmp_path / "logs" / "out.log", keep=1 << 20, line=lines.append)
    key = f"the key {TOKEN} and\n".encode()
    parts = [b"one\ntw", b"o\r\n", key[:17], key[17:], b"\xff\nrest"]
    for part in parts:
        output.end.write(part)
    output.close()
    assert lines == ["one", "two", f"the key {TOKEN} and", "\ufffd", "rest"]
    assert (tmp_path / "logs" / "out.log").read_text() == "one\ntwo\r\nthe key <redacted> and\n\ufffd\nrest".replace(
        "\r\n", "\n"
    )
    assert (output.bytes, output.unkept, output.unheard, output.failed) == (len(b"".join(parts)), 0, 0, 0)


def test_of_much_both_ends_are_kept(tmp_path: Path) -> None:
    output = Output(tmp_path / "out.log", keep=20_000)
    for number in range(100_000):
        output.end.write(b"line %06d\n" % number)
    output.close()
    text = (tmp_path / "out.log").read_text()
    assert text.startswith("line 000000\n") and text.endswith("line 099999\n")
    assert len(text) <= 20_100 and output.unkept == output.bytes - (
        len(text) - len(f"[{output.unkept} bytes are left out here]\n")
    )
    assert f"[{output.unkept} bytes are left out here]\n" in text


def test_a_line_without_end_costs_no_memory_and_is_neither_kept_nor_handed_on(tmp_path: Path) -> None:
    lines: list[str] = []
    output = Output(tmp_path / "out.log", keep=1 << 20, line=lines.append, line_bytes=1000)
    output.end.write(b"before\n")
    for _ in range(100):
        output.end.write(b"x" * 100_000)
    assert len(output._partial) <= 1000
    output.end.write(b"\nafter\n" + b"y" * 999 + b"\n" + b"z" * 1000 + b"\n")
    output.close()
    assert lines == ["before", "after", "y" * 999]
    assert (output.unkept, output.unheard) == (100 * 100_000 + 1 + 1001, 2)


def test_who_uses_the_lines_neither_blocks_nor_breaks_the_reading(tmp_path: Path) -> None:
    go = threading.Event()
    seen: list[str] = []

    def slow(line: str) -> None:
        go.wait(60)
        seen.append(line)
        if line == "1":
            raise ValueError("it does not like this one")

    output = Output(tmp_path / "out.log", keep=1 << 20, line=slow)
    for number in range(50_000):  # much more than a pipe holds
        output.end.write(b"%d\n" % number)
    go.set()
    output.close(60)
    assert seen == [str(number) for number in range(50_000)]
    assert (output.failed, output.unheard) == (1, 0)


def test_what_nobody_takes_is_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.room.output.WAITING_BYTES", 1000)
    go = threading.Event()
    seen: list[str] = []

    def stuck(line: str) -> None:
        go.wait(60)
        seen.append(line)

    output = Output(tmp_path / "out.log", keep=1 << 20, line=stuck)
    for number in range(10_000):
        output.end.write(b"%05d\n" % number)
    while output.bytes < 60_000:
        time.sleep(0.01)
    go.set()
    output.close()
    assert len(seen) + output.unheard == 10_000
    assert 100 < len(seen) < 5000


def test_closing_does_not_wait_for_ever_for_somebody_who_holds_the_pipe(tmp_path: Path) -> None:
    output = Output(tmp_path / "out.log", keep=1 << 20)
    held = os.dup(output.end.fileno())
    os.write(held, b"said\n")
    output.close(0.3)
    os.close(held)
    assert (tmp_path / "out.log").read_text() == "said\n"


def test_a_flood_from_an_agent_is_bounded_and_does_not_block_it(tmp_path: Path) -> None:
    count = 1 << 28
    code = f"import os\nblock = (b'x' * 1023 + b'\\n') * 1024\nfor _ in range({count >> 20}):\n    os.write(1, block)\n"
    lines = [0]

    def heard(line: str) -> None:
        lines[0] += 1

    with opened() as room:
        output = Output(tmp_path / "out.log", keep=1 << 20, line=heard)
        room.start(python(code), env={}, stdin=b"", stdout=output.end, stderr=output.end)
        assert room.wait(240) == 0
        output.close(60)
    assert output.bytes <= count and output.bytes % 1024 == 0
    assert lines[0] + output.unheard == output.bytes // 1024
    assert (tmp_path / "out.log").stat().st_size <= (1 << 20) + 100
