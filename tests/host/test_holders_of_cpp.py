"""What a C++ host keeps in a `std::optional` of several values."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import lint
from test_keys_of_cpp import ABOVE, LAUNCH
from test_objects_of_cpp import solution

HEAD = ABOVE.replace("<map>", "<optional>") + (
    "struct Key { const void* at; uint32_t v; bool operator==(const Key& o) const { return at == o.at && v == o.v; } };\n"
    "struct Memo { Memo(const void* a, int64_t w, at::Tensor o) : at(a), v(w), y(o) {} const void* at; int64_t v; at::Tensor y; };\n"
)
MADE = f"auto y = torch::empty_like(x); {LAUNCH}"
KEPT = "static std::optional<std::pair<Key, at::Tensor>> kept;"
FOUND = "Key k{x.data_ptr(), x._version()}; if (kept && kept->first == k) return kept->second;"
PAIR = "std::pair<Key, at::Tensor>"
MEMOS = {  # of a pair of a key and an output
    "emplace": f"{KEPT} {FOUND} {MADE} kept.emplace(k, y); return y;",
    "of c10": f"{KEPT.replace('std::optional', 'c10::optional')} {FOUND} {MADE} kept.emplace(k, y); return y;",
    "an alias": f"using Held = std::optional<{PAIR}>; static Held kept; {FOUND} {MADE} kept.emplace(k, y); return y;",
    "value()": f"{KEPT} Key k{{x.data_ptr(), x._version()}}; if (kept.has_value() && kept.value().first == k) "
    f"return kept.value().second; {MADE} kept.emplace(k, y); return y;",
    "*": f"{KEPT} Key k{{x.data_ptr(), x._version()}}; if (kept.has_value() && (*kept).first == k) return (*kept).second; "
    f"{MADE} kept.emplace(k, y); return y;",
    "its parts": f"{KEPT} Key k{{x.data_ptr(), x._version()}}; if (kept) {{ auto& [key, out] = *kept; if (key == k) return out; }} "
    f"{MADE} if (kept) {{ auto& [key, out] = *kept; key = k; out = y; }} else kept.emplace(k, y); return y;",
    "what emplace refers to": f"{KEPT} Key k{{x.data_ptr(), x._version()}}; if (!kept || !(kept->first == k)) {{ {MADE} "
    "auto& now = kept.emplace(k, y); return now.second; } return kept->second;",
    "reset": f"{KEPT} Key k{{x.data_ptr(), x._version()}}; if (kept && !(kept->first == k)) kept.reset(); "
    f"if (!kept) {{ {MADE} kept.emplace(k, y); }} return kept->second;",
    "fields": f"{KEPT} {FOUND} {MADE} if (kept) {{ kept->first = k; kept->second = y; }} else kept = std::make_pair(k, y); return y;",
    "make_optional": f"{KEPT} {FOUND} {MADE} kept = std::make_optional({PAIR}(k, y)); return y;",
    "in_place": f"{KEPT} {FOUND} {MADE} kept = std::optional<{PAIR}>(std::in_place, k, y); return y;",
    "swap": f"{KEPT} {FOUND} {MADE} std::optional<{PAIR}> made; made.emplace(k, y); kept.swap(made); return y;",
    "std::swap": f"{KEPT} {FOUND} {MADE} std::optional<{PAIR}> made; made.emplace(k, y); std::swap(kept, made); return y;",
    "a tuple": "static std::optional<std::tuple<const void*, int64_t, at::Tensor>> kept; if (kept && std::get<0>(*kept) == "
    f"x.data_ptr() && std::get<1>(*kept) == x._version()) return std::get<2>(*kept); {MADE} "
    "kept.emplace(x.data_ptr(), x._version(), y); return y;",
    "an object": "static std::optional<Memo> kept; if (kept && kept->at == x.data_ptr() && kept->v == x._version()) "
    f"return kept->y; {MADE} kept.emplace(x.data_ptr(), x._version(), y); return y;",
}  # fmt: skip
HONEST = {
    "a workspace": "static std::optional<std::pair<int64_t, at::Tensor>> kept; if (!kept || kept->first != x.numel()) "
    f"kept.emplace(x.numel(), torch::empty_like(x)); auto y = kept->second; {LAUNCH} return y;",
    "the last output, which nobody reads": f"{KEPT} {MADE} kept.emplace(Key{{x.data_ptr(), x._version()}}, y); return y;",
}  # fmt: skip


def of(body: str, before: str = "") -> str:
    return solution(f"{HEAD}{before}torch::Tensor run(torch::Tensor x) {{ {body} }}\n")


@pytest.mark.parametrize("how", MEMOS)
def test_an_output_in_an_optional_is_kept(how: str, tmp_path: Path) -> None:
    report = lint(tmp_path, of(MEMOS[how]), "04_kahan_softmax")
    assert {f.leak_class for f in report.findings} == {"unchanged-input-output-memo"}, (report.verdict, report.unread)


@pytest.mark.parametrize("what", HONEST)
def test_what_is_kept_so_may_be_filled_by_every_call(what: str, tmp_path: Path) -> None:
    report = lint(tmp_path, of(HONEST[what]), "04_kahan_softmax")
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread, report.promises)


PACKED = '''
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <optional>
__global__ void pad(const unsigned char* from, unsigned char* to, int depth, int pitch) {
  for (int i = threadIdx.x; i < pitch; i += blockDim.x) to[size_t(blockIdx.x) * pitch + i] = i < depth ? from[size_t(blockIdx.x) * depth + i] : 0;
}
torch::Tensor packed(torch::Tensor w) {
  auto make = [&] {
    const int64_t pitch = (w.size(1) + 255) / 256 * 256;
    auto p = torch::empty({w.size(0), pitch}, w.options());
    pad<<<w.size(0), 256>>>((const unsigned char*)w.data_ptr(), (unsigned char*)p.data_ptr(), w.size(1), pitch);
    return p;
  };
  BODY
}
"""
ext = load_inline("pack", "torch::Tensor packed(torch::Tensor w);", SOURCE, functions=["packed"])
'''
WEIGHT = (
    "static std::optional<std::tuple<const void*, int64_t, at::Tensor>> kept; if (!kept || std::get<0>(*kept) != "
    "w.data_ptr() || std::get<1>(*kept) != w._version()) kept.emplace(w.data_ptr(), w._version(), make()); return std::get<2>(*kept);"
)


def with_packed(body: str) -> str:
    """The honest program of 01 whose weight is packed by C++."""
    honest = (Path(__file__).parents[2] / "problems/01_fp8_gemm/honest/triton.py").read_text(encoding="utf-8")
    text = honest.replace("STEP = 256", PACKED.replace("BODY", body) + "STEP = 256", 1)
    return text.replace("self._padded_weight()\n", "ext.packed(self.weight)\n")


def test_a_packed_weight_may_be_kept_for_its_version(tmp_path: Path) -> None:
    report = lint(tmp_path, with_packed(WEIGHT))
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread, report.promises)
