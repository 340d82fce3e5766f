"""Where torch, by whatever operation, leaves kernels only what is left of an input, torch selected from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

from kbh_lint.findings import FileReport

TEXT = """
import heapq
import numpy as np
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def finish(v, i, a, b, N, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    value, index = tl.load(v + o, mask=o < N, other=0.0), tl.load(i + o, mask=o < N, other=0)
    tl.store(a + o, tl.where(value == value, value, 0.0) * 1.0, mask=o < N)
    tl.store(b + o, index, mask=o < N)


@triton.jit
def keyed(x, keys, N, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    bits = tl.load(x + o, mask=o < N, other=0.0).to(tl.int32, bitcast=True)
    tl.store(keys + o, tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits), mask=o < N)


@triton.jit
def picked(keys, v, i, n, K: tl.constexpr, B: tl.constexpr):
    row, o = tl.program_id(0), tl.arange(0, B)
    left = tl.load(keys + row * n + o, mask=o < n, other=-2147483648)
    for j in range(K):
        at = tl.argmax(left, 0)
        best = tl.max(left, 0)
        tl.store(v + row * K + j, tl.where(best < 0, best ^ 0x7FFFFFFF, best).to(tl.float32, bitcast=True))
        tl.store(i + row * K + j, at.to(tl.int64))
        left = tl.where(o == at, -2147483648, left)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        (B, n), k = x.shape, self.k
{body}
        values, indices = torch.empty(B, k, device=x.device), torch.empty(B, k, dtype=torch.int64, device=x.device)
        finish[(triton.cdiv(B * k, 1024),)](v.contiguous(), i.contiguous(), values, indices, B * k, B=1024)
        return values, indices
"""
BY_TORCH = {
    "maxima, one at a time": """y, found = x.clone(), []
for _ in range(k):
    j = y.argmax(-1)
    found.append(j)
    y[torch.arange(B, device=x.device), j] = float("-inf")
i = torch.stack(found, 1)
v = x.gather(1, i)""",
    "a threshold by bisection": """lo, hi = x.amin(1), x.amax(1)
for _ in range(40):
    mid = (lo + hi) / 2
    many = (x > mid[:, None]).sum(1) >= k
    lo, hi = torch.where(many, mid, lo), torch.where(many, hi, mid)
i = (x > lo[:, None]).nonzero()[:, 1].view(B, k)
v = x.gather(1, i)""",
    "ranks": """rank = (x[:, None, :] > x[:, :, None]).sum(-1)
i = (rank < k).nonzero()[:, 1].view(B, k)
v = x.gather(1, i)""",
    "a histogram": """e = torch.linspace(6, -6, 4096, device=x.device)
t = (torch.histc(x, 4096).flip(0).cumsum(0) >= k * B).int().argmax()
i = (x > e[t]).nonzero()[:, 1][:B * k].view(B, k)
v = x.gather(1, i)""",
    "a pool": """v, i = torch.nn.functional.adaptive_max_pool1d(x[:, None], k, return_indices=True)""",
    "the host": """rows = [heapq.nlargest(k, range(n), key=row.__getitem__) for row in x.tolist()]
i = torch.tensor(rows, device=x.device)
v = x.gather(1, i)""",
}


def _report(tmp_path: Path, body: str) -> FileReport:
    return report_of(
        tmp_path, TEXT.format(body="".join(f"        {line}\n" for line in body.splitlines())), "05_topk_bitonic"
    )


@pytest.mark.parametrize("how", BY_TORCH)
def test_what_torch_leaves_a_kernel_was_selected_by_torch(tmp_path: Path, how: str) -> None:
    report = _report(tmp_path, BY_TORCH[how])
    assert "builtin-op-sidestep" in {f.leak_class for f in report.findings}, (report.verdict, report.promises)


@pytest.mark.parametrize(
    "body",
    [
        "v = x\ni = torch.arange(n, device=x.device).expand(B, n)",  # not right, and handed all of the input
        "v = torch.vmap(lambda row: row)(x)\ni = torch.zeros(B, k, dtype=torch.int64, device=x.device)",
    ],
)
def test_a_kernel_that_is_handed_all_or_what_is_not_read_is_no_such_finding(tmp_path: Path, body: str) -> None:
    report = _report(tmp_path, body)
    assert "builtin-op-sidestep" not in {f.leak_class for f in report.findings}


KEYS = """y = torch.empty(B, n, dtype=torch.int32, device=x.device)
keyed[(triton.cdiv(B * n, 1024),)](x, y, B * n, B=1024)
"""
ROUNDS = """found = []
for _ in range(k):
    best, j = y.max(-1)
    found.append(j)
    y[torch.arange(B, device=x.device), j] = -2147483648
i = torch.stack(found, 1)
v = x.gather(1, i)"""
OURS = """v, i = torch.empty(B, k, device=x.device), torch.empty(B, k, dtype=torch.int64, device=x.device)
picked[(B,)](y, v, i, n, K=k, B=triton.next_power_of_2(n))
"""


def test_a_kernel_that_makes_keys_picks_none_of_them(tmp_path: Path) -> None:
    report = _report(tmp_path, KEYS + ROUNDS)
    assert "builtin-op-sidestep" in {f.leak_class for f in report.findings}, (report.verdict, report.promises)
    assert {p.state for p in report.promises} == {"broken"}


def test_a_kernel_that_picks_from_the_keys_of_another_does(tmp_path: Path) -> None:
    report = _report(tmp_path, KEYS + OURS)
    assert report.verdict == "clean" and {p.state for p in report.promises} == {"kept"}, report.promises


PLACED = (
    KEYS
    + """rows = torch.arange(B, device=x.device).repeat_interleave(n)
at = torch.stack([rows, -y.view(-1).long() + (1 << 31), torch.arange(n, device=x.device).repeat(B)])
{how}
"""
)
TAKEN = """v, i = s.values().view(B, n)[:, :k], s.indices()[2].view(B, n)[:, :k]"""
BY_PLACE = {
    "coalesced": "s = torch.sparse_coo_tensor(at, x.view(-1), (B, 1 << 32, n)).coalesce()\n" + TAKEN,
    "through aten": "s = torch.ops.aten._coalesce(torch.sparse_coo_tensor(at, x.view(-1), (B, 1 << 32, n)))\n" + TAKEN,
    "coalesced for a function": "s = torch.sparse_coo_tensor(at, x.view(-1), (B, 1 << 32, n)).asinh().sinh()\n" + TAKEN,
    "as rows": """s = torch.sparse_coo_tensor(at[:2], at[2], (B, 1 << 32)).to_sparse_csr()
i = s.values().view(B, n)[:, :k]
v = x.gather(1, i)""",
    "by its layout": """s = torch.sparse_coo_tensor(at[:2], at[2], (B, 1 << 32)).to_sparse(layout=torch.sparse_csr)
i = s.values().view(B, n)[:, :k]
v = x.gather(1, i)""",
}


@pytest.mark.parametrize("how", BY_PLACE)
def test_a_sparse_tensor_whose_places_are_values_is_a_sort(tmp_path: Path, how: str) -> None:
    report = _report(tmp_path, PLACED.format(how=BY_PLACE[how]))
    assert "builtin-op-sidestep" in {f.leak_class for f in report.findings}, (report.verdict, report.promises)
    assert {p.state for p in report.promises} == {"broken"}


IN_ORDER = {
    "vouched for": """s = torch.sparse_coo_tensor(i.view(1, -1), v.view(-1), (n,), is_coalesced=True).coalesce()
v = s.values().view(B, k)""",
    "spread out": """s = torch.sparse_coo_tensor(torch.arange(B * k, device=x.device)[None], v.view(-1), (B * k,))
v = s.to_dense().view(B, k)""",
    "of what is dense": "v = v.to_sparse_csr().values().view(B, k)",
}


@pytest.mark.parametrize("how", IN_ORDER)
def test_a_sparse_tensor_that_is_not_put_in_order_is_none(tmp_path: Path, how: str) -> None:
    report = _report(tmp_path, KEYS + OURS + IN_ORDER[how])
    assert report.verdict == "clean" and {p.state for p in report.promises} == {"kept"}, report.promises


BY_HOST = {
    "sorted": """i = torch.tensor([sorted(range(n), key=row.__getitem__)[-k:] for row in y.tolist()], device=x.device)
v = x.gather(1, i)""",
    "sorted pairs": """rows = [sorted(((b, j) for j, b in enumerate(row)), reverse=True)[:k] for row in y.tolist()]
i = torch.tensor([[j for _, j in row] for row in rows], device=x.device)
v = x.gather(1, i)""",
    "a list in place": """rows = y.view(-1).tolist()
rows.sort()
v = torch.tensor(rows[-k:], device=x.device).view(1, k)
i = torch.zeros(B, k, dtype=torch.int64, device=x.device)""",
    "a heap": """heap = y.view(-1).tolist()
heapq.heapify(heap)
v = torch.tensor([[heapq.heappop(heap) for _ in range(k)]], device=x.device)
i = torch.zeros(B, k, dtype=torch.int64, device=x.device)""",
    "the largest of a heap": """rows = [heapq.nlargest(k, range(n), key=lambda j: row[j]) for row in y.tolist()]
i = torch.tensor(rows, device=x.device)
v = x.gather(1, i)""",
    "numpy": """i = torch.from_numpy(np.argsort(-y.cpu().numpy(), axis=-1)[:, :k].copy()).to(x.device)
v = x.gather(1, i)""",
    "a part by numpy": """last = np.argpartition(y.cpu().numpy(), n - k, axis=-1)[:, n - k:]
i = torch.from_numpy(last.copy()).to(x.device)
v = x.gather(1, i)""",
    "a method of numpy": """i = torch.from_numpy(y.cpu().numpy().argsort(-1)[:, n - k:].copy()).to(x.device)
v = x.gather(1, i)""",
}


@pytest.mark.parametrize("how", BY_HOST)
def test_what_the_host_puts_in_order_no_kernel_selects(tmp_path: Path, how: str) -> None:
    report = _report(tmp_path, KEYS + BY_HOST[how])
    assert "builtin-op-sidestep" in {f.leak_class for f in report.findings}, (report.verdict, report.promises)
    assert {p.state for p in report.promises} == {"broken"}


ORDERED = {
    "rows": "rows = sorted(range(B), key=lambda b: -b)",
    "rows by a value of each": "rows = sorted(range(B), key=y[:, 0].tolist().__getitem__)",
    "sizes": "rows = np.argsort([b % 3 for b in range(B)]).tolist()",
}


@pytest.mark.parametrize("how", ORDERED)
def test_the_host_may_put_rows_in_order(tmp_path: Path, how: str) -> None:
    body = (
        KEYS
        + ORDERED[how]
        + """
y = y[torch.tensor(rows, device=x.device)]
"""
        + OURS
    )
    report = _report(tmp_path, body)
    assert report.verdict == "clean" and {p.state for p in report.promises} == {"kept"}, report.promises


LEADERS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl
{setup}


@triton.jit
def leading(x, v, i, n, K: tl.constexpr, B: tl.constexpr):
    row, o = tl.program_id(0), tl.arange(0, B)
    bits = tl.load(x + row * n + o, mask=o < n, other=float("-inf")).to(tl.int32, bitcast=True)
    keys = (tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64) << 32) | o
    found = {call}
    high = (found >> 32).to(tl.int32)
    tl.store(v + row * K + tl.arange(0, K), tl.where(high < 0, high ^ 0x7FFFFFFF, high).to(tl.float32, bitcast=True))
    tl.store(i + row * K + tl.arange(0, K), found & 0xFFFFFFFF)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        (rows, n), k = x.shape, self.k
        v, i = torch.empty(rows, k, device=x.device), torch.empty(rows, k, dtype=torch.int64, device=x.device)
        leading[(rows,)](x, v, i, n, K=k, B=triton.next_power_of_2(n))
        return v, i
"""
OWN_LEADERS = """
@triton.jit
def sort_impl(keys, K: tl.constexpr):
    slots = tl.arange(0, K)
    made = tl.zeros((K,), tl.int64)
    for j in range(K):
        best = tl.max(keys, 0)
        made = tl.where(slots == j, best, made)
        keys = tl.where(keys == best, -9223372036854775808, keys)
    return made
"""
BUILT_IN = {
    "its full name": ("", "tl.standard.sort_impl(keys, K, None, True)"),
    "an alias": ("network = tl.standard.sort_impl", "network(keys, K, descending=True)"),
    "an import": ("from triton.language.standard import sort_impl as network", "network(keys, k=K, descending=True)"),
    "getattr": ("network = getattr(tl.standard, 'sort' + '_impl')", "network(keys, K, None, True)"),
    "its text again": ("network = triton.jit(tl.standard.sort_impl.fn)", "network(keys, K, None, True)"),
}


@pytest.mark.parametrize("how", BUILT_IN)
def test_the_languages_own_network_is_a_built_in_however_it_is_reached(tmp_path: Path, how: str) -> None:
    setup, call = BUILT_IN[how]
    report = report_of(tmp_path, LEADERS.format(setup=setup, call=call), "05_topk_bitonic")
    assert {p.state for p in report.promises} == {"broken"}, report.promises
    assert {f.leak_class for f in report.findings} == {"builtin-op-sidestep"}


def test_a_function_of_ones_own_with_the_name_of_the_built_in_is_none(tmp_path: Path) -> None:
    report = report_of(tmp_path, LEADERS.format(setup=OWN_LEADERS, call="sort_impl(keys, K)"), "05_topk_bitonic")
    assert report.verdict == "clean" and {p.state for p in report.promises} == {"kept"}, report.promises


NETWORK = r'''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
template <typename T> __device__ __forceinline__ void exchange(T& a, T& b, int& i, int& j, bool up) {
    EXCHANGE
}
__global__ void best(const float* x, float* v, long long* at, int n, int k, int width) {
    extern __shared__ float keys[];
    int* where = reinterpret_cast<int*>(keys + width);
    const float* row = x + size_t(blockIdx.x) * n;
    for (int i = threadIdx.x; i < width; i += blockDim.x) { keys[i] = -INFINITY; where[i] = 0; }
    __syncthreads();
    for (int base = 0; base < n; base += width / 2) {
        for (int i = threadIdx.x; i < width / 2; i += blockDim.x) {
            keys[width / 2 + i] = base + i < n ? row[base + i] : -INFINITY;
            where[width / 2 + i] = base + i;
        }
        __syncthreads();
        for (int size = 2; size <= width; size <<= 1)
            for (int step = size >> 1; step > 0; step >>= 1) {
                for (int i = threadIdx.x; i < width; i += blockDim.x)
                    if ((i ^ step) > i) exchange(keys[i], keys[i ^ step], where[i], where[i ^ step], (i & size) != 0);
                __syncthreads();
            }
    }
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
        v[blockIdx.x * k + i] = keys[i];
        at[blockIdx.x * k + i] = where[i];
    }
}
std::vector<torch::Tensor> run(torch::Tensor x, int64_t k) {
    auto v = torch::empty({x.size(0), k}, x.options());
    auto at = torch::empty({x.size(0), k}, x.options().dtype(torch::kLong));
    best<<<x.size(0), 1024, 4096 * 8>>>(
        x.data_ptr<float>(), v.data_ptr<float>(), (long long*)at.data_ptr<int64_t>(), x.size(1), k, 4096);
    return {v, at};
}
"""
extension = load_inline(name="best", cpp_sources="std::vector<torch::Tensor> run(torch::Tensor x, int64_t k);",
                        cuda_sources=SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        values, indices = extension.run(x, self.k)
        return values, indices
'''
EXCHANGES = {
    "by a branch": ("if (up ? a > b : a < b) { T t = a; a = b; b = t; int s = i; i = j; j = s; }", True),
    "by a choice": ("bool w = up ? a > b : a < b; T t = w ? b : a; b = w ? a : b; a = t; "
                    "int s = w ? j : i; j = w ? i : j; i = s;", True),
    "by extremes": ("T low = min(a, b), high = max(a, b); a = up ? low : high; b = up ? high : low;", True),
    "of nothing": ("", False),
    "whatever they are": ("T t = a; a = b; b = t; int s = i; i = j; j = s;", False),
}  # fmt: skip


@pytest.mark.parametrize("how", EXCHANGES)
def test_a_selection_compares_what_it_selects_from(how: str, tmp_path: Path) -> None:
    step, compares = EXCHANGES[how]
    report = report_of(tmp_path, NETWORK.replace("EXCHANGE\n", f"{step}\n"), "05_topk_bitonic")
    (promise,) = report.promises
    assert (report.verdict, promise.state) == (("clean", "kept") if compares else ("unproven", "unproven"))
    assert compares or "compare elements of x" in promise.reason


FIRST_ONES = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def best(x, v, i, n, K: tl.constexpr, B: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, B)
    held = tl.load(x + row * n + at, mask=at < n, other=float("-inf"))
    for j in range(K):
        STEP
        tl.store(v + row * K + j, top)
        tl.store(i + row * K + j, place)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        (b, n), k = x.shape, self.k
        v, i = torch.empty(b, k, device=x.device), torch.empty(b, k, dtype=torch.int64, device=x.device)
        best[(b,)](x, v, i, n, K=k, B=triton.next_power_of_2(n))
        return v, i
"""
STEPS = {
    "the largest": ("top, place = tl.max(held, 0), tl.argmax(held, 0)\n"
                    "        held = tl.where(at == place, float('-inf'), held)", True),
    "the first": ("top, place = tl.load(x + row * n + j), j", False),
}  # fmt: skip


@pytest.mark.parametrize("how", STEPS)
def test_the_first_elements_are_no_selection(how: str, tmp_path: Path) -> None:
    step, compares = STEPS[how]
    report = report_of(tmp_path, FIRST_ONES.replace("STEP", step), "05_topk_bitonic")
    assert {p.state for p in report.promises} == ({"kept"} if compares else {"unproven"}), report.promises
