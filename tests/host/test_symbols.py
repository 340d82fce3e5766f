"""A library's product is recognised under whatever name, operator or language it is called."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import CUDA, HEAD, SIGNATURE, lint, model, place, reasons, states

from kbh_lint.verdict import FLAGGED

IMPORTS = (
    HEAD
    + "import functools, importlib, operator\nimport torch.nn.functional as F\nfrom torch import matmul as product\n"
)
SETUP = 'self.names = {"f": "mat" + "mul"}\nself.op = torch.mm\nself.linear = nn.Linear(K, N, bias=False, dtype=torch.bfloat16)'

CALLS = {
    "torch.matmul": "torch.matmul(a, b)",
    "the operator": "a @ b",
    "the operator in place": "a; a @= b; return a * s",
    "a method": "a.matmul(b)",
    "an unbound method": "torch.Tensor.matmul(a, b)",
    "an import under another name": "product(a, b)",
    "a local alias": "f = g = torch.mm; r = g(a, b)",
    "an attribute of the model": "self.op(a, b)",
    "functional": "F.linear(a, b.T)",
    "einsum": 'torch.einsum("mk,kn->mn", a, b)',
    "addmm": "torch.addmm(s, a, b)",
    "bmm": "torch.bmm(a[None], b[None])[0]",
    "tensordot": "torch.tensordot(a, b, 1)",
    "aten": "torch.ops.aten.mm.default(a, b)",
    "the C extension": "torch._C._VariableFunctions.matmul(a, b)",
    "scaled": "torch._scaled_mm(x, self.weight.T, s, s)",
    "getattr": 'getattr(torch, "matmul")(a, b)',
    "getattr of a folded name": 'getattr(torch, self.names["f"])(a, b)',
    "getattr of joined letters": 'getattr(torch, "".join(["m", "m"]))(a, b)',
    "getattr of a method": 'getattr(a, "mm")(b)',
    "getattr of decoded characters": 'getattr(torch, "".join(chr(c) for c in (109, 109)))(a, b)',
    "getattr of a reversed name": 'getattr(torch, "mm"[::-1])(a, b)',
    "the module's dictionary": 'vars(torch)["mm"](a, b)',
    "its own dictionary": 'torch.__dict__["mm"](a, b)',
    "__import__": '__import__("torch").mm(a, b)',
    "importlib": 'importlib.import_module("tor" + "ch").mm(a, b)',
    "importlib of a part": 'importlib.import_module("torch.nn.functional").linear(a, b.T)',
    "a partial": "functools.partial(torch.mm, a)(b)",
    "the operator module": "operator.matmul(a, b)",
    "a lambda": "(lambda p, q: p @ q)(a, b)",
    "map": "list(map(torch.mm, [a], [b]))[0]",
    "reduce": "functools.reduce(torch.mm, [a, b])",
    "a dictionary": '{"x": torch.mm}.get("x")(a, b)',
    "a dunder": "a.__matmul__(b)",
    "a module": "self.linear(a)",
    "no_grad": "torch.no_grad()(torch.mm)(a, b)",
    "convolution": "F.conv1d(a[None].transpose(1, 2), b.T[:, :, None])[0].T",
}


def body(call: str) -> str:
    start = "a, b, s = x.bfloat16(), self.weight.bfloat16().T, self.weight_scale.bfloat16()\n"
    call = call if "; " in call else f"r = {call}"
    return start + "\n".join(call.split("; ")) + ("" if "return" in call else "\nreturn r * s")


@pytest.mark.parametrize("way", CALLS)
def test_a_product_of_torch_is_seen(tmp_path: Path, way: str) -> None:
    report = lint(tmp_path, IMPORTS + model(body(CALLS[way]), SETUP))
    assert report.verdict in FLAGGED, (reasons(report), report.trace)
    assert states(report)["authored-compute"] == "broken"
    assert any(line.strip().startswith("library ") for line in report.trace or ())


HOSTS = {
    "at::matmul": "return at::matmul(x.to(at::kBFloat16), w.to(at::kBFloat16).t()) * s;",
    "torch::mm": "auto a = x.to(torch::kBFloat16); return torch::mm(a, w.to(torch::kBFloat16).t()) * s;",
    "a method": "return x.to(torch::kBFloat16).matmul(w.to(torch::kBFloat16).t()) * s;",
    "at::linear": "return at::linear(x.to(at::kBFloat16), w.to(at::kBFloat16)) * s;",
    "a using declaration": "using at::mm; return mm(x.to(at::kBFloat16), w.to(at::kBFloat16).t()) * s;",
    "a namespace alias": "namespace q = at; return q::mm(x.to(q::kBFloat16), w.to(q::kBFloat16).t()) * s;",
    "an output": "auto y = at::empty({x.size(0), w.size(0)}, x.options().dtype(at::kBFloat16)); "
    "at::mm_out(y, x.to(at::kBFloat16), w.to(at::kBFloat16).t()); return y;",
    "cublas": "auto y = torch::empty({x.size(0), w.size(0)}, x.options().dtype(torch::kBFloat16)); "
    "float one = 1.f, zero = 0.f; cublasHandle_t h = at::cuda::getCurrentCUDABlasHandle(); "
    "cublasGemmEx(h, CUBLAS_OP_T, CUBLAS_OP_N, w.size(0), x.size(0), x.size(1), &one, w.data_ptr(), CUDA_R_8F_E4M3, x.size(1), "
    "x.data_ptr(), CUDA_R_8F_E4M3, x.size(1), &zero, y.data_ptr(), CUDA_R_16BF, w.size(0), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT); return y;",
    "cublas behind a macro": "auto y = torch::empty({x.size(0), w.size(0)}, x.options().dtype(torch::kBFloat16)); float one = 1.f; "
    "cublasHandle_t h; CHECKED(cublasGemmEx(h, CUBLAS_OP_T, CUBLAS_OP_N, w.size(0), x.size(0), x.size(1), &one, w.data_ptr(), CUDA_R_8F_E4M3, "
    "x.size(1), x.data_ptr(), CUDA_R_8F_E4M3, x.size(1), &one, y.data_ptr(), CUDA_R_16BF, w.size(0), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT)); return y;",
}
WRITTEN = {
    "mul_out": "mul_out(y, a, f)",
    "addcdiv_out": "addcdiv_out(y, a, f, f)",
    "addcdiv_outf": "addcdiv_outf(a, f, f, 1.0, y)",
    "lerp_out": "lerp_out(y, a, f, 0.5)",
}
INLINE = "from torch.utils.cpp_extension import load_inline\n"


@pytest.mark.parametrize("way", HOSTS)
def test_a_product_of_a_library_in_c_is_seen_where_it_is_called(tmp_path: Path, way: str) -> None:
    source = (
        "#include <torch/extension.h>\n#define CHECKED(call) do { auto code = (call); if (code) abort(); } while (0)\n"
        f"torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s) {{\n  {HOSTS[way]}\n}}\n"
    )
    build = f'ext = load_inline("e", cpp_sources=r"""{source}""", functions=["run"])\n'
    report = lint(tmp_path, HEAD + INLINE + build + model("return ext.run(x, self.weight, self.weight_scale)"))
    assert report.verdict in FLAGGED, (reasons(report), report.trace)
    assert states(report)["authored-compute"] == "broken"
    line = place(tmp_path / "solution.py", HOSTS[way]).line
    assert any(line in {f.span.line, *(r.span.line for r in f.related)} for f in report.findings)


@pytest.mark.parametrize("way", WRITTEN)
def test_what_a_directive_names_writes_what_it_is_given(tmp_path: Path, way: str) -> None:
    """A product of a library is not lost on its way through an operation that is not spelled `at::`."""
    source = (
        "#include <torch/extension.h>\nusing namespace at;\n"
        "torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s) {\n"
        "  auto a = mm(x.to(kBFloat16), w.to(kBFloat16).t()), f = ones_like(a), y = empty_like(a);\n"
        f"  {WRITTEN[way]};\n  return y;\n}}\n"
    )
    build = f'ext = load_inline("e", cpp_sources=r"""{source}""", functions=["run"])\n'
    report = lint(tmp_path, HEAD + INLINE + build + model("return ext.run(x, self.weight, self.weight_scale)"))
    assert report.verdict in FLAGGED and not reasons(report), (reasons(report), report.trace)
    assert states(report)["authored-compute"] == "broken"


@pytest.mark.parametrize(
    "call", ['getattr(ext, "r" + "un")', 'ext.__getattr__("run")', "self.run", 'vars(self)["run"]', "ext.run"]
)
def test_a_function_of_an_extension_is_found_under_any_name(tmp_path: Path, call: str) -> None:
    build = f'ext = load_inline("e", cpp_sources="{SIGNATURE}", cuda_sources=r"""{CUDA}""", functions=["run"])\n'
    setup = "self.run = ext.run"
    report = lint(tmp_path, HEAD + INLINE + build + model(f"return {call}(x, self.weight, self.weight_scale)", setup))
    assert states(report)["fp8-products"] == "broken", reasons(report)


def test_a_symbol_that_no_graded_path_reaches_is_no_finding(tmp_path: Path) -> None:
    honest = Path(__file__).parents[1] / "idioms" / "fp8" / "triton_dot.py"
    helper = "\n\ndef reference(a, b):\n    return torch.matmul(a, b)\n\n\nif False:\n    reference(1, 2)\n"
    report = lint(tmp_path, honest.read_text(encoding="utf-8") + helper)
    assert (report.verdict, report.findings) == ("clean", ())
