"""Texts that C++ puts together: what an operator is found by is known, however it is spelled."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from host_support import lint

PROGRAM = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

TEXT = r'''
#include <torch/extension.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <sstream>
__global__ void order(const float* x, float* top, int64_t* at, int n, int k) {
  const float* row = x + (int64_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int before = 0;
    for (int j = 0; j < n; ++j) before += row[j] > row[i] || (row[j] == row[i] && j < i);
    if (before < k) { top[blockIdx.x * k + before] = row[i]; at[blockIdx.x * k + before] = i; }
  }
}
ABOVE
void go(torch::Tensor x, torch::Tensor top, torch::Tensor at, int64_t k) {
  BODY
  if (name != "aten::WANTED") {
    order<<<x.size(0), 256>>>(x.data_ptr<float>(), top.data_ptr<float>(), at.data_ptr<int64_t>(), x.size(1), k);
    return;
  }
  torch::jit::Stack stack{x, k, -1, true, true};
  c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(stack);
  top.copy_(stack[0].toTensor());
  at.copy_(stack[1].toTensor());
}
'''
DECLARED = "void go(torch::Tensor x, torch::Tensor top, torch::Tensor at, int64_t k);"
ext = load_inline("e", DECLARED, TEXT, functions=["go"])


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        top = torch.empty(x.shape[0], self.k, device=x.device)
        at = torch.empty(x.shape[0], self.k, dtype=torch.int64, device=x.device)
        ext.go(x, top, at, self.k)
        return top, at
"""
PARTS = 'constexpr std::array<const char*, 3> parts = {"aten::", "to", "pk"};'
WAYS = {  # what stands at file scope, and what makes `name`
    "added to": (PARTS, "std::string name; for (auto one : parts) name += one;"),
    "appended": ("", 'std::string name("aten::"); name.append("to").append("pk");'),
    "one by one": ("", "std::string name = \"aten::top\"; name.push_back('k');"),
    "characters": ("", "const char raw[] = {'t', 'o', 'p', 'k', 0}; std::string name = std::string(\"aten::\") + raw;"),
    "a part": ("", 'std::string all = "xxaten::topkxx"; std::string name = all.substr(2, all.size() - 4);'),
    "turned round": ("", 'std::string name = "kpot::neta"; std::reverse(name.begin(), name.end());'),
    "read backwards": ("", 'std::string back = "kpot::neta"; std::string name(back.rbegin(), back.rend());'),
    "changed in place": ("", 'std::string name = "bufo;;upql"; for (char& one : name) one ^= 1; name = "aten::topk";'),
    "one that is put right": ("", "std::string name = \"aten::tapk\"; name[7] = 'o';"),
    "a stream": ("", 'std::ostringstream s; s << "aten::" << "top" << "k"; std::string name = s.str();'),
    "a word of a stream": ("", 'std::istringstream s("12 aten::topk 7"); int n; std::string name; s >> n >> name;'),
    "the last word of a stream": (
        "",
        'std::stringstream s; s << "plan aten::topk"; std::string name; while (s >> name) {}',
    ),
    "a part of a line": (
        "",
        'std::istringstream s("gather,aten::topk"); std::string name;\n'
        "  for (std::string part; std::getline(s, part, ',');) name = part;",
    ),
    "the last that was read": (
        "",
        'std::istringstream s("a b aten::topk"); std::string name; for (;;) { if (!(s >> name) || s.eof()) break; }',
    ),
    "torch's": ("", 'std::string name = c10::str("aten::", "top", "k");'),
    "a template's behind an alias in a block": (
        'namespace own::names { template <int N> std::string made() { return N > 1 ? "aten::topk" : ""; } }',
        "namespace on = own::names; std::string name; if (k > 0) name = on::made<2>(); else name = on::made<3>();",
    ),
    "beside a number": (
        "",
        'std::string name; for (int i = 9; i > 6; --i) if ("v" + std::to_string(i) == "v7") name = "aten::topk";',
    ),
    "a member that a method makes": (
        'struct Names { const char* tail = "topk"; std::string whole = with("aten::");\n'
        "  std::string with(const char* space) const { return std::string(space) + tail; } };",
        "Names names; std::string name = names.whole;",
    ),
    "a member that a static template makes": (
        'struct Names { static std::string open() { return "aten::"; } std::string space = open();\n'
        "  template <class T> T with(const char* tail) const { return T(space + tail); }\n"
        '  std::string whole = with<std::string>("topk"); };',
        "static Names names; std::string name = names.whole;",
    ),
}


@pytest.mark.parametrize("how", WAYS)
def test_a_name_is_known_that_is(how: str, tmp_path: Path) -> None:
    above, body = WAYS[how]
    program = PROGRAM.replace("ABOVE", above).replace("BODY", body)
    report = lint(tmp_path, program.replace("WANTED", "topk"), "05_topk_bitonic")
    assert any("topk does the selection" in found.message for found in report.findings), report.unread
    other = lint(tmp_path, program.replace("WANTED", "topp"), "05_topk_bitonic")
    assert {promise.state for promise in other.promises} == {"kept"}, (other.findings, other.unread)


@pytest.mark.parametrize("change", ["name.erase(1)", "name.append(elsewhere(k))", "name[k + 40] = 1"])
def test_one_that_is_changed_in_an_unknown_way_is_not(change: str, tmp_path: Path) -> None:
    body = f'std::string name = "aten::topp"; {change};'
    report = lint(
        tmp_path, PROGRAM.replace("BODY", body).replace("ABOVE", "").replace("WANTED", "topk"), "05_topk_bitonic"
    )
    assert {promise.state for promise in report.promises} != {"kept"}


@pytest.mark.parametrize("step", ["name.append(name)", "name += name", "all << name; name = all.str()"])
def test_one_that_doubles_in_a_loop_is_no_longer_than_a_source(step: str, tmp_path: Path) -> None:
    body = f'std::ostringstream all; std::string name = "aten::"; for (int i = 0; i < 60; ++i) {{ {step}; }}'
    program = PROGRAM.replace("BODY", body).replace("ABOVE", "").replace("WANTED", "topk")
    tracemalloc.start()
    lint(tmp_path, program, "05_topk_bitonic")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
