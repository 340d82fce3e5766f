"""What the constructor of torch.nn.Module puts into an object, which hides what its class defines under those names."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, WORK, lint, model

from kbh_lint.host.python import module_calls

FORWARD = "    def forward(self, x):"
MAKER = """\
    def {}(self, rows, columns, device):
        return torch.empty((rows, columns), dtype=torch.bfloat16, device=device)

"""
LAUNCH = WORK.partition("\n")[2] + "return y\n"
BEGUN = WORK + "return y\n"


def rules_of(tmp_path: Path, body: str, setup: str = "", members: str = "") -> set[str]:
    text = HEAD + KERNEL + model(body, setup)
    assert FORWARD in text
    return {finding.rule for finding in lint(tmp_path, text.replace(FORWARD, members + FORWARD)).findings}


def test_the_names_are_those_that_torch_sets() -> None:
    torch = pytest.importorskip("torch")
    held = vars(torch.nn.Module())
    assert held == {name: what() for name, what in module_calls.SET.items()}
    assert set(dir(torch.nn.Module())) >= module_calls.NAMES


@pytest.mark.parametrize("name", [*module_calls.SET, "buffers_", "make", "_hooks"])
def test_a_method_is_hidden_by_what_the_constructor_sets(tmp_path: Path, name: str) -> None:
    found = rules_of(tmp_path, f"y = self.{name}(M, N, x.device)\n{LAUNCH}", members=MAKER.format(name))
    assert found == ({"KBH710"} if name in module_calls.SET else set())


@pytest.mark.parametrize("setup, members, fails", [
    ("self.make = 3\n", MAKER.format("make"), True),  # a number of its own is no function, either
    ("self.make = None\n", MAKER.format("make"), True),
    ("self.made = 3\n", MAKER.format("make"), False),
    ("make = self.make\nself.make = make\n", MAKER.format("make"), False),
])  # fmt: skip
def test_what_is_no_function_cannot_be_called(tmp_path: Path, setup: str, members: str, fails: bool) -> None:
    found = rules_of(tmp_path, f"y = self.make(M, N, x.device)\n{LAUNCH}", setup, members)
    assert found == ({"KBH710"} if fails else set())


def test_a_handler_is_what_runs_then(tmp_path: Path) -> None:
    body = "try:\n    y = self._buffers(M, N, x.device)\nexcept TypeError:\n    y = x.new_empty((M, N), dtype=KIND)\n"
    for kind, found in (("torch.bfloat16", set[str]()), ("torch.float32", {"KBH711"})):
        assert rules_of(tmp_path, body.replace("KIND", kind) + LAUNCH, members=MAKER.format("_buffers")) == found


PROPERTY = "    @property\n    def training(self):\n        return False\n\n"
SETTER = "    @training.setter\n    def training(self, value):\n        pass\n\n"


@pytest.mark.parametrize("setup, members, fails", [
    ("", PROPERTY, True),
    ("", PROPERTY + SETTER, False),
    ('self.register_buffer("type", torch.zeros(3))\n', "", True),
    ('self.register_buffer("kind", torch.zeros(3))\n', "", False),
    ('self.register_buffer("kind", torch.zeros(3))\n', "    kind: torch.Tensor\n\n", False),
    ('self.register_buffer("kind", torch.zeros(3))\n', "    kind = None\n\n", True),
    ("self.kind = nn.Parameter(torch.zeros(3))\n", "    kind = None\n\n", True),
    ("self.kind = torch.zeros(3)\n", "    kind = None\n\n", False),
    ('self.add_module("children", nn.Identity())\n', "", True),
])  # fmt: skip
def test_a_name_that_is_taken_cannot_be_set(tmp_path: Path, setup: str, members: str, fails: bool) -> None:
    assert rules_of(tmp_path, BEGUN, setup, members) == ({"KBH710"} if fails else set())


@pytest.mark.parametrize("test", [
    'self.training', 'not hasattr(self, "named_buffers")', 'not isinstance(self._buffers["weight"], torch.Tensor)',
    "self._forward_hooks or self._non_persistent_buffers_set or self._is_full_backward_hook",
])  # fmt: skip
def test_they_may_be_read(tmp_path: Path, test: str) -> None:
    assert rules_of(tmp_path, f"if {test}:\n    raise ValueError\n{BEGUN}", members="    training = True\n\n") == set()
