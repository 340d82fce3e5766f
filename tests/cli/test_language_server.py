"""`kbh-lint lsp` as an editor meets it: a client over pipes opens, edits, saves and closes documents."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lsp_client import ROOT, Client

from kbh_lint.base import paths
from kbh_lint.rules import load_rule

RULE = load_rule(next(paths.rules_dir().glob("KBH101-*.yaml")))
BAD = RULE.bad[0].code
GOOD = next(example.code for example in RULE.good if example.of == RULE.bad[0].name)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A session in an empty folder."""
    session = Client(tmp_path, "--stdio")
    yield session
    assert session.process.poll() is not None or session.close() == 0


def opened(client: Client, path: Path, text: str) -> str:
    """Opens a document that need not be on disk; its URI."""
    uri = path.as_uri()
    document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    client.tell("textDocument/didOpen", {"textDocument": document})
    return uri


def edited(client: Client, uri: str, text: str, version: int) -> None:
    """Replaces the whole text of a document."""
    about = {"uri": uri, "version": version}
    client.tell("textDocument/didChange", {"textDocument": about, "contentChanges": [{"text": text}]})


def test_findings_follow_the_text_of_an_open_document(client: Client, tmp_path: Path) -> None:
    assert client.capabilities["capabilities"]["hoverProvider"]
    uri = opened(client, tmp_path / "01_fp8_gemm.py", BAD)
    found = [item for item in client.diagnostics(uri) if item.get("code") == "KBH101"]
    line = found[0]["range"]["start"]["line"]
    assert "dot" in BAD.splitlines()[line] and found[0]["severity"] == 1 and found[0]["source"] == "kbh-lint"
    related = found[0]["relatedInformation"]
    assert {item["location"]["uri"] for item in related} == {uri} and related[0]["message"]
    # hovering tells what --explain tells, and nothing elsewhere
    at = {"textDocument": {"uri": uri}, "position": found[0]["range"]["start"]}
    assert RULE.why in client.ask("textDocument/hover", at)["contents"]["value"]
    assert client.ask("textDocument/hover", {**at, "position": {"line": 500, "character": 0}}) is None
    # of several quick edits the last one counts
    edited(client, uri, "def half(", 2)
    edited(client, uri, GOOD, 3)
    assert client.diagnostics(uri) == []
    edited(client, uri, "def half(", 4)
    client.tell("textDocument/didSave", {"textDocument": {"uri": uri}})
    assert "is not Python" in client.diagnostics(uri)[0]["message"]
    client.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert client.diagnostics(uri) == []
    assert client.close() == 0


def test_columns_are_utf_16_units(client: Client, tmp_path: Path) -> None:
    wide = BAD.replace("total = tl.dot(", "s = '\U0001f600'; total = tl.dot(", 1)
    assert wide != BAD
    uri = opened(client, tmp_path / "01_fp8_gemm.py", wide)
    found = next(item for item in client.diagnostics(uri) if item.get("code") == "KBH101")
    row = wide.splitlines()[found["range"]["start"]["line"]]
    before = row.encode("utf-16-le")[: 2 * found["range"]["start"]["character"]].decode("utf-16-le")
    assert "\U0001f600" in before and row[len(before) :].startswith(("tl.dot", "a.to"))


def test_other_python_files_and_texts_beyond_the_bound_show_nothing(client: Client, tmp_path: Path) -> None:
    for name, text in (("tool.py", "import torch\ntorch.topk = None\n"), ("01_fp8_gemm.py", BAD + "#" * 2_000_000)):
        assert client.diagnostics(opened(client, tmp_path / name, text)) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--problem", "99_nothing"], "there is no problem `99_nothing`"),
        (["--rules-dir", "nowhere"], "there is no such folder of rules"),
        (["--port", "1"], "unrecognized arguments: --port 1"),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_sentence(tmp_path: Path, options: list[str], words: str) -> None:
    code = f"import sys; sys.path[:1] = [{str(ROOT)!r}]; from kbh_lint.cli import main; raise SystemExit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "lsp", *options], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_a_session_may_be_about_one_kernelbench_problem(tmp_path: Path) -> None:
    problem = ROOT / "tests/kernelbench/problems/1_row_products.py"
    session = Client(tmp_path, "--problem-file", str(problem))
    code = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, A, B):\n        return A @ B\n"
    found = session.diagnostics(opened(session, tmp_path / "answer.py", code))
    assert "KBH110" in {item.get("code") for item in found}
    assert session.close() == 0
