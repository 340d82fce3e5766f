"""What lies in a workspace for the judge: the files that a run begins with, and the program that asks."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")

from judging_kit import HELPER, LOADS, QUICK, RIGHT, Judge, body, client, rows_problem

from harness.judging import client as client_source
from harness.judging.base import submission_of
from harness.judging.pool import JudgePool, _environment
from harness.judging.workspace import workspace_files
from kbh_lint.base import paths
from kbh_lint.problems import load_deck
from kbh_lint.source import sidecars

DECK = load_deck(paths.problems_dir())


@pytest.mark.parametrize("name", [one.id for one in DECK.values() if one.contracts])
def test_every_problem_has_a_workspace_whose_prompt_tells_time_place_and_how_to_ask(name: str) -> None:
    problem = DECK[name]
    files = workspace_files(problem, budget_s=2700, target="h200", product="NVIDIA H200 SXM")
    assert set(files) == {"prompt.md", "reference.py", "problem.yaml", "check.py", "benchmark.py"}
    prompt = files["prompt.md"].decode()
    stored = (Path(problem.path).parent / "prompt.md").read_text()
    assert prompt.startswith(stored), "the deck's own prompt is not changed"
    own = prompt.removeprefix(stored)
    for said in (
        "45 minutes",
        "python benchmark.py",
        "python check.py",
        "NVIDIA H200 SXM (`h200`)",
        "not in this room",
    ):
        assert said in own
    assert b"stress:" not in files["problem.yaml"] and b"\ncases:" not in files["problem.yaml"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget_s": 90.0}, ["You have 90 seconds", "no GPU here", "reduced shapes"]),
        ({"budget_s": 600.0, "target": "h200", "gpu_in_room": True}, ["10 minutes", "`h200`, and you can use it here"]),
    ],
    ids=["CPU", "GPU in the room"],
)
def test_the_prompt_says_what_this_run_has(tmp_path: Path, options: dict[str, Any], said: list[str]) -> None:
    prompt = workspace_files(rows_problem(tmp_path), **options)["prompt.md"].decode()
    assert all(text in prompt for text in said), prompt
    assert all(len(line) <= 120 for line in prompt.splitlines() if not line.startswith("There"))


def test_the_two_programs_are_one_that_asks_for_different_things_and_need_nothing_but_python(tmp_path: Path) -> None:
    files = workspace_files(rows_problem(tmp_path), budget_s=60)
    check, benchmark = (files[f"{name}.py"].decode().splitlines() for name in ("check", "benchmark"))
    assert [pair for pair in zip(check, benchmark, strict=True) if pair[0] != pair[1]] == [
        ('WHAT = "check"', 'WHAT = "benchmark"')
    ]
    imports = {line.split()[1].partition(".")[0] for line in check if line.startswith(("import ", "from "))}
    assert imports <= set(sys.stdlib_module_names)


def test_the_program_sends_what_a_solution_may_load_and_nothing_else(tmp_path: Path) -> None:
    texts = {
        "solution.py": "import helper\nopen('data.json')\n", "helper.py": "from deep import more\n", "data.json": "{}",
        "deep/more.py": "x = 1\n", "kernel.cu": "// a kernel", "csrc/a/tile.cuh": "// a tile", "notes.txt": "no",
        "scratch.py": "no", "reference.py": "no", "check.py": "no", ".git/x.cu": "no", "lib.so": "no",
        "__pycache__/x.cu": "no", "a/b/c/d/e/f/g/h.cu": "no", "\u00e9.cu": "no", "huge.cu": "x" * 2_000_001,
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "link.cu").symlink_to("/etc/passwd")
    (tmp_path / "up").symlink_to(tmp_path.parent)
    os.mkfifo(tmp_path / "pipe.cu")
    found = client_source.submission(tmp_path / "solution.py")
    assert set(found) == {name for name, text in texts.items() if text != "no" and name != "huge.cu"}
    assert submission_of(body({name: data.decode() for name, data in found.items()})) == found


def test_the_bounds_of_the_program_are_those_of_a_submission() -> None:
    ours = client_source.MOST_FILES, client_source.MOST_BYTES, client_source.MOST_TOTAL, client_source.MOST_FOLDERS
    assert ours == (sidecars.MAX_COUNT, sidecars.MAX_BYTES, sidecars.MAX_TOTAL, sidecars.MAX_DEPTH)
    assert client_source.TEXTS == sidecars.TEXTS and sidecars.OF_THE_RUN - {"solution.py"} <= client_source.GIVEN


def asked(place: Path, url: str, *arguments: str, what: str = "check") -> tuple[int, str, str]:
    return asyncio.run(client(place, what, url, *arguments))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name, data in workspace_files(rows_problem(tmp_path), budget_s=60).items():
        (folder / name).write_bytes(data)
    return folder


def test_a_judge_that_cannot_be_reached_is_told_in_one_sentence(place: Path) -> None:
    code, out, error = asked(place, "http://127.0.0.1:9")
    assert code == 2 and "solution.py: no such file or directory" in error
    (place / "solution.py").write_text(RIGHT)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        code, out, error = asked(place, f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert (code, out) == (2, "") and "the judge cannot be reached at" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n[]\n", b"HTTP/1.1 500 No\r\n\r\n",
             b"junk\r\n\r\n", b'HTTP/1.1 200 OK\r\n\r\n{"event": "result"}\n', b"HTTP/1.1 409 No\r\n\r\n[1]"]
)  # fmt: skip
def test_a_judge_that_answers_nonsense_is_told_in_one_sentence(place: Path, said: bytes) -> None:
    (place / "solution.py").write_text(RIGHT)

    async def served() -> tuple[int, str, str]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"}")
            writer.write(said)
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            return await client(place, "check", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    code, out, error = asyncio.run(served())
    assert (code, out) == (2, "") and "Traceback" not in error and error.count("\n") == 1, error


def test_another_file_is_judged_as_if_it_were_the_solution(place: Path, tmp_path: Path) -> None:
    (place / "variant.py").write_text(LOADS)
    (place / "helper.py").write_text(HELPER)

    async def judged() -> tuple[Judge, list[tuple[int, str, str]]]:
        pool = JudgePool(workers=1, command=[sys.executable, "-c", QUICK])
        judge = await Judge.start(rows_problem(tmp_path / "other"), tmp_path / "run", pool)
        found = [await client(place, "benchmark", judge.url, "variant.py"), await client(place, "check", judge.url)]
        await judge.close()
        await pool.close()
        return judge, found

    judge, ((code, _, error), (missing, _, _)) = asyncio.run(judged())
    assert code == 0 and "benchmark: call 1 of 1" in error and missing == 2
    (use,) = judge.uses
    assert use.what == "benchmark" and judge.folder.get(use.solution) == LOADS.encode()


def test_its_options_are_told(place: Path) -> None:
    help_ = subprocess.run([sys.executable, "check.py", "--help"], cwd=place, capture_output=True, text=True)
    assert help_.returncode == 0 and "Exit status: 0 right" in help_.stdout
    assert subprocess.run([sys.executable, "check.py", "a", "b"], cwd=place, capture_output=True).returncode == 2


def test_the_judges_process_gets_no_secret_and_sees_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "KBH_TOKEN", "CUDA_PASSWORD", "SSH_AUTH_SOCK", "OTHER"):
        monkeypatch.setenv(name, "a secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    monkeypatch.setenv("KBH_LOCK_DIR", "/locks")
    found = _environment("cuda:1")
    assert "a secret" not in found.values() and found["KBH_LOCK_DIR"] == "/locks"
    assert found["CUDA_VISIBLE_DEVICES"] == "6" and _environment("cuda")["CUDA_VISIBLE_DEVICES"] == "4,6"
    assert _environment("GPU-12ab")["CUDA_VISIBLE_DEVICES"] == "GPU-12ab"
