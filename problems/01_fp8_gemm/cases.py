"""Structured inputs of the fp8 GEMM: every value stays e4m3 within the domain's -4 to 4."""

from collections.abc import Mapping
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from grader.structure import Structure


def _mixed_plan(symbols: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"spread": st.integers(6, 10), "period": st.sampled_from([3, 5, 7, 17])})


def _mixed(
    plan: dict[str, Any], symbols: Mapping[str, Any], inputs: dict[str, Tensor], state: dict[str, Tensor], g: Generator
) -> None:
    """Row i is scaled by 2^-(spread * (i mod period) / (period - 1))."""
    x = inputs["x"].float()
    place = torch.arange(x.shape[0], device=x.device) % plan["period"]
    factor = torch.exp2(-(plan["spread"] * place / (plan["period"] - 1)).round())
    inputs["x"] = (x * factor[:, None]).to(inputs["x"].dtype)


def _tail_plan(symbols: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"columns": st.sampled_from([1, 2, 7, 16, 31])})


def _tail(
    plan: dict[str, Any], symbols: Mapping[str, Any], inputs: dict[str, Tensor], state: dict[str, Tensor], g: Generator
) -> None:
    """All but the last columns of x are divided by 64."""
    x = inputs["x"].float()
    x[:, : -plan["columns"]] /= 64
    x[:, -plan["columns"] :] = x[:, -plan["columns"] :].sign() * x[:, -plan["columns"] :].abs().clamp(min=1)
    inputs["x"] = x.to(inputs["x"].dtype)


def _sided_plan(symbols: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"sign": st.sampled_from([1, -1]), "keep": st.sampled_from([4, 16, 64])})


def _sided(
    plan: dict[str, Any], symbols: Mapping[str, Any], inputs: dict[str, Tensor], state: dict[str, Tensor], g: Generator
) -> None:
    """x is not negative; the weight is of one sign but for one column of K in `keep`."""
    inputs["x"] = inputs["x"].float().abs().to(inputs["x"].dtype)
    weight = state["weight"].float()
    sided = plan["sign"] * weight.abs()
    sided[:, :: plan["keep"]] = weight[:, :: plan["keep"]]
    state["weight"] = sided.to(state["weight"].dtype)


STRUCTURES = {
    "mixed-rows": Structure(_mixed_plan, _mixed),
    "hot-tail": Structure(_tail_plan, _tail),
    "one-sided": Structure(_sided_plan, _sided, changes_state=True),
}
