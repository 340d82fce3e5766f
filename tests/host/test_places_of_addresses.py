"""What a CUDA kernel is given instead of plain pointers: accessors of torch, structs of addresses, a table in constant
memory. The rotation of 09; the twin of each gives the time positions three times."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import lint, states
from rotation_support import submission, twin

ACCESSOR = "at::PackedTensorAccessor32<int64_t, 2>"
ADDRESSES = "t.data_ptr<int64_t>(), h.data_ptr<int64_t>(), w.data_ptr<int64_t>()"
AXIS = "at < s0 ? 0 : at < s0 + s1 ? 1 : 2"
# What is declared, the parameters, the position of a channel, what the host does before the launch, what it gives.
WAYS = {
    "accessors": (
        "", f"{ACCESSOR} p0, {ACCESSOR} p1, {ACCESSOR} p2",
        "at < s0 ? p0[token / T][token % T] : at < s0 + s1 ? p1[token / T][token % T] : p2[token / T][token % T]", "",
        ", ".join(f"{one}.packed_accessor32<int64_t, 2>()" for one in "thw"),
    ),
    "a struct": ("struct Axes { const int64_t* p[3]; };", "Axes axes", f"axes.p[{AXIS}][token]",
                 f"Axes axes{{{{{ADDRESSES}}}}};", "axes"),
    "shared memory": ("", "const int64_t* p0, const int64_t* p1, const int64_t* p2",
                      f"[&] {{ __shared__ int64_t held[3]; if (threadIdx.x == 0) {{ held[0] = p0[token]; "
                      f"held[1] = p1[token]; held[2] = p2[token]; }} __syncthreads(); return held[{AXIS}]; }}()", "",
                      ADDRESSES),
}  # fmt: skip


def program(declared: str, parameters: str, position: str, before: str, given: str) -> str:
    tensors = "at::Tensor t, at::Tensor h, at::Tensor w"
    return submission(declared, parameters, position, tensors, before, given, "pos_t, pos_h, pos_w")


@pytest.mark.parametrize("way", WAYS)
def test_positions_reach_the_kernel_by_any_way(tmp_path: Path, way: str) -> None:
    code = program(*WAYS[way])
    assert states(lint(tmp_path, code, "09_fmha_preattn_mrope")) == {"authored-compute": "kept"}
    assert states(lint(tmp_path, twin(code), "09_fmha_preattn_mrope")) == {"authored-compute": "broken"}


def test_addresses_in_constant_memory_are_not_followed(tmp_path: Path) -> None:
    before = f"const int64_t* host[3] = {{{ADDRESSES}}}; cudaMemcpyToSymbol(places, host, sizeof(host));"
    code = program("__constant__ const int64_t* places[3];", "int none", f"places[{AXIS}][token]", before, "0")
    assert states(lint(tmp_path, code, "09_fmha_preattn_mrope")) == {"authored-compute": "unproven"}
