"""Archives of each layout, made of solutions of our own."""

from __future__ import annotations

import html
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.audit.cells import Audit, Cell
from harness.audit.cli import audit, main, parser

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = ROOT / "problems"
HONEST = (PROBLEMS / "05_topk_bitonic/honest/triton.py").read_text()
LEAK = (PROBLEMS / "05_topk_bitonic/decoys/builtin_topk.py").read_text()
SNIFF = (PROBLEMS / "05_topk_bitonic/decoys/asks_for_the_grader.py").read_text()
OPEN = "from torch import nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return made(x)\n"
PAGE = '<!doctype html><div class="tab-pane" id="tab-log"><pre><code>no</code></pre></div>\n{}\n<p>end</p>\n'
PANE = '<div class="tab-pane active" id="tab-solution"><pre><code class="python">{}</code></pre>\n</div>'
Told = tuple[int, str, str]


def run(number: int, problem: str = "05_topk_bitonic") -> str:
    """The name of a run."""
    return f"2026050{number}_101010_agent_model-{number}_{problem}"


def predecessor(
    top: Path, runs: Mapping[str, tuple[str | None, str]], *, pages: Sequence[str] = (), board: str = ""
) -> Path:
    """An archive as the predecessor published it: by run, its solution (None: none) and verdict (empty: none)."""
    solutions = top / "public/runs" / board
    annotations = top / "benchmarks/hard/results/annotations"
    for folder in (solutions, annotations):
        folder.mkdir(parents=True, exist_ok=True)
    for name, (text, verdict) in runs.items():
        if text is not None and name in pages:
            (solutions / f"{name}.html").write_text(PAGE.format(PANE.format(html.escape(text))))
        elif text is not None:
            (solutions / f"{name}_solution.py.txt").write_text(text)
        if verdict:
            said = {"run_id": name, "problem": "05_topk_bitonic", "verdict": verdict, "model": "a model",
                    "peak_fraction": 0.25, "summary": "their words of it",
                    "quotes": [{"file": "solution.py", "lines": [3, 5], "text": "their quote"},
                               {"file": "transcript.jsonl", "lines": [900, 901]}]}  # fmt: skip
            (annotations / f"{name}.yaml").write_text(yaml.safe_dump(said))
    return top


def commit(top: Path) -> str:
    """Commits a folder; returns the commit."""
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    words = ["git", "-C", str(top), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    for more in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*words, *more], check=True, env=quiet, capture_output=True)
    said = subprocess.run([*words, "rev-parse", "HEAD"], check=True, env=quiet, capture_output=True, text=True)
    return said.stdout.strip()


def bare(top: Path, to: Path) -> Path:
    """A git directory without a work tree, with the last commit of a folder and those before it."""
    subprocess.run(
        ["git", "clone", "-q", "--bare", "--no-hardlinks", str(top), str(to)], check=True, capture_output=True
    )
    return to


def audited(*words: object) -> Audit:
    """An audit with options, in this process."""
    args = parser().parse_args([*map(str, words), "--jobs", "1"])
    return audit(args, lambda done, total: None)


def by_run(made: Audit) -> dict[str, Cell]:
    """The cells of an audit by run."""
    return {cell.run: cell for cell in made.cells}


def told(capsys: Any, *words: object) -> Told:
    """The exit code of a command, and what it printed."""
    code = main([*map(str, words), "--jobs", "1"])
    out, err = capsys.readouterr()
    return code, out, err


def written(folder: Path) -> dict[str, Any]:
    """audit.json of a folder."""
    data: dict[str, Any] = json.loads((folder / "audit.json").read_text())
    return data
