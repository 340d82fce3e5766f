"""Which types `out=` may be of: what the linter says of each operation that it models, held against torch."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from host_support import check_what_holds

from kbh_lint.base.dtypes import from_torch
from kbh_lint.host.torch import out, shapes

TARGETS = (torch.float64, torch.float32, torch.float16, torch.int32, torch.int64, torch.bool)
PLACES = (torch, torch.nn.functional, torch.linalg, torch.special)
UNSETTLED = frozenset("max min clamp clip clamp_min clamp_max ldexp matrix_power".split())  # by overload, one way each
OWN = frozenset("nansum nanmean std var diff chain_matmul bernoulli".split())  # by their arguments, or by chance


def samples() -> list[tuple[Any, ...]]:
    """Arguments that some operation takes: two squares, their numbers, places and orders."""
    square, whole = torch.rand(4, 4) + 0.1, torch.arange(16).reshape(4, 4) % 4
    row, batch, two = torch.rand(4), torch.rand(2, 4, 4), torch.tensor([0, 1])
    return [(square,), (square, square), (square, 0), (square, row), (batch, batch), (square, square, square),
            (row, row), (row, square, row), (square, row, row), (batch, batch, batch), (square, 0, whole),
            (square, 0, two), (square, 2), ((square, square),), (square, 1.0), (square, 0.0, 1.0), (square, 0.5),
            (square, whole), (whole,), (square, square > 0), (square > 0, square, square), (square > 0,),
            (whole, whole)]  # fmt: skip


def fresh(args: Any) -> Any:
    """The same arguments, in memory of their own."""
    if isinstance(args, tuple):
        return tuple(fresh(each) for each in args)
    return args.clone() if isinstance(args, torch.Tensor) else args


def answers(function: Callable[..., Any]) -> Iterator[tuple[torch.dtype, dict[torch.dtype, bool]]]:
    """For each sample that the operation takes: the type of its result, and whether it writes it into each other."""
    for args in samples():
        made = None
        with contextlib.suppress(Exception):
            made = function(*fresh(args))
        results = made if isinstance(made, tuple) else (made,)
        if not results or not all(isinstance(each, torch.Tensor) for each in results):
            continue
        taken = {}
        for target in chain((results[0].dtype,), TARGETS):
            brought = (torch.empty_like(results[0], dtype=target), *(torch.empty_like(each) for each in results[1:]))
            try:
                function(*fresh(args), out=brought if isinstance(made, tuple) else brought[0])
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
                taken[target] = False
            else:
                taken[target] = True
        if taken[results[0].dtype]:  # it has `out=`
            yield results[0].dtype, taken


def named(dtype: torch.dtype) -> str:
    return from_torch(str(dtype).removeprefix("torch."))


@pytest.fixture(scope="module")
def asked() -> dict[str, list[tuple[torch.dtype, dict[torch.dtype, bool]]]]:
    """Every operation of the model that torch gives `out=`."""
    found: dict[str, list[tuple[torch.dtype, dict[torch.dtype, bool]]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(shapes.TABLE):
            functions = [getattr(place, name) for place in PLACES if callable(getattr(place, name, None))]
            rows = [row for function in functions[:1] for row in answers(function)]
            if rows:
                found[name] = rows
    return found


def test_an_operation_takes_the_types_that_torch_lets_it_take(
    asked: dict[str, list[tuple[torch.dtype, dict[torch.dtype, bool]]]],
) -> None:
    wrong = [
        (name, named(of), named(to), taken)
        for name, rows in asked.items()
        if name not in UNSETTLED | OWN
        for of, by_target in rows
        for to, taken in by_target.items()
        if out.holds(name, named(to), named(of)) is not taken
    ]
    assert wrong == []
    assert len(asked) > 140 and len(asked.keys() & out.EXACT) > 50 and asked.keys() >= out.IN_ITS_TYPE


CAUGHT = """\
try:
    CALL
    held = True
except RuntimeError:
    held = False
"""
A, B = (f"torch.ones(4, 4, dtype=torch.{dtype}, device=x.device)" for dtype in ("float32", "float16"))


@pytest.mark.parametrize(
    "call, held",
    [("mm(A, A, out=B)", False), ("mm(A, A, out=A)", True), ("mul(A, A, out=B)", True), ("sum(A, 1, out=B)", True),
     ("amax(A, 1, out=B)", False)],
)  # fmt: skip
def test_a_handler_runs_where_torch_raises(tmp_path: Path, call: str, held: bool) -> None:
    spelled = "torch." + call.replace("A", A).replace("B", B)
    check_what_holds(tmp_path, "", CAUGHT.replace("CALL", spelled), "held" if held else "not held")
