"""Entries of C++ maps, types of variables at a launch, overloads by name; products and rotations in torch."""

from __future__ import annotations

from pathlib import Path

from host_support import classes, lint, reasons, states

HEAD = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n"
TOPK = """
class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
"""
ENTRIES = r"""
#include <torch/extension.h>
#include <map>
static std::map<int64_t, torch::Tensor> kept;
std::vector<torch::Tensor> pick(torch::Tensor x, int64_t k) {
  auto& values = kept[k];
  auto& places = kept[-k];
  if (!values.defined()) { auto found = at::topk(x, k); values = std::get<0>(found); places = std::get<1>(found); }
  return {values, places};
}
"""
SOFTMAX = r"""
#include <torch/extension.h>
template <int T> struct Shape { static __device__ int first() { return threadIdx.x; } enum { step = T }; };
template <class S> __global__ void soft(const float* x, float* y, int n) {
  __shared__ double part[256];
  const float* row = x + (size_t)blockIdx.x * n;
  double sum = 0.;
  float top = -1e38f;
  for (int i = 0; i < n; ++i) top = fmaxf(top, row[i]);
  for (int i = S::first(); i < n; i += 256) sum += (double)expf(row[i] - top);
  part[threadIdx.x] = sum;
  __syncthreads();
  double all = 0.;
  for (int i = 0; i < 256; ++i) all += part[i];
  for (int i = S::first(); i < n; i += 256) y[(size_t)blockIdx.x * n + i] = expf(row[i] - top) / (float)all;
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  auto go = [&](auto shape) {
    using S = decltype(shape);
    soft<S><<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  };
  if (x.size(1) > 8192) go(Shape<8>{}); else go(Shape<4>{});
  return y;
}
"""
ROTATED = """
@triton.jit
def lay(x, y, T, H, D: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, D)
    at = ((row // (T * H)) * H + row % H) * T + row // H % T
    tl.store(y + at * D + c, tl.load(x + row * D + c))


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        axis = torch.repeat_interleave(torch.arange(3), torch.tensor(mrope_section))
        self.register_buffer("axis", axis, persistent=False)

    def forward(self, q, k, pos_t, pos_h, pos_w):
        at = torch.stack((pos_t, pos_h, pos_w), -1)[..., self.axis].flatten(0, 1)
        turn = torch.complex(self.cos_cache.float().gather(0, at), self.sin_cache.float().gather(0, at))
        made = []
        for x in (q, k):
            B, T, H, D = x.shape
            pairs = x.float().unflatten(-1, (2, D // 2)).transpose(-1, -2).contiguous()
            z = torch.view_as_complex(pairs) * turn.view(B, T, 1, D // 2)
            y = torch.empty(B, H, T, D, dtype=x.dtype, device=x.device)
            lay[(B * T * H,)](torch.view_as_real(z).transpose(-1, -2).to(x.dtype).contiguous(), y, T, H, D=D)
            made.append(y)
        return tuple(made)
"""
GRID = """
@triton.jit
def unpack(q, s, z, w, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    b = tl.load(q + r * N + n, mask=n < N)
    scale = tl.load(s + r // 64 * N + n, mask=n < N)
    zero = tl.load(z + r // 64 * N + n, mask=n < N)
    tl.store(w + 2 * r * N + n, ((b & 15).to(tl.bfloat16) - zero) * scale, mask=n < N)
    tl.store(w + (2 * r + 1) * N + n, ((b >> 4).to(tl.bfloat16) - zero) * scale, mask=n < N)


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        half, N = self.w_q.shape
        w = torch.empty(2 * half, N, dtype=x.dtype, device=x.device)
        unpack[(half, triton.cdiv(N, 256))](self.w_q, self.scales, self.zeros, w, N, BLOCK=256)
        return (x.unsqueeze(-1) * w.unsqueeze(0)).sum(1)
"""


def extension(text: str, declared: str, name: str) -> str:
    load = f"ext = load_inline('e', {declared!r}, SRC, functions=[{name!r}])\n"
    return HEAD + f'from torch.utils.cpp_extension import load_inline\nSRC = r"""{text}"""\n{load}'


def test_a_map_of_cpp_makes_the_entry_that_a_reference_names(tmp_path: Path) -> None:
    head = extension(ENTRIES, "std::vector<torch::Tensor> pick(torch::Tensor x, int64_t k);", "pick")
    report = lint(tmp_path, head + TOPK + "        return ext.pick(x, self.k)\n", "05_topk_bitonic")
    assert not reasons(report)
    assert classes(report) & {"output-memoization", "unchanged-input-output-memo"}, classes(report)


def test_a_kernel_is_launched_with_the_type_of_a_variable(tmp_path: Path) -> None:
    head = extension(SOFTMAX, "torch::Tensor run(torch::Tensor x);", "run")
    model = "class Model(nn.Module):\n    def __init__(self, batch, vocab):\n        super().__init__()\n\n"
    report = lint(tmp_path, head + model + "    def forward(self, x):\n        return ext.run(x)\n", "04_kahan_softmax")
    assert set(states(report).values()) <= {"kept", "kept-by-precision"}, (states(report), reasons(report))


def test_the_alignment_of_a_fresh_tensor_is_known(tmp_path: Path) -> None:
    aligned = "if (((uintptr_t)x.data_ptr<float>() | x.size(1)) % 16) return at::softmax(x, -1);"
    head = extension(
        SOFTMAX.replace("  auto go =", f"  {aligned}\n  auto go ="), "torch::Tensor run(torch::Tensor x);", "run"
    )
    model = "class Model(nn.Module):\n    def __init__(self, batch, vocab):\n        super().__init__()\n\n"
    report = lint(tmp_path, head + model + "    def forward(self, x):\n        return ext.run(x)\n", "04_kahan_softmax")
    assert set(states(report).values()) <= {"kept", "kept-by-precision"}, (states(report), classes(report))


def test_an_overload_by_its_name_is_the_operation(tmp_path: Path) -> None:
    body = "        v, i = torch.ops.aten.sort.stable(x, stable=True, dim=-1, descending=True)\n"
    body += "        return v[:, : self.k].contiguous(), i[:, : self.k].contiguous()\n"
    assert "builtin-op-sidestep" in classes(lint(tmp_path, HEAD + TOPK + body, "05_topk_bitonic"))


def test_a_rotation_by_complex_numbers_in_torch_is_the_work(tmp_path: Path) -> None:
    report = lint(tmp_path, HEAD + ROTATED, "09_fmha_preattn_mrope")
    assert states(report) == {"authored-compute": "broken"}, (classes(report), reasons(report))


def test_a_product_over_a_grid_that_is_summed_is_a_matrix_product(tmp_path: Path) -> None:
    report = lint(tmp_path, HEAD + GRID, "07_w4a16_gemm")
    assert states(report)["authored-compute"] == "broken", (classes(report), reasons(report))
