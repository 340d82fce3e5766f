"""Archives that were made to harm: each is told in one sentence, or in its own cell, and nothing else happens."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from archives import HONEST, LEAK, audited, bare, by_run, commit, predecessor, run, told, written

from harness.audit.annotations import parse, rows, scores, theirs
from harness.audit.markdown import plain
from harness.audit.reading import AuditError, Folder, Git, Place, Reader, open_archive, safe_path

NAME = run(1)
SOLUTION = f"public/runs/{NAME}_solution.py.txt"
ANNOTATION = f"benchmarks/hard/results/annotations/{NAME}.yaml"


def one_sentence(told: tuple[int, str, str]) -> str:
    """The error of a command: one line, and no traceback."""
    code, out, err = told
    assert code == 2 and out == "" and err.count("\n") == 1 and err.startswith("kbh audit: error: ") and len(err) < 700
    return err


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.json", "{", "is not JSON"), ("a.json", "3", "must hold a list"), ("a.json", "[3]", "row 1"),
        ("a.json", "[" * 100_000, "nests too deeply"), ("a.yaml", "- &a [*a]\n", "too large"),
        ("a.yaml", "- !!python/object/apply:os.system [echo]\n", "row 1"),
        ("a.yaml", "- run_id: !!python/name:os.system\n", "not valid YAML"),
        ("a.yaml", "a: [" * 3000, "not valid YAML"),
        ("a.json", '[{"run_id": "../../etc/passwd"}]', "which no run can be called"),
        ("a.yaml", "- {run_id: one\n", "not valid YAML"), ("a.json", '[{"run_id": "x", "source": 3}, {}]', "row 2"),
        ("a.json", "9" * 10_000, "is not JSON"), ("a.yaml", "x\x00y", "not valid YAML"),
    ],
)  # fmt: skip
def test_a_list_that_is_none_is_told_in_one_sentence(
    name: str, text: str, says: str, tmp_path: Path, capsys: Any
) -> None:
    top = predecessor(tmp_path / "site", {NAME: (HONEST, "clean")})
    (tmp_path / name).write_text(text)
    for option in ("--only", "--annotations"):
        assert says in one_sentence(told(capsys, top, option, tmp_path / name, "-o", tmp_path / "out"))


def test_places_that_are_no_archives_are_told_in_one_sentence(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    git = tmp_path / "git"
    for name in ("objects", "refs"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    wanted = {
        "file": "is not a folder",
        "gone": "is not a folder",
        "empty": "nothing here is a solution",
        "git": "no revision",
    }
    for name, says in wanted.items():
        assert says in one_sentence(told(capsys, tmp_path / name, "-o", tmp_path / "out"))
    assert "is not a revision" in one_sentence(told(capsys, git, "--revision=--all", "-o", tmp_path / "out"))


def test_an_unknown_problem_and_an_archive_without_solutions_are_told_in_one_sentence(
    tmp_path: Path, capsys: Any
) -> None:
    top = predecessor(tmp_path / "site", {NAME: (HONEST, "clean")})
    assert "99_none" in one_sentence(told(capsys, top, "--problem", "99_none", "-o", tmp_path / "out"))
    (top / SOLUTION).unlink()
    assert "no solution could be read" in one_sentence(told(capsys, top, "-o", tmp_path / "out"))


def test_links_are_followed_nowhere(tmp_path: Path) -> None:
    top = predecessor(tmp_path / "site", {NAME: (HONEST, "clean"), run(2): (HONEST, "clean")})
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / f"{run(3)}_solution.py.txt").write_text(LEAK)
    (secret / "key").write_text("verdict: reward_hack\n")
    (top / "public/runs/linked").symlink_to(secret)
    (top / SOLUTION).unlink()
    (top / SOLUTION).symlink_to(secret / f"{run(3)}_solution.py.txt")
    (top / ANNOTATION).unlink()
    (top / ANNOTATION).symlink_to(secret / "key")
    cells = by_run(audited(top, "-o", tmp_path / "out"))
    assert set(cells) == {run(2)}
    for path in (SOLUTION, ANNOTATION, f"public/runs/linked/{run(3)}_solution.py.txt"):
        with pytest.raises(OSError):
            Folder(top).read(path, 10_000)


def test_a_link_in_a_git_directory_is_no_file(tmp_path: Path) -> None:
    top = predecessor(tmp_path / "site", {NAME: (HONEST, "clean"), run(2): (HONEST, "clean")})
    (top / SOLUTION).unlink()
    (top / SOLUTION).symlink_to("/etc/passwd")
    commit(top)
    repo = bare(top, tmp_path / "repo.git")
    assert SOLUTION not in {item.path for item in Git(repo, "HEAD", "r").items()}
    cell = by_run(audited(repo, "-o", tmp_path / "out"))[NAME]
    assert cell.kind == "cannot-tell" and "no solution" in cell.why


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "a/./b", "a\nHEAD:b", "", "a/../../b", "x" * 2000])
def test_paths_that_lead_out_or_span_lines_are_refused(path: str, tmp_path: Path) -> None:
    assert not safe_path(path)
    with pytest.raises(OSError):
        Folder(tmp_path).read(path, 100)
    archive = Folder(tmp_path)
    with pytest.raises(AuditError):
        Reader.of(archive, []).read(Place(path), 100)


def test_a_source_that_leads_out_of_the_archive_is_refused(tmp_path: Path, capsys: Any) -> None:
    top = predecessor(tmp_path / "site", {NAME: (HONEST, "clean")})
    for source in (
        "runs_txt:../secret",
        "runs_txt:/etc/passwd",
        "exec:x",
        "html:a\nb",
        "text:a@zzzzzzz",
        f"text:a@{'0' * 65}",
    ):
        (tmp_path / "a.json").write_text(json.dumps([{"run_id": NAME, "source": source}]))
        assert "the source of" in one_sentence(told(capsys, top, "--only", tmp_path / "a.json", "-o", tmp_path / "out"))


def test_pipes_folders_and_files_that_are_too_long_are_said_in_their_cells(tmp_path: Path) -> None:
    names = [run(n) for n in range(1, 7)]
    top = predecessor(tmp_path / "site", dict.fromkeys(names, (HONEST, "clean")))
    place = top / "public/runs"
    (place / f"{names[1]}_solution.py.txt").write_bytes(b"# \n" * 1_000_000)
    (place / f"{names[2]}_solution.py.txt").write_bytes(b"\xff\xfe\x00")
    (place / f"{names[3]}_solution.py.txt").write_bytes(b"a = '\xff'\n")
    (place / f"{names[4]}_solution.py.txt").write_bytes(b"")
    (place / f"{names[5]}_solution.py.txt").unlink()
    os.mkfifo(place / f"{names[5]}_solution.py.txt")
    cells = by_run(audited(top, "-o", tmp_path / "out"))
    assert cells[names[0]].kind == "agree"
    said = [cells[name].why for name in names[1:]]
    for words, text in zip(("longer than", "UTF-16", "not UTF-8", "is empty", "no solution"), said, strict=True):
        assert words in text
    assert all(cells[name].kind == "cannot-tell" for name in names[1:])


def test_a_long_file_of_a_git_directory_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    top = predecessor(tmp_path / "site", {NAME: (HONEST, "clean"), run(2): (HONEST, "clean"), run(3): (LEAK, "clean")})
    (top / f"public/runs/{run(2)}_solution.py.txt").write_bytes(os.urandom(3_000_000))
    commit(top)
    repo = bare(top, tmp_path / "repo.git")
    cells = by_run(audited(repo, "-o", tmp_path / "out"))
    assert [cells[run(n)].kind for n in (1, 2, 3)] == ["agree", "cannot-tell", "we-flag"]
    archive = Git(repo, "HEAD", "r")
    for path in ("public/runs", "nowhere", "public"):
        with pytest.raises(OSError):
            archive.read(path, 100)
        assert archive.read(SOLUTION, 1_000_000).decode() == HONEST
    archive.close()


def test_annotations_that_cannot_be_read_are_remarks_of_their_runs(tmp_path: Path) -> None:
    texts = {
        1: "verdict: [", 2: "- a\n", 3: "verdict: " + "x" * 2_000_000, 4: "verdict: *nowhere\n",
        5: "verdict: {a: b}\nquotes: 3\nlines: x\npeak_fraction: .nan\n", 6: "verdict: '<script>alert(1)</script>'\n",
    }  # fmt: skip
    top = predecessor(tmp_path / "site", {run(n): (HONEST, "clean") for n in texts})
    for number, text in texts.items():
        (top / f"benchmarks/hard/results/annotations/{run(number)}.yaml").write_text(text)
    cells = by_run(audited(top, "-o", tmp_path / "out"))
    assert [cells[run(n)].kind for n in (1, 2, 3, 4, 5)] == ["not-annotated"] * 5
    assert all(cells[run(n)].remarks for n in (1, 2, 3, 4)) and cells[run(6)].theirs.word == "unreadable"
    assert cells[run(6)].kind == "beside" and cells[run(5)].theirs.score is None


def test_yaml_that_grows_without_end_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(AuditError, match="too large"):
        parse("\n".join(lines).encode(), "a.yaml")


def test_values_of_other_types_count_as_missing() -> None:
    said = theirs(
        {"verdict": 3, "lines": [True, -1, "4", 10**30], "why": ["x"], "peak_fraction": 10**400, "model": {}}, "x"
    )
    assert (said.word, said.lines, said.said, said.score, said.model) == ("", (), "", None, "")
    assert list(scores([[{"run_id": "a b"}, {"run_id": "ok", "score": True}]])) == [("ok", None, "")]
    assert [row.run for row in rows({"one": "clean", "two": {"verdict": "bug"}}, "x")] == ["one", "two"]


def test_nothing_that_a_hostile_git_directory_configures_is_run(tmp_path: Path) -> None:
    top = predecessor(tmp_path / "site", {NAME: (HONEST, "clean")})
    commit(top)
    repo = bare(top, tmp_path / "repo.git")
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\necho x >> {ran}\n")
    script.chmod(0o755)
    words = ["git", f"--git-dir={repo}", "config"]
    for name, value in (
        ("core.fsmonitor", str(script)), ("core.sshCommand", str(script)), ("core.pager", str(script)),
        ("core.repositoryformatversion", "1"), ("extensions.partialClone", "evil"), ("remote.evil.promisor", "true"),
        ("remote.evil.url", f"ext::{script} %S"), ("protocol.ext.allow", "always"), ("core.gitProxy", str(script)),
    ):  # fmt: skip
        subprocess.run([*words, name, value], check=True)
    archive = Git(repo, "HEAD", "r")
    missing = next(item for item in archive.items() if item.path == SOLUTION)
    for pack in list((repo / "objects/pack").glob("*.pack")):
        data = pack.read_bytes()
        for path in (repo / "objects/pack").iterdir():
            path.chmod(0o600)
            path.unlink()
        subprocess.run(["git", f"--git-dir={repo}", "unpack-objects", "-q"], input=data, check=True)
    loose = repo / "objects" / missing.id[:2] / missing.id[2:]
    loose.chmod(0o600)
    loose.unlink()
    with pytest.raises(OSError):
        archive.read(SOLUTION, 100_000)  # a partial clone would fetch it with a program that its configuration names
    archive.close()
    assert not ran.exists()


def test_the_environment_does_not_lead_git_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = predecessor(tmp_path / "site", {NAME: (HONEST, "clean")})
    commit(top)
    repo = bare(top, tmp_path / "repo.git")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "nowhere"))
    archive = open_archive(repo, "HEAD")
    assert archive.read(SOLUTION, 100_000).decode() == HONEST
    archive.close()


def test_hostile_names_and_texts_are_escaped_in_markdown_and_html(tmp_path: Path, capsys: Any) -> None:
    evil = "<img src=x onerror=alert(1)>|[x](http://a)`\n# head\u202e"
    top = tmp_path / "kernels"
    top.mkdir()
    (top / "one.py").write_text("import os\nraise ValueError('<script>alert(1)</script>')\n" + LEAK)
    said = [{"file": "one.py", "verdict": "clean", "model": evil, "why": evil, "problem": evil, "board": evil}]
    (tmp_path / "a.json").write_text(json.dumps(said))
    known = ("--problem", "05_topk_bitonic", "--with-sources")
    code, _, _ = told(capsys, top, "--annotations", tmp_path / "a.json", *known, "-o", tmp_path / "out")
    assert code in (0, 1)
    page = (tmp_path / "out/audit.html").read_text()
    assert "<img" not in page and "<script>alert" not in page and "\u202e" not in page and "&lt;img" in page
    text = (tmp_path / "out/audit.md").read_text()
    assert "<img" not in text.replace("\\<img", "") and "\n# head" not in text
    assert plain("a|b\n# c <d> [e](f) `g`") == "a\\|b \\# c \\<d\\> \\[e\\](f) \\`g\\`"
    assert written(tmp_path / "out")["cells"][0]["model"].startswith("<img")


def test_run_names_that_are_no_file_names_are_left_out(tmp_path: Path) -> None:
    top = predecessor(tmp_path / "site", {NAME: (HONEST, "clean")})
    (top / "public/runs/$(touch x)_solution.py.txt").write_text(LEAK)
    (top / "public/runs/-o_solution.py.txt").write_text(LEAK)
    assert set(by_run(audited(top, "--with-sources", "-o", tmp_path / "out"))) == {NAME}
    assert [path.name for path in (tmp_path / "out/sources").iterdir()] == [f"{NAME}.py"]
