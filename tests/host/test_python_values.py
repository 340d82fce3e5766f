"""Containers, texts, types and decorators of Python do here what they do in Python: a submission asserts it itself."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import GRID, HEAD, KERNEL, OUTPUT, TILES, classes, lint, model, reasons, states

LAUNCH = f"{OUTPUT.strip()}\ngemm[{GRID}](x, self.weight, self.weight_scale, y, M, N, K, {TILES})\nreturn y"
LEAK = "(torch.matmul(x.bfloat16(), self.weight.bfloat16().t()) * self.weight_scale).bfloat16()"
TOP = """
import collections, enum, functools, numbers
from collections.abc import Callable, Iterable, Mapping, Sequence

class Error(ValueError):
    pass

TABLE = collections.defaultdict(int, {"a": 1}, b=2)
ITEMS = {1, 2}
ITEMS.clear()
"""

TRUE = (
    "collections.OrderedDict([('k', 1)])['k'] == 1", "collections.OrderedDict(k=1) == {'k': 1}",
    "(len(TABLE), TABLE['b'], sorted(TABLE)) == (2, 2, ['a', 'b'])", "not collections.defaultdict(list)",
    "collections.defaultdict(list)[1] == []", "TABLE.copy()['new'] == 0", "not ITEMS", "'abc'.translate({97: 'x'}) == 'xbc'",
    "issubclass(Model, nn.Module)", "issubclass(Error, ValueError)", "issubclass(bool, int)", "not issubclass(int, str)",
    "callable(len) and callable(Model) and callable(self)", "not callable(3)",
    "isinstance([1], Sequence) and isinstance({}, Mapping)", "isinstance(3, (str, numbers.Integral))",
    "isinstance('a', Iterable) and not isinstance(3, Iterable)", "isinstance(len, Callable)",
    "isinstance(Model, type) and isinstance(int, type) and not isinstance(3, type)",
    "isinstance(self, nn.Module) and isinstance(nn.ReLU(), nn.Module)", "isinstance(None, type(None))",
    "isinstance(True, int | str)", "isinstance(x, torch.Tensor) and not isinstance(x, (int, float, list))",
)  # fmt: skip


@pytest.mark.parametrize("test", TRUE)
def test_a_plain_truth_of_python_is_decided(tmp_path: Path, test: str) -> None:
    report = lint(tmp_path, HEAD + TOP + KERNEL + model(f"if not ({test}):\n    return {LEAK}\n{LAUNCH}"))
    assert (report.verdict, set(states(report).values())) == ("clean", {"kept"}), reasons(report)


def test_bytes_of_a_text_may_be_equal_to_bytes(tmp_path: Path) -> None:
    text = HEAD + KERNEL + model(f"if 'a'.encode() == b'a':\n    return {LEAK}\n{LAUNCH}")
    assert set(states(lint(tmp_path, text)).values()) == {"unproven"}


DECORATED = {
    "a memo as a decorator": ("@functools.cache\ndef other(f):\n    return lambda self, x: LEAK\n\n", "@other\n    def forward"),
    "singledispatch": (
        "@functools.singledispatch\ndef go(x, self):\n    return None\n\n@go.register\ndef _(x: torch.Tensor, self):\n"
        "    return LEAK\n\n",
        "forward = lambda self, x: go(x, self)\n\n    def unused",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DECORATED)
def test_a_decorator_is_called_or_is_a_hole(tmp_path: Path, what: str) -> None:
    before, method = DECORATED[what]
    text = HEAD + TOP + KERNEL + "\n\n" + before.replace("LEAK", LEAK) + model(LAUNCH).replace("def forward", method)
    assert "kept" not in states(lint(tmp_path, text)).values()


def test_a_cached_property_hands_out_its_first_result(tmp_path: Path) -> None:
    made = "".join(
        f"        {line}\n"
        for line in ("x = self.x", "(M, K), N = x.shape, self.weight.shape[0]", *LAUNCH.splitlines())
    )
    text = HEAD + TOP + KERNEL + model("self.x = x\nreturn self.result")
    text += f"\n    @functools.cached_property\n    def result(self):\n{made}"
    assert "output-memoization" in classes(lint(tmp_path, text))
