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
static int ended = 0;
struct Made { int n = 1; Made() { n = 5; } int get() const { return n; } };
struct Slots { int a; torch::Tensor t; int n; std::vector<int> v; Made m; };
struct Derived : Made { int m = 2; };
struct Guard { ~Guard() { ended = 7; } };
struct Held { int n = 1; };
int over(int a) { return 1; }
int over(double a) { return 2; }
int over(const at::Tensor& a) { return 3; }
int over(const float* a) { return 4; }
int narrow(unsigned char a) { return a; }
int calls() { thread_local int c = 0; c++; return c; }
template <int N> int sized() { return N; }
using Row = std::vector<int>;
template <class T> using Many = std::vector<T>;
namespace inner { typedef std::map<int, int> Table; }
struct Rows { Row kept; };
template <> int sized<3>() { return 100; }
void change(std::vector<int> v, Held h) { v[0] = 9; h.n = 9; }
void store(int* p) { *p = 5; }
"""
FOUR = "std::list<Held> l; for (int i = 0; i < 4; ++i) { Held h; h.n = i; l.push_back(h); }"
EACH = "for (auto it = l.begin(); it != l.end(); ++it)"
MANY = "for (int i = 0; i < 300; ++i)"
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
    "both ends": ("std::deque<int> d{2}; d.push_front(1); d.emplace_front(0); d.pop_back(); d.push_back(4); "
                  "d.pop_front();",
                  "d.size() == 2 && d[0] == 1 && d[1] == 4"),
    "an element of nothing": ("std::vector<Made> v; v.emplace_back(); std::list<Made> l; l.emplace_front();",
                              "v[0].n == 5 && l.size() == 1 && l.front().n == 5"),
    "an element that moves to the front": (
        f"{FOUR} {EACH} if (it->n == 2) {{ l.splice(l.begin(), l, it); break; }}",
        "l.size() == 4 && l.front().n == 2 && l.back().n == 3"),
    "an element that moves to the end": (
        f"{FOUR} {EACH} if (it->n == 0) {{ l.splice(l.end(), l, it); break; }}",
        "l.size() == 4 && l.front().n == 1 && l.back().n == 0"),
    "a list that moves": (f"{FOUR} std::list<Held> m; m.splice(m.end(), l);",
                          "m.size() == 4 && l.empty() && m.back().n == 3"),
    "an element that goes": (
        f"{FOUR} {EACH} if (it->n == 0) {{ l.erase(it); break; }}",
        "l.size() == 3 && l.front().n == 1"),
    "elements that are removed": (
        f"{FOUR} l.erase(std::remove_if(l.begin(), l.end(), [&](const Held& h) {{ return h.n % 2 == 1; }}), l.end());",
        "l.size() == 2 && l.front().n == 0 && l.back().n == 2"),
    "no element that is removed": (
        f"{FOUR} l.erase(std::remove_if(l.begin(), l.end(), [](const Held& h) {{ return h.n > 9; }}), l.end());",
        "l.size() == 4 && l.back().n == 3"),
    "what is removed of nothing": (
        "std::deque<Held> l; l.erase(std::remove_if(l.begin(), l.end(), [&](const Held& h) { return h.n; }), l.end());",
        "l.empty()"),
    "numbers that are removed": (
        "std::vector<int> v = {3, 4, 3, 5}; v.erase(std::remove(v.begin(), v.end(), 3), v.end()); "
        "std::vector<int> w = {1, 2, 1}; int n = std::erase(w, 1); std::list<int> l = {6, 7}; l.remove(6);",
        "v.size() == 2 && v[0] == 4 && v[1] == 5 && n == 2 && w.size() == 1 && l.size() == 1 && l.front() == 7"),
    "all that a function removes": (
        f"{FOUR} int n = std::erase_if(l, [](const Held& h) {{ return h.n < 2; }}); auto m = l; "
        "m.remove_if([](const Held& h) { return h.n == 2; });",
        "n == 2 && l.size() == 2 && m.size() == 1 && m.front().n == 3"),
    "a range that goes": ("std::vector<int> v = {3, 4, 5}; v.erase(v.begin(), v.end());", "v.empty()"),
    "a queue": ("std::priority_queue<int> q; q.push(2); q.push(5); q.push(3); q.pop();",
                "q.top() == 3 && q.size() == 2"),
    "clear": ("std::vector<int> v = {3, 4}; v.clear();", "v.empty()"),
    "resize": ("std::vector<int> v(2, 7); v.resize(3);", "v.size() == 3 && v[1] == 7 && v[2] == 0"),
    "the sign of a remainder": ("int c = -7 % 4;", "c == -3"),
    "wrapping around": ("unsigned char c = 255; c += 1;", "c == 0"),
    "wrapping below": ("uint32_t c = 0; c = c - 1;", "c == 4294967295"),
    "a constructor without arguments": ("Made m;", "m.n == 5"),
    "what a base makes and does": ("Derived d;", "d.get() == 5 && d.m == 2"),
    "a destructor": ("{ Guard g; }", "ended == 7"),
    "the overload for a type": ("", "over(1) == 1 && over(1.5) == 2 && over(x) == 3 && over(s.data_ptr<float>()) == 4"),
    "a specialisation": ("", "sized<3>() == 100 && sized<4>() == 4"),
    "a narrow parameter": ("", "narrow(257) == 1"),
    "a variable of a thread": ("calls();", "calls() >= 2"),
    "what rounds count": (
        f"auto t = s; int n = 0; int64_t k = 9; {MANY} {{ t = t + 1; ++n; k -= 2; }}", "n == 300 && k == -591",
    ),
    "what rounds append": (f"std::vector<at::Tensor> v; {MANY} v.push_back(s + 1);", "v.size() == 300"),
    "what a round puts into its place": (
        "auto t = s; std::vector<int> v(90, 0); for (int i = 0; i < 90; ++i) { t = t + 1; v[i] = i; }", "v[40] == 40",
    ),
    "a round of its own": (
        f"auto t = s; int n = 0; {MANY} {{ int k = 2 * i; t = t + 1; if (k == 80) n = 7; }}", "n == 7",
    ),
    "a round that leaves": (f"auto t = s; int n = 0; {MANY} {{ t = t + 1; if (i == 77) break; ++n; }}", "n == 77"),
    "a loop that asks behind": ("auto t = s; int n = 300; do { t = t + 1; --n; } while (n > 0);", "n == 0"),
    "a reference to an element": ("std::vector<int> v = {1, 2}; for (auto& t : v) t = 5;", "v[0] == 5"),
    "a capture by value": ("int n = 1; auto f = [n] { return n; }; n = 5;", "f() == 1"),
    "a capture by reference": ("int n = 1; auto f = [&] { return n; }; n = 5;", "f() == 5"),
    "copies": ("std::vector<int> a = {1}; auto b = a; b[0] = 5; Held c; Held d = c; d.n = 5; change(a, c);",
               "a[0] == 1 && c.n == 1 && b[0] == 5"),
    "a field made of nothing": ("Slots l{1, {}, {}, {}, {}}; l.v.push_back(3);",
                                "!l.t.defined() && l.n == 0 && l.v.size() == 1 && l.m.n == 5"),
    "a field made of nothing in a vector": ("std::vector<Slots> v; v.push_back({1, {}, {}, {}, {}}); Slots& l = v[0];",
                                            "!l.t.defined() && l.a == 1"),
    "a field that is given": ("Slots l{1, x, {}, {}, {}};", "l.t.defined()"),
    "a handle of nothing": ("cudaGraphExec_t e{}; cudaEvent_t f = {}; int n = 0; if (!e) ++n; if (f == nullptr) ++n;",
                            "n == 2"),
    "the letters of a text": ("const char* p = \"abc\"; int n = 0; for (; *p; ++p) n += *p;", "n == 294"),
    "letters that are stepped over": ("const char* p = \"abc\"; int n = 0; while (*p) n = 2 * n + (*p++ == 'b');",
                                      "n == 2"),
    "what ends a text": ("const char* p = \"ab\"; int n = 0; while (p[n]) ++n;", "n == 2"),
    "an address": ("int n = 0; store(&n); int* p = &n; *p += 1;", "n == 6"),
    "another address": ("int a = 1, b = 2; int* p = &a; p = &b; *p = 5;", "a == 1 && b == 5"),
    "swap and exchange": ("int a = 1, b = 2; std::swap(a, b); int c = std::exchange(b, 7);",
                          "a == 2 && b == 7 && c == 1"),
    "a function that is called once": ("std::once_flag f; int n = 0; std::call_once(f, [&] { n = 4; });", "n == 4"),
    "a function for each": ("std::vector<int> v = {1, 2}; int n = 0; std::for_each(v.begin(), v.end(), [&](int a) "
                            "{ n += a; });", "n == 3"),
    "a thread": ("int n = 0; std::thread t([&] { n = 4; }); t.join();", "n == 4"),
    "a dispatch of cases": ("int n = 0; AT_DISPATCH_SWITCH(s.scalar_type(), \"f\", AT_DISPATCH_CASE(at::kHalf, [&] "
                            "{ n = 3; }) AT_DISPATCH_CASE(at::kFloat, [&] { n = 4; }));", "n == 4"),
    "a wrapped dispatch": ("int n = 0; AT_DISPATCH_V2(s.scalar_type(), \"f\", AT_WRAP([&] { n = 4; }), at::kFloat);",
                           "n == 4"),
    "a map": ("std::map<int, int> m = {{1, 2}}; m.insert({3, 4}); m.try_emplace(5, 6); m.erase(1); int n = 0; "
              "for (auto& [k, v] : m) n += v;", "n == 10 && m.size() == 2 && m.count(1) == 0"),
    "a map of pairs": ("std::map<std::pair<int, int>, int> m; m[std::make_pair(1, 2)] = 5;",
                       "m.find(std::make_pair(1, 2)) != m.end()"),
    "a key in braces": ("std::map<std::pair<int, int>, int> m; auto [a, b] = m.try_emplace({1, 2}); a->second = 5; "
                        "auto [c, d] = m.try_emplace({1, 2});", "b && !d && c->second == 5 && m.size() == 1"),
    "an entry that is there": ("std::map<int, int> m = {{1, 2}}; auto [a, b] = m.emplace(1, 7);", "a->second == 2"),
    "an entry by its iterator": ("std::map<int, int> m = {{1, 2}}; m.find(1)->second = 7;", "m[1] == 7"),
    "the bounds of a key": ("std::map<int, int> m = {{8, 1}, {2, 2}, {4, 3}}; auto all = m; "
                            "std::map<int, int, std::greater<int>> d = {{2, 1}, {8, 2}}; int n = m.begin()->second;",
                            "m.lower_bound(4)->second == 3 && m.upper_bound(4)->first == 8 && n == 2 && "
                            "m.lower_bound(9) == m.end() && all.lower_bound(3)->first == 4"),
    "steps of iterators": ("std::map<int, int> m = {{8, 1}, {2, 2}, {4, 3}}; auto last = m.end(); --last; "
                           "auto below = m.upper_bound(7); int n = (--below)->second; auto on = m.begin(); ++on; "
                           "auto other = m.find(9);",
                           "last->first == 8 && n == 3 && on->first == 4 && std::next(on)->first == 8 && "
                           "std::prev(m.end(), 3)->second == 2 && std::next(last) == m.end() && other == m.end()"),
    "a step from an entry that is gone": ("std::map<int, int> m = {{8, 1}, {2, 2}}; auto it = m.find(2); m.erase(2); "
                                          "int n = m.size(); ++it;", "n == 1"),
    "an alias of a vector": ("Row v; v.push_back(3); Many<int> w(2, 5);", "v.size() == 1 && v[0] == 3 && w[1] == 5"),
    "an alias of a map": ("inner::Table m; m[3] = 4; using Here = Row; Here v; v.push_back(1);",
                          "m.count(3) == 1 && v.size() == 1"),
    "an alias in a struct": ("Rows r; r.kept.push_back(6); Rows q = r; q.kept[0] = 7;", "r.kept[0] == 6"),
    "other containers": ("std::deque<int> d; d.push_back(4); c10::SmallVector<int, 4> s; s.push_back(5);",
                         "d.front() == 4 && d.size() == 1 && s[0] == 5"),
    "a view of a vector": ("std::vector<int> v = {1, 2, 3}; at::ArrayRef<int> a(v); at::ArrayRef<int> b(v.data(), 2);",
                           "a.size() == 3 && a[2] == 3 && b.size() == 2"),
    "a vector of a range": ("std::vector<int> v = {1, 2, 3}; std::vector<int> w(v.begin(), v.end()); w[0] = 9;",
                            "v[0] == 1 && w.size() == 3 && w[2] == 3"),
    "a copy of a range": ("std::vector<int> v = {1, 2, 3}, w(3); std::copy(v.begin(), v.end(), w.begin());",
                          "w[0] == 1 && w[2] == 3"),
    "a function for each of a range": ("std::vector<int> v = {1, 2}, w(2), u(2); std::transform(v.begin(), v.end(), "
                                       "w.begin(), [](int a) { return a + 1; }); std::transform(v.begin(), v.end(), "
                                       "w.begin(), u.begin(), [](int a, int b) { return a * b; });",
                                       "w[0] == 2 && w[1] == 3 && u[1] == 6"),
    "a set": ("std::set<int> q; q.insert(4);", "q.count(4) == 1"),
    "an optional": ("std::optional<int> o; bool before = o.has_value(); o = 4;", "!before && o.value() == 4"),
    "a variable that is not set": ("", "getenv(\"KEPT_NUMBER\") == nullptr"),
    "a cast": ("int64_t c = 4294967297; int d = (int)c;", "d == 1 && static_cast<uint8_t>(511) == 255"),
}  # fmt: skip
FALSE = {
    "no throw": ("int n = 0; try { n = 2; } catch (...) { n = 1; }", "n == 1"),
    "a parameter by value": ("int n = 0; plain(n);", "n == 5"),
    "a base that is hidden": ("Derived d;", "d.n == 1"),
    "a vector that is filled": ("std::vector<int> v = {1, 2}; std::fill(v.begin(), v.end(), 5);", "v[0] == 1"),
    "a vector of an alias that is empty": ("Row v;", "v.size() > 0"),
    "an entry of another key": (
        "std::map<std::pair<int, int>, int> m; m.try_emplace({1, 2}); auto [c, d] = m.try_emplace({2, 1});",
        "!d",
    ),
    "what nobody knows of what is removed": (
        f"{FOUR} l.erase(std::remove_if(l.begin(), l.end(), [&](const Held& h) {{ return h.n % 2; }}), l.end());",
        "l.back().n == 3",
    ),
    "a number past all others": ("double d = 1e308; int n = d * 10;", "false"),
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


@pytest.mark.parametrize("loop", [MANY, "for (long i = 300; i != 0; --i)", "for (size_t i = 0; i < 1 << 20; i += 64)"])
def test_of_a_loop_on_tensors_one_round_stands_for_many(tmp_path: Path, loop: str) -> None:
    report = lint(tmp_path, extension(f"{loop} s = s * 1;", "false"))
    told = [line for line in report.trace or () if " mul at" in line]
    assert 0 < len(told) < 60, told
    assert classes(report) == {"fp8-upcast-bf16-gemm"}, reasons(report)


def test_a_switch_on_what_is_not_known_goes_all_ways(tmp_path: Path) -> None:
    before = "int n = s[0].item<int>(); bool leak = false; switch (n) { case 1: break; case 2: leak = true; break; }"
    report = lint(tmp_path, extension(before, "leak"))
    assert states(report)["authored-compute"] != "kept"


def test_what_stands_behind_the_label_of_a_goto_is_done(tmp_path: Path) -> None:
    text = extension("if (x.size(0) > 1) goto end;", "false").replace("  return y;", "  return y;\nend:\n  " + LEAK)
    assert "fp8-upcast-bf16-gemm" in classes(lint(tmp_path, text))


def test_a_goto_into_a_branch_is_a_hole(tmp_path: Path) -> None:
    text = extension("goto end;", "false")
    text = text.replace("  return y;", "  return y;\nif (x.defined()) { end:\n  " + LEAK + "}")
    report = lint(tmp_path, text)
    assert "kept" not in states(report).values()
    assert any("goto" in reason for reason in reasons(report))
