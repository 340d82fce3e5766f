"""C++ host code does here what it does in C++: exceptions, references, containers, whole numbers of some width."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import BINDING, CUDA, HEAD, classes, lint, model, reasons, states

START, REST = CUDA.split("torch::Tensor run(")
HEADER, BODY = REST.split("{\n", 1)
HELPERS = """
void put(int& v) { v = 5; }
template <typename T> void twice(T& v) { v = v * 2; }
void take(std::vector<int>& v) { v.push_back(9); }
void fail() { throw std::invalid_argument("no"); }
int plain(int v) { v = 5; return v; }
"""
LEAK = "return (at::matmul(x.to(at::kBFloat16), w.to(at::kBFloat16).t()) * s).to(at::kBFloat16);"


def extension(before: str, test: str) -> str:
    """The product in C++, which torch makes where `test` holds."""
    body = f"  {before}\n  if ({test}) {{ {LEAK} }}\n"
    source = f"{START}{HELPERS}torch::Tensor run({HEADER}{{\n{body}{BODY}{BINDING}"
    build = f"from torch.utils.cpp_extension import load_inline\next = load_inline('e', '', r'''{source}''')\n"
    return HEAD + build + model("return ext.run(x, self.weight, self.weight_scale)")


TRUE = {
    "a catch of all": ("int n = 0; try { throw 1; } catch (...) { n = 1; }", "n == 1"),
    "a catch by type": ("int n = 0; try { throw 1; } catch (float f) { n = 2; } catch (int e) { n = 1; }", "n == 1"),
    "a throw in a function": ("bool ok = true; try { fail(); } catch (const std::exception& e) { ok = false; }", "!ok"),
    "a check that fails": ("bool ok = false; try { TORCH_CHECK(false, \"x\"); ok = true; } catch (...) { }", "!ok"),
    "a reference": ("int n = 0; put(n);", "n == 5"),
    "a reference of a lambda": ("auto set = [&](int& v) { v = 7; }; int n = 0; set(n);", "n == 7"),
    "a reference of a template": ("int n = 4; twice(n);", "n == 8"),
    "a reference to a vector": ("std::vector<int> v; take(v);", "v.size() == 1 && v[0] == 9"),
    "pop_back": ("std::vector<int> v = {0, 1}; v.pop_back();", "v.size() == 1 && v.back() == 0"),
    "clear": ("std::vector<int> v = {3, 4}; v.clear();", "v.empty()"),
    "resize": ("std::vector<int> v(2, 7); v.resize(3);", "v.size() == 3 && v[1] == 7 && v[2] == 0"),
    "the sign of a remainder": ("int c = -7 % 4;", "c == -3"),
    "wrapping around": ("unsigned char c = 255; c += 1;", "c == 0"),
    "wrapping below": ("uint32_t c = 0; c = c - 1;", "c == 4294967295"),
    "a cast": ("int64_t c = 4294967297; int d = (int)c;", "d == 1 && static_cast<uint8_t>(511) == 255"),
}  # fmt: skip
FALSE = {
    "no throw": ("int n = 0; try { n = 2; } catch (...) { n = 1; }", "n == 1"),
    "a parameter by value": ("int n = 0; plain(n);", "n == 5"),
    "a wide number": ("int64_t c = 255; c += 4294967296;", "c == 0 || c == 255"),
}


@pytest.mark.parametrize("what", TRUE)
def test_what_c_plus_plus_does_decides(tmp_path: Path, what: str) -> None:
    report = lint(tmp_path, extension(*TRUE[what]))
    assert "library-gemm-wrapper" in classes(report), reasons(report)


@pytest.mark.parametrize("what", FALSE)
def test_what_c_plus_plus_does_not_do_decides_nothing(tmp_path: Path, what: str) -> None:
    report = lint(tmp_path, extension(*FALSE[what]))
    assert classes(report) == {"fp8-upcast-bf16-gemm"}, reasons(report)


def test_a_goto_is_a_hole(tmp_path: Path) -> None:
    text = extension("goto end;", "false").replace("  return y;", "  return y;\nend:\n  " + LEAK)
    report = lint(tmp_path, text)
    assert "kept" not in states(report).values()
    assert any("goto" in reason for reason in reasons(report))
