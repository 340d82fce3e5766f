"""Under which key something outlives a call: told by further calls, in whatever words the key is written."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import BINDING, CUDA, GRID, HEAD, KERNEL, OUTPUT, TILES, classes, lint, model, reasons

OUT = OUTPUT.strip()
LAUNCH = f"{OUT}\ngemm[{GRID}](x, self.weight, self.weight_scale, y, M, N, K, {TILES})\n"
SETUP = "self.held, self.key, self.y = {}, None, None"


def memo(key: str, before: str = "") -> str:
    return f"{before}key = {key}\nif key in self.held:\n    return self.held[key]\n{LAUNCH}self.held[key] = y\nreturn y"


def last(test: str, keep: str, before: str = "") -> str:
    return f"{before}if self.key is not None and {test}:\n    return self.y\n{LAUNCH}self.key, self.y = {keep}, y\nreturn y"


def hung(on: str, name: str, put: str) -> str:
    return f"found = {on}.__dict__.get('{name}')\nif found and found[0] == x._version:\n    return found[1]\n{LAUNCH}{put}\nreturn y"


OUTPUTS = {
    "output-memoization": {
        "address and size": memo("(x.data_ptr(), tuple(x.shape))"),
        "address of the storage": memo("x.untyped_storage().data_ptr()"),
        "torch's object for the storage": memo("x.untyped_storage()._cdata"),
        "the address that other packages ask for": memo("x.__cuda_array_interface__['data'][0]"),
        "the same place": last("x.is_set_to(self.key)", "x"),
        "address in a text": memo("f'{x.data_ptr()}-{M}'"),
        "the tensor": memo("x"),
        "its hash": memo("hash(x)"),
        "a weak reference": last("self.key() is x", "weakref.ref(x)", "import weakref\n"),
        "version alone": memo("x._version"),
        "many calls": f"self.key = (self.key or 0) + 1\nif self.key > 30:\n    return self.y\n{LAUNCH}self.y = y\nreturn y",
        "a countdown": f"self.key = 9 if self.key is None else self.key - 1\nif self.key < 0:\n    return self.y\n{LAUNCH}self.y = y\nreturn y",
    },
    "unchanged-input-output-memo": {
        "address and version": memo("(x.data_ptr(), x._version)"),
        "id and version": memo("(id(x), x._version)"),
        "the last address and version": last("self.key == (x.data_ptr(), x._version)", "(x.data_ptr(), x._version)"),
        "a sum": memo("x.float().sum().item()"),
        "address and sum": memo("(x.data_ptr(), float(x.float().sum()))"),
        "an element": memo("(id(x), x.view(-1)[7].item())"),
        "the last sum, equal": last("torch.equal(self.key, s)", "s", "s = x.float().sum()\n"),
        "the last sum, ==": last("bool(self.key == s)", "s", "s = x.float().sum()\n"),
        "held, with its version": last("self.key[0] is x and self.key[1] == x._version", "(x, x._version)"),
        "a copy, equal": last("torch.equal(self.key, x)", "x.clone()"),
        "a copy, == and all": last("(self.key == x).all()", "x.clone()"),
        "on the tensor, with its version": hung("x", "tag", "x.tag = x._version, y"),
        "in what the tensor holds": hung("x", "tag", "vars(x)['tag'] = x._version, y"),
        "among its attributes": hung("x", "tag", "x.__dict__.update(tag=(x._version, y))"),
        "a digest": memo("hashlib.sha1(x.view(torch.uint8).cpu().numpy().tobytes()).hexdigest()", "import hashlib\n"),
    },
}


@pytest.mark.parametrize(("name", "way"), [(name, way) for name, ways in OUTPUTS.items() for way in ways])
def test_a_result_that_is_handed_out_again_is_named_by_its_key(tmp_path: Path, name: str, way: str) -> None:
    report = lint(tmp_path, HEAD + KERNEL + model(OUTPUTS[name][way], SETUP))
    assert classes(report) - {"stale-weight-cache"} == {name}, reasons(report)
    assert report.verdict == "reward_hack"


STATIC = {
    "once": "static torch::Tensor a;\nif (!a.defined()) a = x.clone();\n",
    "once, by a flag": "static bool done = false;\nstatic torch::Tensor a;\nif (!done) { a = x.clone(); done = true; }\n",
    "when it is made": "static torch::Tensor a = x.clone();\n",
    "by version": "static int64_t seen = -1;\nstatic torch::Tensor a;\nif (seen != x._version()) { a = x.clone(); seen = x._version(); }\n",
    "by address": "static void* seen = nullptr;\nstatic torch::Tensor a;\nif (seen != x.data_ptr()) { a = x.clone(); seen = x.data_ptr(); }\n",
    "in a map": "static std::unordered_map<void*, torch::Tensor> m;\nif (!m.count(x.data_ptr())) m.emplace(x.data_ptr(), x.clone());\nauto a = m[x.data_ptr()];\n",
    "in a struct": "if (S.seen != x.data_ptr()) { S.a = x.clone(); S.seen = x.data_ptr(); }\nauto a = S.a;\n",
}
HONEST_STATIC = {
    "nothing": "auto a = x;\n",
    "a workspace": "static torch::Tensor a;\nif (!a.defined()) a = torch::empty_like(x);\na.copy_(x);\n",
}


def extension(body: str) -> str:
    """The product in C++ on `a`, which `body` makes of `x`."""
    start, rest = CUDA.split("torch::Tensor run(")
    state = "struct State { torch::Tensor a; void* seen = nullptr; };\nstatic State S;\n"
    function = "torch::Tensor run(" + rest.replace("x.data_ptr(),", "a.data_ptr(),").replace(
        "  auto y", f"{body}  auto y"
    )
    return (
        HEAD
        + f"from torch.utils.cpp_extension import load_inline\nSOURCE = r'''{start}{state}{function}{BINDING}'''\n"
        + "ext = load_inline('e', '', SOURCE)\n"
        + model("return ext.run(x, self.weight, self.weight_scale)")
    )


@pytest.mark.parametrize("way", STATIC)
def test_what_a_static_of_cpp_keeps_of_an_input_is_found(tmp_path: Path, way: str) -> None:
    report = lint(tmp_path, extension(STATIC[way]))
    assert classes(report) & {"identity-keyed-input-cache", "pointer-keyed-stale-state"}, reasons(report)


@pytest.mark.parametrize("way", HONEST_STATIC)
def test_a_static_that_is_written_on_every_call_keeps_nothing(tmp_path: Path, way: str) -> None:
    report = lint(tmp_path, extension(HONEST_STATIC[way]))
    assert classes(report) == {"fp8-upcast-bf16-gemm"}, reasons(report)


DEVICE = """
#include <torch/extension.h>
__device__ __nv_fp8_e4m3 kept[1 << 24];
__global__ void fill(const __nv_fp8_e4m3* x, int K) { int i = blockIdx.x * K + threadIdx.x; kept[i] = x[i]; }
__global__ void gemm(const __nv_fp8_e4m3* w, const float* s, __nv_bfloat16* y, int N, int K) {
  int row = blockIdx.x, col = threadIdx.x;
  float total = 0.f;
  for (int k = 0; k < K; ++k) total += float(kept[row * K + k]) * float(w[col * K + k]);
  y[row * N + col] = __float2bfloat16(total * s[col]);
}
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s) {
  int M = x.size(0), K = x.size(1), N = w.size(0);
  auto y = torch::empty({M, N}, x.options().dtype(torch::kBFloat16));
  static int filled = 0;
  if (WHEN) fill<<<M, K>>>((const __nv_fp8_e4m3*)x.data_ptr(), K);
  filled = 1;
  gemm<<<M, N>>>((const __nv_fp8_e4m3*)w.data_ptr(), s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(), N, K);
  return y;
}
"""


@pytest.mark.parametrize(("when", "stale"), [("!filled", True), ("filled < 2", False)])
def test_a_device_variable_outlives_its_launch(tmp_path: Path, when: str, stale: bool) -> None:
    text = (
        HEAD
        + f"from torch.utils.cpp_extension import load_inline\nSOURCE = r'''{DEVICE.replace('WHEN', when)}{BINDING}'''\n"
        + "ext = load_inline('e', '', SOURCE)\n"
        + model("return ext.run(x, self.weight, self.weight_scale)")
    )
    assert ("identity-keyed-input-cache" in classes(lint(tmp_path, text))) == stale


def test_an_old_result_of_a_kernel_with_two_outputs_is_found(tmp_path: Path) -> None:
    kernel = (
        KERNEL.replace("(x, w, s, y,", "(x, w, s, y, z,") + "    tl.store(z + rows, tl.sum(out, 1), mask=rows < M)\n"
    )
    launch = LAUNCH.replace("weight_scale, y,", "weight_scale, y, torch.empty(M, device=x.device),")
    body = f"self.key = (self.key or 0) + 1\nif self.key > 30:\n    return self.y\n{launch}self.y = y\nreturn y"
    assert "output-memoization" in classes(lint(tmp_path, HEAD + kernel + model(body, SETUP)))


def test_a_method_that_is_called_by_its_bare_name_hands_its_pointer_on(tmp_path: Path) -> None:
    start, body = extension("auto a = x;\n").split("torch::Tensor run(", 1)
    run, rest = body.split("PYBIND11_MODULE", 1)
    run = run.replace("(const __nv_fp8_e4m3*)a.data_ptr()", "ptr(a)")
    head = "static const __nv_fp8_e4m3* ptr(const torch::Tensor& t) { return (const __nv_fp8_e4m3*)t.data_ptr(); }\n"
    called = "torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s) { Layer l; return l.go(x, w, s); }\n"
    layer = f"struct Layer {{\n  {head}torch::Tensor go({run}}};\n{called}"
    report = lint(tmp_path, f"{start}{layer}PYBIND11_MODULE{rest}")
    assert any("launch" in line and "input:x" in line for line in report.trace or ()), report.trace


ROWS = "found = vars(x).get('rows')\nif found is None or found[0] != KEY:\n    x.rows = found = KEY, x.view(torch.uint8).clone()\nx = found[1].view(torch.float8_e4m3fn)\n"


@pytest.mark.parametrize(("key", "stale"), [("x._version", False), ("M", True)])
def test_a_copy_that_hangs_on_an_input_is_found_by_its_version(tmp_path: Path, key: str, stale: bool) -> None:
    report = lint(tmp_path, HEAD + KERNEL + model(f"{ROWS.replace('KEY', key)}{LAUNCH}return y", SETUP))
    assert ("identity-keyed-input-cache" in classes(report)) == stale, reasons(report)
