"""Large tensors of a model are made on the device while it is made, and small ones and those told where are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grader.candidate import placing as module
from grader.candidate.clock.outside import run
from grader.candidate.copies import Copies
from grader.candidate.placing import Placing

META = torch.device("meta")
FEW, MANY = 8, 64


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_ELEMENTS", MANY)


@pytest.mark.parametrize(
    ("made", "where"),
    [
        (lambda n: torch.empty(n), "meta"),
        (lambda n: torch.zeros(2, n // 2, dtype=torch.uint8), "meta"),
        (lambda n: torch.ones((n,), device=None), "meta"),
        (lambda n: torch.rand([n // 4, 4]), "meta"),
        (lambda n: torch.randn(size=(n,), pin_memory=False), "meta"),
        (lambda n: torch.full((n,), 2.0), "meta"),
        (lambda n: torch.randint(0, 16, (n,)), "meta"),
        (lambda n: torch.randint(16, (n,), dtype=torch.uint8), "meta"),
        (lambda n: nn.Linear(n, 1, bias=False).weight, "meta"),
        (lambda n: torch.empty(torch.Size([n])), "meta"),
        (lambda n: torch.empty(n, device="cpu"), "cpu"),
        (lambda n: torch.randn(n, generator=torch.Generator()), "cpu"),
        (lambda n: torch.zeros(n, out=torch.empty(n, device="cpu")), "cpu"),
        (lambda n: torch.arange(n), "cpu"),
        (lambda n: torch.tensor([0.0] * n), "cpu"),
    ],
)
def test_where_a_tensor_is_made(made: Callable[[int], Tensor], where: str) -> None:
    with Placing(META) as placing:
        assert made(MANY).device.type == where
        assert placing.count == (where == "meta")
        assert made(FEW).device.type == "cpu", "a small one"
    assert torch.empty(MANY).device.type == "cpu", "it is over"


def test_a_device_that_a_submission_names_for_a_block_counts() -> None:
    with Placing(META), torch.device("cpu"):
        assert torch.empty(MANY).device.type == "cpu"


class Weights(nn.Module):
    def __init__(self, n: int, then: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.empty(n))
        nn.init.normal_(self.w)
        then(self.w)
        self.table = torch.arange(n)


def made(copies: Copies, n: int, then: Callable[[Tensor], Any] = lambda w: None) -> Weights:
    model: Weights = run(copies.model(Weights, [n, then], ("w",), False))
    return model


def test_a_model_has_its_large_weights_there_and_its_tables_where_it_made_them() -> None:
    model = made(Copies(META), MANY)
    assert (model.w.device.type, model.table.device.type) == ("meta", "cpu")
    assert made(Copies(), MANY).w.device.type == "cpu"


def test_what_fails_there_is_made_on_the_host_and_so_are_all_after_it() -> None:
    copies, tries = Copies(META), []

    def reads(w: Tensor) -> None:
        tries.append(w.device.type)
        w.detach().numpy()

    assert made(copies, MANY, reads).w.device.type == "cpu"
    assert made(copies, MANY, reads).w.device.type == "cpu"
    assert tries == ["meta", "cpu", "cpu"]


def test_what_fails_for_reasons_of_its_own_is_not_made_twice() -> None:
    tries = []

    def fails(w: Tensor) -> None:
        tries.append(w)
        raise NotImplementedError("not for this device")

    with pytest.raises(NotImplementedError):
        made(Copies(META), FEW, fails)
    assert len(tries) == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_weights_of_a_gigabyte_take_no_time_on_a_gpu() -> None:
    """Also with what numpy makes of a part, which is copied to the host by name."""
    copies = Copies(torch.device("cuda"))
    model = made(copies, 1 << 28, lambda w: w[:16].cpu().detach().numpy())
    assert model.w.device.type == "cuda" and abs(float(model.w.detach().std()) - 1.0) < 0.01
