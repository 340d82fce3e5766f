"""What `--trace` prints of a file depends on nothing but the file."""

from __future__ import annotations

from pathlib import Path

from host_support import HEAD, KERNEL, WORK, lint, model


def test_a_trace_is_the_same_whatever_the_process_linted_before(tmp_path: Path) -> None:
    text = HEAD + KERNEL + model(WORK + "return y\n")
    first, second = lint(tmp_path, text), lint(tmp_path, text)
    lint(tmp_path, text.replace("return y\n", "return y + torch.zeros_like(y)\n"), name="other.py")
    third = lint(tmp_path, text)
    assert first.trace and any("#" in line for line in first.trace)
    assert first.trace == second.trace == third.trace
    assert first == second == third
