"""The problem of docs/authors.md, made step by step with the commands that the page names; it ends clean."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import kbh_lint
from grader.cli.problems import main

ROOT = Path(__file__).resolve().parents[2]
BASE = Path(__file__).parent / "base" / "11_bf16_gemm"
PAGE = (ROOT / "docs" / "authors.md").read_text()
NAME = "12_gemm_relu"

MUTANTS = '''
def relu(name, idea, wrong):
    """A mutant whose result is cut at zero, as it should be."""
    return mutant(name, idea, lambda x, w: wrong(x, w).relu())


MUTANTS = (
    mutant("zeros", "nothing is computed", lambda x, w: x.new_zeros(x.shape[0], w.shape[0])),
    mutant("no-maximum", "negative results stay", lambda x, w: x @ w.T),
    mutant("leaky", "negative results stay, made small", lambda x, w: nn.functional.leaky_relu(x @ w.T, 0.01)),
    mutant("maximum-first", "x is cut at zero before the product", lambda x, w: x.relu() @ w.T),
    mutant("six", "large results are cut", lambda x, w: (x @ w.T).clamp(0, 6)),
    relu("last-k", "the last column of x is left out", lambda x, w: x[:, :-1] @ w[:, :-1].T),
    relu("first-k", "the first column of x is left out", lambda x, w: x[:, 1:] @ w[:, 1:].T),
    relu("shifted", "the columns are off by one", lambda x, w: (x @ w.T).roll(1, 1)),
    relu("mean-row", "every row is the mean row", lambda x, w: (x @ w.T).mean(0).expand(x.shape[0], -1)),
    relu("fp8", "x is rounded to e4m3", lambda x, w: x.to(torch.float8_e4m3fn).float() @ w.T),
)
'''

RELU_ONLY = """
@triton.jit
def relu(y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(y + at, mask=at < n), 0.0), mask=at < n)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.bfloat16))

    def forward(self, x):
        y = torch.nn.functional.linear(x, self.weight)
        relu[(triton.cdiv(y.numel(), 1024),)](y, y.numel(), BLOCK=1024)
        return y
"""


def edit(path: Path, *pairs: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)


def from_base(folder: Path, file: str, *pairs: tuple[str, str]) -> None:
    shutil.copy(BASE / file, folder / file)
    edit(folder / file, *pairs)


def kbh(*words: str) -> int:
    """A command as in a process of its own: the problem's code is imported afresh."""
    for name in [name for name in sys.modules if name.startswith("kbh_deck_")]:
        del sys.modules[name]
    return main(words)


def rules(deck: Path, trusted: bool = False) -> set[str]:
    report = kbh_lint.lint([deck], problems_dir=deck if trusted else None)
    return {finding.rule for file in report.files for finding in file.findings}


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_the_page_leads_to_a_problem_that_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    deck, folder = Path("problems"), Path("problems") / NAME
    assert kbh("new", NAME) == 0
    assert rules(deck) == {"KBH902", "KBH914", "KBH920"}

    product = "x[M,K] bf16 @ weight[N,K]^T bf16"
    edit(folder / "problem.yaml", (product, f"max({product}, 0)"))
    edit(
        folder / "reference.py",
        ("return x @ self.weight.T", "return torch.relu(x @ self.weight.T)"),
        ('(inputs["x"].double() @ state["weight"].double().T,)',
         '(torch.relu(inputs["x"].double() @ state["weight"].double().T),)'),
    )  # fmt: skip
    edit(folder / "legal.py", ("(product.to(", "(product.relu().to("))

    assert kbh("flops", str(folder)) == 0
    assert kbh("ceilings", str(folder)) == 0
    capsys.readouterr()
    kbh("tolerance", str(folder), "--write")
    derived = re.search(r"nominal: bf16 (\S+)", capsys.readouterr().out)
    assert derived is not None
    file = folder / "problem.yaml"
    file.write_text(re.sub(r"tolerance: \{bf16: .*\}", f"tolerance: {{bf16: {derived[1]}}}", file.read_text()))
    assert kbh("render", str(folder)) == 0
    assert rules(deck) == {"KBH914", "KBH920"}

    mutants = (folder / "mutants.py").read_text()
    (folder / "mutants.py").write_text(mutants[: mutants.index("MUTANTS")].rstrip() + "\n\n" + MUTANTS)
    assert kbh("mutate", str(folder), "--seed", "1") == 0
    assert "score 100%: 10 killed" in capsys.readouterr().out

    cut = ("    inside = (rows", "    total = tl.maximum(total, 0.0)\n    inside = (rows")
    edit(folder / "honest/triton.py", cut)
    edit(folder / "decoys/library.py", ("F.linear(x, self.weight)", "F.relu(F.linear(x, self.weight))"))
    from_base(folder, "decoys/handed_in_again.py", ("self.weight.T)", "self.weight.T).relu()"))
    from_base(
        folder,
        "decoys/decode_by_library.py",
        cut,
        ("x, self.weight)\n        (M", "x, self.weight).relu()\n        (M"),
    )
    imports = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n"
    (folder / "decoys/relu_only.py").write_text(imports + RELU_ONLY)
    from_base(folder, "solutions.yaml", ("fig_leaf.py, rule: KBH118", "relu_only.py, rule: KBH115"))
    assert kbh("solutions", str(folder), "--device", "cpu", "--seed", "1") == 0
    assert rules(deck, trusted=True) == set()


def test_every_command_of_the_page_exists(capsys: pytest.CaptureFixture[str]) -> None:
    commands = set(re.findall(r"kbh problems ([a-z]+)", PAGE))
    assert len(commands) > 6
    for name in commands:
        assert main([name, "--help"]) == 0
    capsys.readouterr()


def test_every_place_holder_that_the_page_names_exists() -> None:
    from kbh_lint.authors.prompt import PLACES

    named = set(re.findall(r"\{\{ ([a-z_]+) \}\}", PAGE))
    assert named and named <= set(PLACES)
