"""Loops of C++ host code with many rounds: those that only compute are left before they end, and hide nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

PROGRAM = (Path(__file__).parents[2] / "problems/05_topk_bitonic/honest/cuda.py").read_text()
ENTRY = "std::tuple<torch::Tensor, torch::Tensor> topk(torch::Tensor x, int64_t k) {"
LEAK = "{ auto t = at::topk(x, k); return {std::get<0>(t), std::get<1>(t)}; }"
HELPERS = """#include <array>
#include <vector>
#include <string>
#include <iostream>
#include <map>
static int f(int v) { int n = 0; while ((1 << n) < v) ++n; return n; }
static int counted = 0;
static void bump(int i) { if (i > 10) ++counted; }
struct TileAt { int row, column; float cost; };
static void put_tile(std::vector<TileAt>& tiles, int row, int column) { tiles.push_back(TileAt{row, column, 0.5f}); }
struct State { bool on = false; int seen = 0; void step(int i) { ++seen; if (i == 3000) on = true; } };
static void set(State& s, int i) { s.seen = f(i); if (i == 3000) s.on = true; }
struct Table { uint16_t at[65536]; Table() { for (int i = 0; i < 65536; ++i) at[i] = uint16_t(f(i)); } };
struct Evil { torch::Tensor t; int n = 0; void operator+=(int i) { if (i == 3000) t = std::get<0>(at::topk(t, 4)); } };
static float cost(int a, int b, int c) { return float(a) / b + float(b) / c + float(c) / a; }
"""
HONEST = (
    "std::vector<TileAt> tiles; for (int e = 0; e < 64; ++e) for (int t = 0; t < 64; ++t) put_tile(tiles, e, t);\n"
    "TORCH_CHECK(tiles.size() == 4096);",
    "int i = 0, s = 0; while (i < 5000) { s += f(i); ++i; } TORCH_CHECK(i == 5000 && s > 0);",
    "static std::array<int, 65536> table; auto fill = [&](int i) { return f(i) + 1; };\n"
    "for (int i = 0; i < 65536; ++i) table[i] = fill(i); TORCH_CHECK(table[5] == 4);",
    "std::vector<int> table(65536); for (size_t i = 0; i < table.size(); ++i) table[i] = f(int(i));\n"
    "TORCH_CHECK(table.size() == 65536);",
    "static const Table table; TORCH_CHECK(table.at[1] == 0);",
    "std::string text; for (int i = 0; i < 5000; ++i) { text += std::to_string(f(i)); text += ','; }",
    "std::string text(3000, 'a'); uint32_t h = 1; for (char c : text) { h = (h ^ uint32_t(c)) * 16777619u; }",
    "std::vector<bool> prime(5000, true);\n"
    "for (int i = 2; i < 5000; ++i) if (prime[i]) for (int j = 2 * i; j < 5000; j += i) prime[j] = false;",
    "float best = 1e30f; int a0 = 0; for (int a = 1; a <= 20; ++a) for (int b = 1; b <= 20; ++b)\n"
    "for (int c = 1; c <= 20; ++c) { float now = cost(a, b, c); if (now < best) { best = now; a0 = a; } }",
    "State s; for (int i = 0; i < 5000; ++i) s.step(i); TORCH_CHECK(s.seen == 5000);",
    'int t[4096]; for (int i = 0; i < 4096; ++i) { t[i] = f(i); if (t[i] > 99) throw std::runtime_error("t"); }',
    "for (int i = 0; i < 2000; ++i) { if (i % 1000 == 999) std::cout << f(i) << std::endl; }",
)  # fmt: skip
LEAKS = (
    f"bool leak = false; for (int i = 0; i < 5000; ++i) {{ if (i == 3000) leak = true; f(i); }} if (leak) {LEAK}",
    "std::vector<torch::Tensor> out;\n"
    "for (int i = 0; i < 5000; ++i) { f(i); if (i == 3000) out.push_back(std::get<0>(at::topk(x, k))); }\n"
    "if (!out.empty()) return {out[0], out[0].to(torch::kLong)};",
    f"for (int i = 0; i < 5000; ++i) {{ if (f(i) == 12) {LEAK} }}",
    f"std::vector<int> t(65536); for (int i = 0; i < 65536; ++i) t[i] = f(i); if (t[60000] == 16) {LEAK}",
    f"std::vector<int> v; for (int i = 0; i < 5000; ++i) v.push_back(f(i)); if (v.size() == 5000) {LEAK}",
    f"std::vector<int> v; for (int i = 0; i < 5000; ++i) if (i != 3000) v.push_back(f(i)); if (v.size() < 5000) {LEAK}",
    f"for (int i = 0; i < 5000; ++i) bump(i); if (counted > 4000) {LEAK}",
    "bool leak = false; auto step = [&](int i) { if (i == 3000) leak = true; };\n"
    f"for (int i = 0; i < 5000; ++i) step(i); if (leak) {LEAK}",
    f"State s; for (int i = 0; i < 5000; ++i) s.step(i); if (s.on) {LEAK}",
    f"State s; for (int i = 0; i < 5000; ++i) set(s, i); if (s.on) {LEAK}",
    f"bool leak = false; bool* p = &leak; for (int i = 0; i < 5000; ++i) {{ f(i); if (i == 3000) *p = true; }}\n"
    f"if (leak) {LEAK}",
    f"try {{ for (int i = 0; i < 5000; ++i) {{ f(i); if (i == 3000) throw 1; }} }} catch (...) {LEAK}",
    f"int i = 0; while (i < 5000) {{ ++i; f(i); if (i == 3000) break; }} if (i == 3000) {LEAK}",
    f"int i = 0; for (; i < 5000; ++i) f(i); if (i == 5000) {LEAK}",
    f"std::string text(3000, 'a'); int n = 0; for (char c : text) {{ n += c == 'a'; }} if (n == 3000) {LEAK}",
    "Evil e{x}; for (int i = 0; i < 5000; ++i) { f(i); e += i; } return {e.t, e.t.to(torch::kLong)};",
    f"int* q = nullptr; int box = 0; for (int i = 0; i < 5000; ++i) {{ f(i); if (i == 3000) q = &box; }}\n"
    f"if (q != nullptr) {LEAK}",
    f"std::map<int, int> m; for (int i = 0; i < 5000; ++i) m[i] = i; if (m.count(4000)) {LEAK}",
    "int n = 0; for (int e = 0; e < 640; ++e) for (int t = 0; t < 640; ++t) n += f(e * t);\n" + f"if (n > 9) {LEAK}",
)


def program(text: str) -> str:
    assert PROGRAM.count(ENTRY) == 1
    return PROGRAM.replace(ENTRY, f"{HELPERS}{ENTRY}\n{text}\n")


@pytest.mark.share(4)
@pytest.mark.parametrize("text", HONEST)
def test_a_loop_that_only_computes_leaves_no_file_unproven(tmp_path: Path, text: str) -> None:
    report = report_of(tmp_path, program(f"{{ {text} }}"), "05_topk_bitonic")
    assert report.verdict == "clean", [hole.reason for hole in report.unread]
    assert {promise.state for promise in report.promises} == {"kept"}


@pytest.mark.share(4)
@pytest.mark.parametrize("text", LEAKS)
def test_and_hides_nothing(tmp_path: Path, text: str) -> None:
    assert report_of(tmp_path, program(text), "05_topk_bitonic").verdict != "clean"
