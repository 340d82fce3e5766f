"""Trials on a small problem: how long building may take, and the caches that it leaves."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from ground import OPTIONS, RIGHT, Ground, forward
from toy import HONEST, solution

from grader.judge.judging import build
from grader.sandbox import folders
from grader.sandbox.folders import restore_caches
from grader.sandbox.snapshot import snapshot

SLOW = "import time\nself.n = getattr(self, 'n', 0) + 1\nif self.n == WHICH: time.sleep(0.7)\nreturn y"


def test_a_first_call_may_take_what_is_left_for_building_and_no_other_may(ground: Callable[[str], Ground]) -> None:
    first, later = (RIGHT + SLOW.replace("WHICH", which) for which in "12")
    here = ground("import time\ntime.sleep(0.7)\n" + forward(first))
    options = replace(OPTIONS, call_timeout=0.5, timeout=30.0)
    assert here.trial(options).status == "right"
    late = here.trial(replace(options, build_timeout=1.2))
    assert late.message.startswith("the submission did not finish building within 1.2 s; it was to run ")
    solution(here.snapshot.file.parent.parent, forward(later))
    here.snapshot = snapshot(here.snapshot.file.parent.parent / "solution.py", here.scratch / "submission")
    slow = here.trial(options)
    assert slow.shapes[0].status == "timeout" and "did not finish within 0.5 s; it was to run" in slow.message


def test_building_fills_caches_and_tells_only_what_this_machine_cannot_do(
    ground: Callable[[str], Ground], tmp_path: Path
) -> None:
    text = (
        "import os, pathlib\nplace = pathlib.Path(os.environ['TRITON_CACHE_DIR'])\n(place / 'kernel').write_text('k')\n"
    )
    text += "os.symlink('/etc/passwd', place / 'link')\n"
    here = ground(text + HONEST)
    store = tmp_path / "store"
    said = build(here.problem, here.snapshot, caches=store, **here.settings(OPTIONS))  # type: ignore[arg-type]
    assert (said.refused, said.ended) == ("", "")
    assert [str(p.relative_to(store)) for p in store.rglob("*") if not p.is_dir()] == ["triton/kernel"]
    restore_caches(store, tmp_path / "again")
    assert (tmp_path / "again/triton/kernel").read_text() == "k"


def test_copied_caches_are_ours_and_never_run_as_somebody_else(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs" / "triton"
    theirs.mkdir(parents=True)
    for name, mode in (("setuid", 0o6777), ("library.so", 0o755), ("note", 0o666)):
        (theirs / name).write_text(name)
        (theirs / name).chmod(mode)
    os.utime(theirs / "note", (1e9, 1e9))
    restore_caches(tmp_path / "theirs", tmp_path / "ours")
    ours = tmp_path / "ours" / "triton"
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in ours.iterdir()} == {
        "setuid": 0o755, "library.so": 0o755, "note": 0o644,
    }  # fmt: skip
    assert (ours / "note").stat().st_mtime == 1e9


def test_a_folder_of_caches_that_keeps_us_out_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("closed", "open"):
        (tmp_path / "theirs" / name).mkdir(parents=True)
        (tmp_path / "theirs" / name / "note").write_text("n")

    def scandir(folder: Path) -> object:
        if folder.name == "closed":  # root, as which tests may run, is never kept out
            raise PermissionError(13, "Permission denied")
        return os.scandir(folder)

    monkeypatch.setattr(folders, "os", SimpleNamespace(**{**vars(os), "scandir": scandir}))
    restore_caches(tmp_path / "theirs", tmp_path / "ours")
    assert sorted(p.name for p in (tmp_path / "ours").rglob("*")) == ["closed", "note", "open"]


def test_a_build_that_leaves_too_much_keeps_nothing_and_goes_on(
    ground: Callable[[str], Ground], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grader.sandbox.folders.MOST_CACHE_FILES", 2)
    many = "import os, pathlib\nplace = os.environ['TRITON_CACHE_DIR']\n"
    many += "for n in range(9): pathlib.Path(place, str(n)).write_text('x')\n"
    here, kept = ground(many + HONEST), tmp_path / "kept"
    said = build(here.problem, here.snapshot, caches=kept, **here.settings(OPTIONS))  # type: ignore[arg-type]
    assert (said.refused, said.ended) == ("", "")
    assert not kept.exists()


def test_a_build_that_the_submission_ends_says_so_and_refuses_nothing(
    ground: Callable[[str], Ground], tmp_path: Path
) -> None:
    here = ground("import os\nos._exit(3)\n" + HONEST)
    said = build(here.problem, here.snapshot, caches=tmp_path / "store", **here.settings(OPTIONS))  # type: ignore[arg-type]
    assert said.refused == "" and "exit status 3" in said.ended
