"""Structured inputs of the delta rule: what the state must keep, forget and correct."""

from collections.abc import Mapping
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from grader.structure import Structure

Symbols = Mapping[str, Any]
Plan = dict[str, Any]


def draw_memory(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """When writing ends and reading starts, and how much the memory decays, as the sum of g over T.

    Most steps read: errors are held against the output's mean square over time, which zeros dilute. The decay of a
    chunk is several units in the last place of bf16: of less, a chunk's map of the state in bf16 would keep nothing.
    """
    length = int(symbols["T"])
    chunk = int(symbols["CHUNK_SIZE"])
    return st.fixed_dictionaries(
        {
            "written": st.integers(8, chunk),
            "read": st.integers(length // 4, 3 * length // 8),
            "decay": st.integers(100, 200).map(lambda percent: percent / 100),
        }
    )


def apply_memory(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    """Early keys live in the first half of the channels, later keys in the other: later steps erase nothing early.

    Queries are zero before `read` and then look at the first half only, so all that they see was written early.
    """
    q, k = inputs["q"], inputs["k"]
    half = k.shape[-1] // 2
    k[:, : plan["written"], :, half:] = 0
    k[:, plan["written"] :, :, :half] = 0
    q[:, : plan["read"]] = 0
    q[..., half:] = 0
    noise = torch.rand(inputs["g"].shape, generator=generator, device=q.device)
    inputs["g"] = -(0.5 + noise) * (plan["decay"] / q.shape[1])


def draw_decay(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """The fastest mean decay of a channel in a step."""
    return st.fixed_dictionaries({"fastest": st.integers(10, 20).map(lambda percent: percent / 100)})


def apply_decay(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    """Channel means are even over [-fastest, 0], drawn by head; the noise around them stays, at half its size."""
    g = inputs["g"]
    means = -plan["fastest"] * torch.rand(g.shape[2:], generator=generator, device=g.device)
    inputs["g"] = 0.5 * (g + 0.05) + means


def draw_keys(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """How many keys take turns, and how much noise they carry.

    Fewer or purer keys meet so often in a chunk that the powers of the matrix of their products grow far above the
    inverse that they add up to: the operands of an exact inversion by products would then decide, not the kernel.
    """
    return st.fixed_dictionaries({"period": st.integers(9, 15), "noise": st.sampled_from([0.4, 0.5, 0.6])})


def apply_keys(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    """Each key is one of `period` directions with a random sign, plus noise, scaled to norm one; decay is mild."""
    k = inputs["k"]
    batch, length, heads, width = k.shape

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=k.device)

    turn = torch.arange(length, device=k.device) % plan["period"]
    keys = unit(normal(batch, plan["period"], heads, width))[:, turn]
    signs = normal(batch, length, heads, 1).sign()
    keys = unit(keys * signs + plan["noise"] * unit(normal(*k.shape)))
    inputs["k"] = keys.to(k.dtype)
    inputs["g"] = inputs["g"] * 0.1 - 0.005


def draw_steps(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """The share of full steps among full and empty ones, and how far from 1 and 0 they are."""
    return st.fixed_dictionaries({"full": st.sampled_from([0.5, 0.75, 1.0]), "off": st.sampled_from([0.0, 0.005])})


def apply_steps(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    """beta is 1 - off or off; keys have norm one, so that a full step replaces what its key held."""
    beta = inputs["beta"]
    full = torch.rand(beta.shape, generator=generator, device=beta.device) < plan["full"]
    inputs["beta"] = torch.where(full, 1.0 - plan["off"], plan["off"]).to(beta.dtype)
    inputs["k"] = unit(inputs["k"].float()).to(inputs["k"].dtype)


def unit(t: Tensor) -> Tensor:
    """Vectors of the last dimension scaled to norm one."""
    return t / t.norm(dim=-1, keepdim=True)


STRUCTURES = {
    "long-memory": Structure(draw_memory, apply_memory),
    "strong-decay": Structure(draw_decay, apply_decay),
    "alternating-keys": Structure(draw_keys, apply_keys),
    "full-steps": Structure(draw_steps, apply_steps),
}
