"""Contract faults and comparisons, on cases made by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from grader.deck import correctness
from grader.deck.correctness import compare, error
from grader.wire.outputs import Expected, output_faults, outputs_of

CPU = torch.device("cpu")


def bound(metric: str = "scaled", over: tuple[int, ...] = (-1,), tolerance: float = 0.01, region: Any = None) -> Any:
    return SimpleNamespace(metric=metric, over=over, tolerance=tolerance, region=region)


def case(*bounds: Any, inputs: dict[str, Tensor] | None = None, names: tuple[str, ...] = ("y",)) -> Any:
    outputs = tuple(SimpleNamespace(name="" if name == "y" else name) for name in names)
    return SimpleNamespace(
        spec=SimpleNamespace(id="nominal/0"),
        shape=SimpleNamespace(label="4x8"),
        binding=SimpleNamespace(outputs=outputs),
        inputs=inputs or {"x": torch.zeros(1)},
        state={},
        bounds=bounds,
    )


def faults(outputs: object, *expected: Expected, **held: Tensor) -> list[str]:
    wanted = expected or (Expected("y", torch.float32, (2, 3)),)
    return output_faults(outputs, wanted, CPU, held)


class Sub(Tensor):
    pass


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (torch.zeros(2, 3, dtype=torch.float64), "y is float64 instead of float32"),
        (torch.zeros(3, 2), "y has the shape [3, 2] instead of [2, 3]"),
        (torch.zeros(3, 2).t(), "y is not contiguous (strides [1, 2])"),
        (torch.zeros(2, 3, requires_grad=True), "y requires a gradient"),
        (torch.zeros(2, 3, device="meta"), "y is on meta instead of cpu"),
        (torch.zeros(2, 3).to_sparse(), "y is not a dense tensor"),
        (torch.zeros(2, 3).as_subclass(Sub), "y must be a torch.Tensor, not "),
        (torch.nn.Parameter(torch.zeros(2, 3)), "y must be a torch.Tensor, not torch.nn.parameter.Parameter"),
        ((torch.zeros(2, 3),), "y must be a torch.Tensor, not tuple"),
        (None, "y must be a torch.Tensor, not NoneType"),
    ],
)
def test_each_broken_rule_of_the_output_contract_is_named(outputs: object, words: str) -> None:
    assert any(words in fault for fault in faults(outputs))


def test_a_good_output_has_no_fault_and_a_tuple_is_wanted_only_for_several_outputs() -> None:
    pair = (Expected("a", torch.float32, (2,)), Expected("b", torch.int64, (2,)))
    good = (torch.zeros(2), torch.zeros(2, dtype=torch.int64))
    assert faults(torch.zeros(2, 3)) == []
    assert faults(good, *pair) == []
    assert faults(good[:1], *pair) == ["forward must return 2 tensors, not 1"]
    assert faults([], *pair) == ["forward must return 2 tensors, not 0"]
    assert faults(good[0], *pair) == ["forward must return a tuple of 2 tensors, not torch.Tensor"]
    assert faults({"a": good[0], "b": good[1]}, *pair) == ["forward must return a tuple of 2 tensors, not dict"]


class Pair(NamedTuple):
    a: Tensor
    b: Tensor


class Lazy(tuple[Tensor, ...]):
    """Would work, and give others, when somebody unpacks it."""

    def __iter__(self) -> Iterator[Tensor]:
        raise AssertionError("it was unpacked by its own code")

    __len__ = __getitem__ = None  # type: ignore[assignment]


def test_what_unpacks_like_a_tuple_is_taken_as_one() -> None:
    pair = (Expected("values", torch.float32, (2,)), Expected("indices", torch.int64, (2,)))
    good = torch.zeros(2), torch.zeros(2, dtype=torch.int64)
    for returned in (list(good), Pair(*good), torch.return_types.topk(good), Lazy(good)):
        assert faults(returned, *pair) == []
        assert [id(tensor) for tensor in outputs_of(returned, 2)] == [id(tensor) for tensor in good]


def test_an_output_may_not_lie_on_an_input_or_on_another_output() -> None:
    x = torch.zeros(4, 3)
    assert faults(x[1:3], x=x) == ["y shares memory with x"]
    both = torch.zeros(4)
    pair = (Expected("a", torch.float32, (2,)), Expected("b", torch.float32, (2,)))
    assert faults((both[:2], both[1:3]), *pair) == ["a shares memory with b"]
    assert faults((both[:2], both[2:]), *pair) == []


def test_the_scaled_metric_is_relative_to_the_element_and_to_the_rms_of_its_row() -> None:
    want = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    got = torch.tensor([[3.0, 4.5], [0.0, 1.0]])
    errors = error(got, want, bound())
    rms = math.sqrt((9 + 16) / 2)
    assert errors[0].tolist() == pytest.approx([0, 0.5 / (4 + rms)])
    assert errors[1].tolist() == [0, math.inf], "a row of zeros must be zeros"


@pytest.mark.parametrize("over", [(0,), (-1,), (0, 1), (0, 2)])
def test_the_scale_is_the_same_in_blocks_as_at_once(over: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(7)
    want = torch.randn(9, 5, 3, generator=generator, dtype=torch.float64)
    got = want + 1e-3 * torch.randn(9, 5, 3, generator=generator, dtype=torch.float64)
    whole = compare([got], [want], case(bound(over=over, tolerance=1e-9)))
    monkeypatch.setattr(correctness, "CHUNK_ELEMENTS", 31)
    parts = compare([got], [want], case(bound(over=over, tolerance=1e-9)))
    rms = want.square().mean(over, keepdim=True).sqrt()
    assert parts.error == pytest.approx(whole.error, rel=1e-12)
    assert whole.error == pytest.approx(float(((got - want).abs() / (want.abs() + rms)).max()), rel=1e-12)
    assert parts.worst is not None and whole.worst is not None and parts.worst.index == whole.worst.index
    assert parts.wrong == whole.wrong == want.numel()


def test_the_element_and_allclose_metrics_follow_their_formulas() -> None:
    want, got = torch.tensor([2.0, 0.0]), torch.tensor([2.5, 0.5])
    assert error(got, want, bound("element")).tolist() == [0.25, math.inf]
    assert error(got, want, bound("allclose")).tolist() == pytest.approx([0.5 / 3, 0.5])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_and_inf_fail_where_the_oracle_is_finite(bad: float) -> None:
    want = torch.ones(2, 2)
    got = want.clone()
    got[1, 0] = bad
    result = compare([got], [want], case(bound(tolerance=1e30)))
    assert not result.ok and result.error == math.inf and result.wrong == 1
    assert "holds NaN or Inf (1 of 4 elements are wrong)" in result.message


def test_an_infinity_of_the_oracle_must_be_met_exactly() -> None:
    want = torch.tensor([math.inf, -math.inf, math.nan, 1.0])
    assert compare([want.clone()], [want], case(bound())).ok
    assert not compare([-want], [want], case(bound(tolerance=1e30))).ok


def test_a_region_hides_wrong_values_elsewhere_but_not_nan() -> None:
    want = torch.ones(2, 2)
    mask = torch.tensor([[True, False], [False, False]])
    region = SimpleNamespace(mask=mask, metric="element", tolerance=1e-3)
    got = torch.full((2, 2), 7.0)
    got[0, 0] = 1.0
    assert compare([got], [want], case(bound(region=region))).ok
    got[0, 0] = 1.01
    inside = compare([got], [want], case(bound(region=region)))
    assert not inside.ok and inside.wrong == 1 and inside.total == 1 and inside.tolerance == 1e-3
    got[0, 0], got[1, 1] = 1.0, math.nan
    assert not compare([got], [want], case(bound(region=region))).ok


def test_the_message_says_case_shape_counts_bound_and_worst_element() -> None:
    want = torch.ones(4, 8)
    got = want.clone()
    got[2, 5], got[0, 1] = 2.0, 1.5
    message = compare([got], [want], case(bound(tolerance=0.0043))).message
    assert message == (
        "nominal/0 at 4x8: 2 of 32 elements are off by more than 0.0043 (relative to |r| + rms); "
        "worst y[2, 5] = 2, expected 1 (error 0.5)"
    )


def test_the_worst_output_leads_and_all_failing_ones_are_told() -> None:
    want = torch.ones(4)
    outputs = [want * 1.1, want * 3]
    result = compare(outputs, [want, want], case(bound(), bound(), names=("q", "k")))
    assert result.worst is not None and result.worst.output == 1
    assert "q[0]" in result.message and "k[0]" in result.message and result.wrong == 8


def selection(values: list[list[float]], indices: list[list[int]]) -> Any:
    x = torch.tensor([[5.0, 1.0, 5.0, 3.0, 0.0]])
    want = (torch.tensor([[5.0, 5.0, 3.0]], dtype=torch.float64), torch.tensor([[0, 2, 3]]))
    got = (torch.tensor(values, dtype=torch.float32), torch.tensor(indices))
    both = bound("selection", tolerance=0.0)
    return compare(got, want, case(both, both, inputs={"x": x}, names=("values", "indices")))


def test_a_selection_may_break_ties_either_way() -> None:
    assert selection([[5, 5, 3]], [[0, 2, 3]]).ok
    assert selection([[5, 5, 3]], [[2, 0, 3]]).ok


@pytest.mark.parametrize(
    ("values", "indices", "words"),
    [
        ([[3, 5, 5]], [[3, 2, 0]], "values differ from the oracle's"),
        ([[5, 5, 1]], [[0, 2, 1]], "values differ from the oracle's"),
        ([[5, 5, 3]], [[0, 0, 3]], "indices stand twice in their row"),
        ([[5, 5, 3]], [[0, 2, 5]], "indices are not in 0..4"),
        ([[5, 5, 3]], [[0, 2, -1]], "indices are not in 0..4"),
        ([[5, 5, 3]], [[0, 2, 1]], "indices do not point at their value"),
        ([[5, 5, math.nan]], [[0, 2, 3]], "values differ from the oracle's"),
    ],
)
def test_a_wrong_selection_fails_for_the_reason_told(values: Any, indices: Any, words: str) -> None:
    result = selection(values, indices)
    assert not result.ok and words in result.message and result.error == math.inf
