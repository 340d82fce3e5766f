"""Rarer Python on the way to the result: what it does decides, and what it does not do decides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import (
    BINDING,
    CUDA,
    HEAD,
    KERNEL,
    LEAK,
    WORK,
    classes,
    lint,
    model,
    reasons,
    states,
)

THREAD = """
import threading
class Work(threading.Thread):
    def __init__(self, f):
        super().__init__()
        self.f = f
    def run(self):
        self.f()
"""
DEQUE = "import collections\nkept = collections.deque(MAXIMUM)\n"
POOL = "import concurrent.futures\npool = concurrent.futures.ThreadPoolExecutor(1)\n"

# What stands before the class, what forward does after the product, and the class of leak.
LEAKS = {
    "else after a long loop": ("", f"for i in range(20):\n    y.mul_(1.0)\nelse:\n    {LEAK}", "library-gemm-wrapper"),
    "characters of a long text": (
        "blob = 'ab' * 6000\n", f"if ''.join(chr(ord(c) ^ 1) for c in blob)[:1] == '`':\n    {LEAK}",
        "library-gemm-wrapper",
    ),
    "the name of a type": ("", f"if type(x).__name__ == 'Tensor':\n    {LEAK}", "library-gemm-wrapper"),
    "an operator of an object": (
        "class W:\n    def __init__(self, x): self.x = x\n"
        "    def __rshift__(self, w): return self.x.to(torch.bfloat16) @ w.to(torch.bfloat16).t()\n",
        "return ((W(x) >> self.weight) * self.weight_scale).to(torch.bfloat16)\n", "library-gemm-wrapper",
    ),
    "a weight by its path": ("", LEAK.replace("self.weight.", "self.get_buffer('weight')."), "library-gemm-wrapper"),
    "the first of a deque": (
        DEQUE.replace("MAXIMUM", ""), "if kept:\n    return kept[0]\nkept.appendleft(y)\n", "output-memoization",
    ),
    "a thread of one's own class": (THREAD, "Work(lambda: y.mul_(2.0)).start()\n", "unjoined-work"),
    "a pool that is not waited for": (
        POOL, "pool.submit(lambda: y.mul_(2.0))\npool.shutdown(wait=False)\n", "unjoined-work",
    ),
}  # fmt: skip
HONEST = {
    "a deque of one": (DEQUE.replace("MAXIMUM", "maxlen=1"), "kept.append(y)\nreturn kept[0]\n"),
    "a thread that is joined": (THREAD, "t = Work(lambda: y.mul_(2.0))\nt.start()\nt.join()\n"),
    "a pool that is waited for": (POOL, "pool.submit(lambda: y.mul_(2.0))\npool.shutdown()\n"),
}


@pytest.mark.parametrize("what", LEAKS)
def test_what_rarer_python_does_is_found(tmp_path: Path, what: str) -> None:
    before, after, leak = LEAKS[what]
    report = lint(tmp_path, HEAD + before + KERNEL + model(WORK + after + "return y\n"))
    found = classes(report) & {leak, "reference-resubmission", "zero-kernel-torch-wrapper"}
    assert found, (classes(report), reasons(report))


@pytest.mark.parametrize("what", HONEST)
def test_what_rarer_python_does_not_do_is_no_leak(tmp_path: Path, what: str) -> None:
    before, after = HONEST[what]
    report = lint(tmp_path, HEAD + before + KERNEL + model(WORK + after + "return y\n"))
    assert classes(report) <= {"torch-beside-kernels"}, classes(report)  # what waits is a pass of torch
    assert set(states(report).values()) == {"kept"}, reasons(report)


@pytest.mark.parametrize("found", ["range(5)", "{1: 2, 3: 4}", "(1, 3)"])
def test_a_number_of_an_input_among_others_is_a_decision(tmp_path: Path, found: str) -> None:
    body = f"if int(x.float().sum().item()) in {found}:\n    {LEAK}" + WORK + "return y\n"
    assert "input-magnitude-sniffing" in classes(lint(tmp_path, HEAD + KERNEL + model(body)))


def test_what_torch_may_not_have_is_a_decision(tmp_path: Path) -> None:
    body = f"if getattr(torch, 'no_such_thing', None) is None:\n    {LEAK}" + WORK + "return y\n"
    assert set(states(lint(tmp_path, HEAD + KERNEL + model(body))).values()) == {"unproven"}


def test_an_extension_is_given_what_keywords_name(tmp_path: Path) -> None:
    source = CUDA.replace("  int M =", "  if (w.size(0) == x.size(0)) return at::matmul(x, w);\n  int M =")
    build = f"from torch.utils.cpp_extension import load_inline\next = load_inline('e', '', r'''{source}{BINDING}''')\n"
    reports = [
        lint(tmp_path, HEAD + build + model(f"return ext.run({arguments})"))
        for arguments in ("x, self.weight, self.weight_scale", "w=self.weight, s=self.weight_scale, x=x")
    ]
    assert classes(reports[0]) == classes(reports[1])
    assert reports[0].trace[-1].count("input:x e4m3, state:weight e4m3") == 1
    assert reports[1].trace[-1].count("input:x e4m3, state:weight e4m3") == 1


def test_a_deep_copy_keeps_what_an_input_held(tmp_path: Path) -> None:
    body = "import copy\nif not hasattr(self, 'h'):\n    self.h = copy.deepcopy([x])\nx = self.h[0]\n" + WORK
    assert "identity-keyed-input-cache" in classes(lint(tmp_path, HEAD + KERNEL + model(body + "return y\n")))
