"""A library that a program looks for among the files mapped into its process says nothing of who runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, LEAK, WORK, classes, lint, model

WAYS = {
    "all matches": 're.findall(r"\\S*NAME\\.so\\S*", open("/proc/self/maps").read())',
    "the first match": 're.search("NAME[.0-9]*so", open("/proc/self/maps").read())',
    "a compiled pattern": 're.compile(r"(\\S*NAME\\S*)").search(pathlib.Path("/proc/self/maps").read_text())',
    "the text": '"NAME" in open("/proc/self/maps").read()',
    "by its number": '"NAME" in open(f"/proc/{os.getpid()}/maps").read()',
}
LINE = 'next((line for line in open("/proc/self/maps") if "NAME" in line), "")'


def text(way: str, name: str) -> str:
    """What does other work where the library is not there."""
    body = f"if not {way.replace('NAME', name)}:\n    {LEAK}{WORK}return y\n"
    return f"{HEAD}import os, pathlib, re\n{KERNEL}{model(body)}"


@pytest.mark.parametrize("name", ["libnvrtc", "libcudart"])
@pytest.mark.parametrize("way", [*WAYS.values(), LINE], ids=[*WAYS, "a line"])
def test_a_library_that_programs_load_is_there(tmp_path: Path, way: str, name: str) -> None:
    assert "grader-sniffing" not in classes(lint(tmp_path, text(way, name)))


@pytest.mark.parametrize("name", ["libcupti", "libcudainj", "nsys", "sanitizer", "libcuda|libcupti"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_one_that_only_onlookers_load_tells_who_runs_it(tmp_path: Path, way: str, name: str) -> None:
    assert "grader-sniffing" in classes(lint(tmp_path, text(way, name)))
