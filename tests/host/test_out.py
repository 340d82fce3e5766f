"""`out=`: what an operation does to the tensor that its caller brings, and where one that cannot hold it leads."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, WORK, check_what_holds, lint, model, states

INTO = """\
s = torch.empty(SIZE, dtype=torch.float32, device=x.device)
torch.mul(self.weight_scale, 1.0, out=s)
"""
CAUGHT = """\
try:
    torch.mul(self.weight_scale, 0.5, out=torch.empty(N, dtype=torch.TYPE, device=x.device))
    held = True
except RuntimeError:
    held = False
"""


@pytest.mark.parametrize("size", ["N", "0", "(2, 3)"])
def test_a_result_gives_what_was_brought_its_shape(tmp_path: Path, size: str) -> None:
    check_what_holds(tmp_path, "", INTO.replace("SIZE", size), "s.shape == (N,)")


def test_the_output_of_a_model_may_be_brought_empty(tmp_path: Path) -> None:
    brought = "z = torch.empty(0, dtype=torch.bfloat16, device=x.device)\ntorch.mul(y, 1.0, out=z)\nreturn z\n"
    report = lint(tmp_path, HEAD + KERNEL + model(WORK + brought))
    assert "output-not-as-declared" not in {finding.leak_class for finding in report.findings}


def test_whole_numbers_hold_no_fractions_and_the_handler_runs(tmp_path: Path) -> None:
    check_what_holds(tmp_path, "", CAUGHT.replace("TYPE", "int32"), "not held")
    check_what_holds(tmp_path, "", CAUGHT.replace("TYPE", "float16"), "held")


TYPES = """\
try:
    torch.mul(torch.ones(3, dtype=torch.OF, device=x.device), 1, out=torch.empty(3, dtype=torch.TO, device=x.device))
    held = True
except RuntimeError:
    held = False
"""
LINEAR = """\
s = torch.empty(SIZE, dtype=torch.float32, device=x.device)
r = torch.nn.functional.linear(torch.ones(3, 8, device=x.device), torch.ones(5, 8, device=x.device), out=s)
"""


@pytest.mark.parametrize("of, to", [("int32", "bool"), ("float32", "bool"), ("complex64", "float32")])
def test_a_type_that_cannot_hold_the_result_fails(tmp_path: Path, of: str, to: str) -> None:
    check_what_holds(tmp_path, "", TYPES.replace("OF", of).replace("TO", to), "not held")
    check_what_holds(tmp_path, "", TYPES.replace("OF", to).replace("TO", of), "held")


@pytest.mark.parametrize("size", ["(3, 5)", "0"])
def test_linear_writes_what_was_brought(tmp_path: Path, size: str) -> None:
    check_what_holds(tmp_path, "", LINEAR.replace("SIZE", size), "r is s and s.shape == (3, 5)")


MADE = """\
s = torch.empty(7, dtype=torch.TYPE, device=x.device)
r = torch.MAKER
"""


@pytest.mark.parametrize(
    "maker, shape",
    [("zeros(2, 3, out=s)", "(2, 3)"), ("arange(5, out=s)", "(5,)"), ("eye(3, out=s)", "(3, 3)"),
     ("empty(2, out=s)", "(2,)"), ("full((4,), 2, out=s)", "(4,)")],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_what_makes_tensors_gives_what_was_brought_its_shape(
    tmp_path: Path, maker: str, shape: str, dtype: str
) -> None:
    made = MADE.replace("TYPE", dtype).replace("MAKER", maker)
    check_what_holds(tmp_path, "", made, f"r is s and s.shape == {shape} and s.dtype == torch.{dtype}")


@pytest.mark.parametrize("dtype, held", [("float32", True), ("float64", False)])
def test_a_type_that_is_named_beside_what_was_brought_is_its_own(tmp_path: Path, dtype: str, held: bool) -> None:
    made = f"torch.zeros(3, dtype=torch.{dtype}, out=torch.empty(3, dtype=torch.float32, device=x.device))"
    caught = f"try:\n    {made}\n    held = True\nexcept RuntimeError:\n    held = False\n"
    check_what_holds(tmp_path, "", caught, "held" if held else "not held")


@pytest.mark.parametrize(
    "maker, left", [("zeros((M, N), out=y)", False), ("arange(M, out=y)", False), ("empty((M, N), out=y)", True)]
)
def test_nothing_is_left_of_a_result_where_something_else_is_made(tmp_path: Path, maker: str, left: bool) -> None:
    report = lint(tmp_path, HEAD + KERNEL + model(f"{WORK}torch.{maker}\nreturn y\n"))
    assert (states(report)["fp8-products"] == "kept") is left


COPIED = """\
z = torch.matmul(x.to(torch.bfloat16), self.weight.to(torch.bfloat16).t())
SPELLED(z, out=y)
return y
"""


@pytest.mark.parametrize("spelled", ["torch.conj_physical", "torch.ops.aten.clone.out", "torch.mul", "torch.clone"])
def test_what_an_operation_copies_into_what_was_brought_is_the_result(tmp_path: Path, spelled: str) -> None:
    """The kernel's result is written over by the library's."""
    call = COPIED.replace("SPELLED(z, ", f"{spelled}(z, {'1.0, ' if spelled == 'torch.mul' else ''}")
    assert "broken" in states(lint(tmp_path, HEAD + KERNEL + model(WORK + call))).values()
    assert (
        "broken" not in states(lint(tmp_path, HEAD + KERNEL + model(WORK + "return torch.conj_physical(y)\n"))).values()
    )
