"""`kbh regrade`: every entry that counts is graded again, what came of it is told and kept, a stop loses none."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from kept import BUNDLE, archive_of, small_run

from grader.cli.board import Board, Step
from grader.cli.jobs import Done
from grader.record.bundle import Bundle
from harness.archive import Archive, all_facts
from harness.archive.regrade_cli import main
from harness.archive.select import counted

SECOND = next(BUNDLE.parent.glob("01_fp8_gemm-compiled-h200-*"))


class Grader:
    """Stands in for the processes of the grader: each grading comes to the next of these words, or to no bundle."""

    def __init__(self, out: Path, *words: str) -> None:
        self.out, self.words = out, list(words)
        self.argv: list[str] = []
        self.most = self.asked = 0

    def __call__(
        self, tasks: Sequence[tuple[Path, str]], argv: Sequence[str], jobs: int, board: Board, *,
        devices: Sequence[str], names: Sequence[str],
    ) -> Generator[tuple[int, Done], None, None]:  # fmt: skip
        self.argv, self.most = list(argv), max(self.most, jobs)
        for index, (folder, problem) in reversed(list(enumerate(tasks))):
            assert not problem
            board(names[index], Step("trial", "wait", "waiting", ""))
            word = self.words[self.asked]
            self.asked += 1
            if word == "stop":
                raise KeyboardInterrupt
            if word == "error":
                yield index, Done(error=f"{folder}: there is no such GPU here")
                continue
            made = Path(shutil.copytree(folder, self.out / f"{folder.name}-{self.asked}"))
            with Bundle.open(made, write=True) as bundle:
                text = f"it is {word}"
                bundle.append("regrade", {"bundle": folder.name, "head": bundle.head, "outcome": word, "text": text})
            yield index, Done(made)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Two gradings and a run that was not graded, of which nothing can be graded again."""
    return archive_of(tmp_path / "archive", BUNDLE, SECOND, small_run(tmp_path, "a-run"))


def again(archive: Archive, monkeypatch: pytest.MonkeyPatch, words: Sequence[str], *more: str) -> tuple[int, Grader]:
    out = archive.folder.parent / "made"
    out.mkdir(exist_ok=True)
    grader = Grader(out, *words)
    monkeypatch.setattr("harness.archive.regrade_cli.graded", grader)
    return main([str(archive.folder), "--out", str(out), *more]), grader


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("same", "same"), 0),
        (("faster", "slower"), 0),
        (("same", "verdict changed"), 1),
        (("verdict changed", "error"), 2),
    ],
)
def test_each_entry_is_told_and_the_worst_is_the_exit_code(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...],
    code: int,
) -> None:  # fmt: skip
    assert again(archive, monkeypatch, words, "--jobs", "3")[0] == code
    told, seen = capsys.readouterr()
    assert "01_fp8_gemm h200: " in told and "kbh-regrade-" not in told + seen
    assert re.fullmatch(r"(?:[0-9a-f]{12} 01_fp8_gemm h200: trial: waiting\n){2}", seen)
    assert tuple(line.split()[1] for line in told.splitlines()[:2]) == tuple(word.split()[0] for word in words)
    assert sorted(told.splitlines()[-1].split(", ")) == sorted({f"{words.count(word)} {word}" for word in words})


def test_new_gradings_stand_beside_the_first_and_a_stop_loses_none(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert again(archive, monkeypatch, ("slower", "stop"))[0] == 130
    found = all_facts(archive).facts
    assert [one.regrade for one in found if one.regrade] == ["slower"] and len(counted(found)) == 3
    code, grader = again(archive, monkeypatch, ("same",), "--new", "--json")
    assert (code, grader.asked) == (0, 1)  # the other one alone
    said = capsys.readouterr().out
    (row,) = json.loads(said[said.index("{") :])["entries"]
    assert row["word"] == "same" and row["made"] in {one.id for one in all_facts(archive).facts}
    assert again(archive, monkeypatch, (), "--new")[0] == 0
    assert "graded again already" in capsys.readouterr().out
    assert len(counted(all_facts(archive).facts)) == 3
