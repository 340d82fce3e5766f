"""Where a rewrite would not be safe it leaves the program, or that part of it, alone."""

from __future__ import annotations

from typing import Any

import pytest
from rewritten import CUDA
from test_same_meaning import printed

from kbh_lint.rewrite.compose import apply, evasions
from kbh_lint.rewrite.program import NotApplicable, Program
from kbh_lint.rewrite.tree import source_of


def rewritten(name: str, text: str) -> str:
    return apply(evasions()[name], Program(text), 2).main


@pytest.mark.parametrize("name", ["rename-locals", "rename-globals", "rename-arguments"])
def test_names_that_are_looked_up_at_run_time_stay(name: str) -> None:
    text = "def outer(first):\n    second = first\n    return globals()['outer'], second\n\n\nouter(1)\n"
    with pytest.raises(NotApplicable, match="at run time"):
        rewritten(name, text)


@pytest.mark.parametrize("name", ["decorate", "lambda-calls", "outline-calls"])
def test_a_program_that_looks_at_its_callers_gets_none_between(name: str) -> None:
    text = "import sys\nimport math\n\n\ndef who(n):\n    return sys._getframe(1), math.sqrt(n)\n\n\nwho(2)\n"
    with pytest.raises(NotApplicable, match="callers"):
        rewritten(name, text)


def test_what_a_foreign_base_class_calls_keeps_its_name() -> None:
    text = (
        "import threading\n\n\nclass Own:\n    def step(self):\n        self.left = 3\n        return self.left\n\n\n"
        "class Worker(threading.Thread):\n    def run(self):\n        self.daemon = True\n"
    )
    new = rewritten("rename-attributes", text)
    assert "def run(self)" in new and "self.daemon" in new
    assert "step" not in new and "left" not in new


def test_arguments_of_a_function_that_others_may_call_keep_their_names() -> None:
    text = (
        "import hooks\n\n\ndef hook(nargs, reset):\n    return nargs\n\n\n"
        "def own(value):\n    return value\n\n\nhooks.add(hook)\nown(1)\n"
    )
    new = rewritten("rename-arguments", text)
    assert "def hook(nargs, reset)" in new
    assert "value" not in new


def test_a_place_holder_that_python_fills_in_keeps_its_name() -> None:
    source = CUDA.replace("float two = 2.0f", "float two = FACTOR")
    text = f'SOURCE = r"""{source}""".replace("FACTOR", "2.0f")\nOTHER = f"void half_of({{SOURCE[:0]}});"\n'
    new = rewritten("cuda-rename", text)
    assert "FACTOR" in new and "half_of" in new
    assert "carried" not in new


@pytest.mark.parametrize("name", ["cuda-rename", "cuda-using", "cuda-macros", "cuda-compact", "cuda-comments"])
def test_texts_that_are_joined_later_still_fit(name: str) -> None:
    head, tail = CUDA.split("__global__ void", 1)
    first, second = head, "__global__ void" + tail
    program = f'A = r"""{first}"""\nB = r"""{second}"""\nSOURCE = A + B\n'
    scope: dict[str, Any] = {}
    exec(rewritten(name, program), scope)
    assert scope["SOURCE"] != CUDA
    assert printed(scope["SOURCE"]) == printed(CUDA)


def test_a_file_that_is_not_python_is_refused() -> None:
    for rewrite in evasions().values():
        with pytest.raises(NotApplicable):
            apply(rewrite, Program("def broken(:\n"), 0)


def test_a_function_that_a_decorator_of_the_file_compiles_is_device_code() -> None:
    text = (
        "import triton\n\n\ndef register(name):\n    def inner(f):\n        return triton.jit(f)\n\n"
        "    return inner\n\n\n"
        "@register('a')\ndef kernel(x):\n    return x\n\n\ndef plain(x):\n    return x\n"
    )
    assert source_of(Program(text)).device >= {"kernel"}
    assert "plain" not in source_of(Program(text)).device
