"""Loops that are no `for` over a range: what is done in every round counts as often as there are rounds."""

from __future__ import annotations

import pytest

from kbh_lint.base import paths
from kbh_lint.rewrite.matrix import rule_cases, submission
from kbh_lint.rewrite.program import Program
from kbh_lint.service.one_file import Options, lint_file

OPTIONS = Options(str(paths.rules_dir()), str(paths.problems_dir()))
CASE = next(case for case in rule_cases(paths.rules_dir()) if case.name == "KBH503/another-product")
LAUNCH = "swiglu[(E, 1)](hidden_states, self.W_gate, self.W_up, starts, ends, y, H, I, BM=16, BN=64, BK=64)"
BODY = """
            x = hidden_states[e * n : (e + 1) * n]
            gate, up = x.mm(self.W_gate[e]), x.mm(self.W_up[e])
            y[e * n : (e + 1) * n] = torch.nn.functional.silu(gate) * up
"""


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("for e in range(E):", ""),
        ("e = 0\n        while e < E:", "            e += 1\n"),
        ("e, step = E - 1, -1\n        while (e >= 0) if step < 0 else (e < E):", "            e += step\n"),
        ("e = 0\n        while e != E:", "            e += 1\n"),
        ("todo = list(range(E))\n        while todo:\n            e = todo.pop()", ""),
        ("def go(e):\n            if e == E:\n                return", "            go(e + 1)\n        go(0)\n"),
        ("def go(e):", "        list(map(go, range(E)))\n"),
        ("e = 0\n        while True:", "            e += 1\n            if e == E:\n                break\n"),
    ],
)
def test_products_of_the_library_one_expert_a_round_are_the_work_of_the_model(head: str, tail: str) -> None:
    before, _, _ = CASE.program.main.partition("        for e in range(E):")
    before += f"        {LAUNCH}\n        n = hidden_states.shape[0] // E\n"
    code = f"{before}        {head}{BODY}{tail}        return y\n"
    report = lint_file(submission(Program(code), "solution.py", CASE.problem), OPTIONS).report
    assert "partial-torch-compute" in {finding.leak_class for finding in report.findings}
    assert {promise.kind: promise.state for promise in report.promises}["authored-compute"] == "broken"
