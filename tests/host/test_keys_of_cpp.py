"""Keys and values of C++'s maps that are objects: they are equal by their operator, or by their fields, and values are
made of what `emplace` is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import lint
from test_objects_of_cpp import KAHAN, MERGE, MOST, RESULT, solution

ABOVE = (
    "#include <torch/extension.h>\n#include <cfloat>\n#include <map>\n#include <unordered_map>\n"
    "#define READ(row, i) x[(row) * n + (i)]\n#define WRITE(v, row, i) y[(row) * n + (i)] = (v)\n"
    "__global__ void softmax(const float* x, float* y, int n) {\n"
    + MOST + f"  float s = 0, c = 0;\n  for (int i = threadIdx.x; i < n; i += 256) {{ {KAHAN} }}\n" + MERGE + RESULT
)  # fmt: skip
LAUNCH = "softmax<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));"
KEY = """struct Key {
  uint64_t place, version;
  std::array<int64_t, 2> sizes{};
  EQUAL
};
struct Hash { size_t operator()(const Key& k) const { return k.place ^ k.version; } };
"""
WHOLE = "bool operator==(const Key& o) const { return place == o.place && version == o.version && sizes == o.sizes; }"
PLACE = "bool operator==(const Key& o) const { return place == o.place && sizes == o.sizes; }"
SIZES = "bool operator==(const Key& o) const { return sizes == o.sizes; }"
ORDER = (
    "std::tuple<uint64_t, uint64_t, std::array<int64_t, 2>> all() const { return std::tie(place, version, sizes); }\n"
    "  bool operator<(const Key& o) const { return all() < o.all(); }"
)
RUN = """torch::Tensor run(torch::Tensor x) {
  static MAP known;
  Key key{(uint64_t)x.data_ptr(), x._version(), {x.size(0), x.size(1)}};
  FIND
}
"""
OUTPUTS = {
    "of try_emplace": "auto [it, fresh] = known.try_emplace(key);\n"
                      f"  auto& y = it->second; if (fresh) {{ y = torch::empty_like(x); {LAUNCH} }}\n  return y;",
    "of find": "auto it = known.find(key);\n  if (it != known.end()) return it->second;\n"
               f"  auto y = torch::empty_like(x); {LAUNCH}\n  known.emplace(key, y);\n  return y;",
    "of brackets": "auto& y = known[key];\n"
                   f"  if (!y.defined()) {{ y = torch::empty_like(x); {LAUNCH} }}\n  return y;",
}  # fmt: skip
MAPS = {
    "unordered, all of it": ("std::unordered_map<Key, torch::Tensor, Hash>", WHOLE, "unchanged-input-output-memo"),
    "unordered, without the version": (
        "std::unordered_map<Key, torch::Tensor, Hash>", PLACE, "output-memoization"),
    "in its order": ("std::map<Key, torch::Tensor>", ORDER, "unchanged-input-output-memo"),
}  # fmt: skip
ROOMS = """struct Room {
  explicit Room(int64_t rows, int64_t n) : y(torch::empty({rows, n}, torch::kCUDA)), rows(rows) {}
  torch::Tensor over(torch::Tensor x) { LAUNCH return y; }
  torch::Tensor y;
  int64_t rows;
};
"""
MADE = {
    "try_emplace": "auto& room = known.try_emplace(key, x.size(0), x.size(1)).first->second; return room.over(x);",
    "emplace": "auto it = known.find(key);\n"
               "  if (it == known.end()) it = known.emplace(key, Room(x.size(0), x.size(1))).first;\n"
               "  return it->second.over(x);",
    "emplace in pieces": "auto it = known.emplace(std::piecewise_construct, std::forward_as_tuple(key),\n"
                         "  std::forward_as_tuple(x.size(0), x.size(1))).first; return it->second.over(x);",
}  # fmt: skip


def text(kind: str, equal: str, find: str) -> str:
    rooms = ROOMS.replace("LAUNCH", LAUNCH)
    return solution(ABOVE + KEY.replace("EQUAL", equal) + rooms + RUN.replace("MAP", kind).replace("FIND", find))


@pytest.mark.parametrize("how", OUTPUTS)
@pytest.mark.parametrize("kind", MAPS)
def test_an_output_is_found_by_a_key_that_is_an_object(how: str, kind: str, tmp_path: Path) -> None:
    named, equal, leak = MAPS[kind]
    report = lint(tmp_path, text(named, equal, OUTPUTS[how]), "04_kahan_softmax")
    assert leak in {f.leak_class for f in report.findings}, (report.verdict, report.unread)


@pytest.mark.parametrize("equal", [WHOLE, SIZES])
@pytest.mark.parametrize("how", MADE)
def test_room_that_a_map_makes_by_a_constructor_is_written_in_each_call(how: str, equal: str, tmp_path: Path) -> None:
    report = lint(tmp_path, text("std::unordered_map<Key, Room, Hash>", equal, MADE[how]), "04_kahan_softmax")
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread)
    assert {promise.state for promise in report.promises} <= {"kept", "kept-by-precision"}


PLANS = """struct Plan { const float* at = nullptr; uint32_t stamp = 0; torch::Tensor y; bool done = false; };
std::list<Plan> plans;
Plan& plan(const torch::Tensor& x) {
  for (auto it = plans.begin(); it != plans.end(); ++it)
    if (it->at == x.data_ptr<float>()) {
      plans.splice(plans.begin(), plans, it);
      STAMP
      return plans.front();
    }
  if (plans.size() >= 8) plans.pop_back();
  plans.emplace_front();
  plans.front().at = x.data_ptr<float>();
  plans.front().stamp = x._version();
  return plans.front();
}
torch::Tensor run(torch::Tensor x) {
  Plan& p = plan(x);
  if (!p.done) { p.y = torch::empty_like(x); }
  torch::Tensor y = p.y;
  WHEN LAUNCH
  p.done = true;
  return y;
}
"""
STAMP = "if (it->stamp != x._version()) { it->stamp = x._version(); it->done = false; }"


@pytest.mark.parametrize(
    ("stamp", "when", "leak"),
    [
        (STAMP, "if (!p.done)", "unchanged-input-output-memo"),
        ("", "if (!p.done)", "output-memoization"),
        (STAMP, "", ""),  # memory that is kept, and filled by every call
    ],
)
def test_plans_lie_in_a_list_the_last_one_first(stamp: str, when: str, leak: str, tmp_path: Path) -> None:
    code = PLANS.replace("STAMP", stamp).replace("WHEN LAUNCH", f"{when} {LAUNCH}")
    report = lint(tmp_path, solution(ABOVE.replace("<map>", "<list>") + code), "04_kahan_softmax")
    assert {f.leak_class for f in report.findings if f.severity == "error"} == ({leak} if leak else set())
    assert leak or report.verdict == "clean", (report.verdict, report.promises)


FOUND = """struct Plan { torch::Tensor y; };
std::list<Plan> plans;
std::unordered_map<int64_t, std::list<Plan>::iterator> known;
torch::Tensor run(torch::Tensor x) {
  auto it = known.find(x.numel());
  if (it != known.end()) {
    plans.splice(plans.begin(), plans, it->second);
  } else {
    plans.push_front(Plan{torch::empty_like(x)});
    known[x.numel()] = plans.begin();
  }
  torch::Tensor y = plans.front().y;
  LAUNCH
  return y;
}
"""


def test_a_map_may_say_where_in_a_list_something_is(tmp_path: Path) -> None:
    code = FOUND.replace("LAUNCH", LAUNCH)
    report = lint(tmp_path, solution(ABOVE.replace("<map>", "<list>") + code), "04_kahan_softmax")
    assert report.verdict in ("clean", "unproven"), report.findings


RING = """struct Record {
  std::array<at::Tensor, 1> given; std::array<uint32_t, 1> at{}; at::Tensor made;
  bool fits(const at::Tensor& x) const { return made.defined() && given[0].is_same(x) && at[0] == VERSION; }
};
struct Ring {
  std::array<Record, 4> slots; size_t head = 0;
  static Ring& get() { static Ring* ring = new Ring; return *ring; }
  Record* seek(const at::Tensor& x) { for (auto& slot : slots) if (slot.fits(x)) return &slot; return nullptr; }
  void put(const at::Tensor& x, const at::Tensor& y) {
    auto& slot = slots[head++ % slots.size()];
    slot.given[0] = x; slot.at[0] = VERSION; slot.made = y;
  }
};
torch::Tensor run(torch::Tensor x) {
  if (auto* found = Ring::get().seek(x)) return found->made;
  auto y = torch::empty_like(x); LAUNCH
  Ring::get().put(x, KEPT);
  return y;
}
"""
SAME = "given[0].is_same(x)"
BY_ADDRESS = "given[0].unsafeGetTensorImpl() == x.unsafeGetTensorImpl()"
VERSIONS = ("x._version()", "x.unsafeGetTensorImpl()->version_counter().current_version()")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("same", [SAME, BY_ADDRESS])
@pytest.mark.parametrize(("kept", "found"), [("y", True), ("at::Tensor()", False)])
def test_an_array_holds_records_from_the_start(version: str, same: str, kept: str, found: bool, tmp_path: Path) -> None:
    ring = RING.replace("VERSION", version).replace("LAUNCH", LAUNCH).replace("KEPT", kept).replace(SAME, same)
    report = lint(tmp_path, solution(ABOVE.replace("<map>", "<array>") + ring), "04_kahan_softmax")
    leaks = {"output-memoization", "unchanged-input-output-memo"} & {f.leak_class for f in report.findings}
    assert bool(leaks) == found, (report.verdict, report.unread)


BY_NUMBER = """torch::Tensor run(torch::Tensor x) {
  static std::unordered_map<KEY, torch::Tensor> known;
  auto& y = known[NUMBER];
  if (!y.defined() ALWAYS) { if (!y.defined()) y = torch::empty_like(x); LAUNCH }
  return y;
}
"""
NUMBERS = {
    "const void*": "x.unsafeGetTensorImpl()",
    "c10::TensorImpl*": "x.unsafeGetTensorImpl()",
    "uintptr_t": "reinterpret_cast<uintptr_t>(x.unsafeGetTensorImpl())",
}


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize(("always", "found"), [("", True), ("|| true", False)])
def test_the_object_behind_a_tensor_is_a_key(kind: str, always: str, found: bool, tmp_path: Path) -> None:
    code = BY_NUMBER.replace("KEY", kind).replace("NUMBER", NUMBERS[kind]).replace("ALWAYS", always)
    report = lint(tmp_path, solution(ABOVE + code.replace("LAUNCH", LAUNCH)), "04_kahan_softmax")
    assert ("output-memoization" in {f.leak_class for f in report.findings}) == found, (report.verdict, report.unread)


BEHIND = """#include <torch/extension.h>
#include <cfloat>
__global__ void look(const float* x, float* table, int n) {
  float m = -FLT_MAX;
  for (int i = threadIdx.x; i < n; i += 256) m = fmaxf(m, x[blockIdx.x * n + i]);
  __shared__ float all[256];
  all[threadIdx.x] = m;
  __syncthreads();
  for (int k = 128; k; k >>= 1) {
    if (threadIdx.x < k) all[threadIdx.x] = fmaxf(all[threadIdx.x], all[threadIdx.x + k]);
    __syncthreads();
  }
  if (threadIdx.x == 0) table[blockIdx.x] = all[0];
}
__global__ void softmax(const float* x, int* head, const float* table, float* y, int rows, int n) {
  __shared__ int ticket;
  __shared__ float sums[256], errors[256];
  for (;;) {
    if (threadIdx.x == 0) ticket = atomicAdd(head, 1);
    __syncthreads();
    const int row = ticket;
    if (row >= rows) return;
    const float m = table[row];
    float s = 0, c = 0;
    for (int i = threadIdx.x; i < n; i += 256) {
      float v = __fsub_rn(expf(x[row * n + i] - m), c), t = __fadd_rn(s, v);
      c = __fsub_rn(__fsub_rn(t, s), v); s = t;
    }
    sums[threadIdx.x] = s; errors[threadIdx.x] = c;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int k = 1; k < 256; ++k) {
        float v = __fsub_rn(__fsub_rn(sums[k], errors[k]), errors[0]), t = __fadd_rn(sums[0], v);
        errors[0] = __fsub_rn(__fsub_rn(t, sums[0]), v); sums[0] = t;
      }
    __syncthreads();
    const float total = sums[0];
    for (int i = threadIdx.x; i < n; i += 256) y[row * n + i] = expf(x[row * n + i] - m) / total;
    __syncthreads();
  }
}
torch::Tensor run(torch::Tensor x) {
  static torch::Tensor held, room;
  const int rows = x.size(0), n = x.size(1);
  const bool known = held.defined() && held.is_same(x);
  if (!known) { held = x; room = torch::empty({64 + rows}, x.options()); }
  auto* head = reinterpret_cast<int*>(room.data_ptr());
  cudaMemsetAsync(head, 0, sizeof(int));
  if (WHEN) look<<<rows, 256>>>(x.data_ptr<float>(), room.data_ptr<float>() + 64, n);
  auto y = torch::empty_like(x);
  softmax<<<64, 256>>>(x.data_ptr<float>(), head, room.data_ptr<float>() + 64, y.data_ptr<float>(), rows, n);
  return y;
}
"""


@pytest.mark.parametrize(("when", "found"), [("!known", True), ("true", False)])
def test_what_is_kept_may_lie_behind_a_counter(when: str, found: bool, tmp_path: Path) -> None:
    report = lint(tmp_path, solution(BEHIND.replace("WHEN", when)), "04_kahan_softmax")
    assert ({f.rule for f in report.findings} == {"KBH202"}) == found, (report.verdict, report.unread)
    assert found or report.verdict == "clean"


TABLE = """struct Entry {
  torch::Tensor in[1]; uint32_t version[1]; torch::Tensor y;
  bool same(const torch::Tensor* t) const {
    for (int i = 0; i < 1; i++) if (!in[i].is_same(t[i]) || version[i] != t[i]._version()) return false;
    return true;
  }
};
static std::deque<Entry> table;
static std::mutex lock;
static torch::Tensor sought(const torch::Tensor* t) {
  std::lock_guard<std::mutex> hold(lock);
  for (auto& e : table) if (e.same(t)) return e.y;
  return {};
}
static void put(const torch::Tensor* t, const torch::Tensor& y) {
  std::lock_guard<std::mutex> hold(lock);
  Entry e; e.y = y;
  for (int i = 0; i < 1; i++) { e.in[i] = t[i]; e.version[i] = t[i]._version(); }
  DROP
  table.push_back(std::move(e));
  if (table.size() > 6) table.pop_front();
}
torch::Tensor run(torch::Tensor x) {
  const torch::Tensor key[1] = {x};
  TORCH_CHECK(x.is_contiguous() && table.size() < 7);
  torch::Tensor y;
  if (auto known = sought(key); known.defined()) FOUND
  if (!y.defined()) y = torch::empty_like(x);
  LAUNCH
  put(key, y);
  return y;
}
"""
SAME_INPUT = "[&](const Entry& o) { return o.in[0].is_same(t[0]); }"
DROPS = {
    "nothing": "",
    "by remove_if": f"table.erase(std::remove_if(table.begin(), table.end(), {SAME_INPUT}), table.end());",
    "by erase_if": f"std::erase_if(table, {SAME_INPUT});",
    "all": "table.erase(table.begin(), table.end());",
}


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize(("found", "leak"), [("return known;", True), ("y = known;", False)])
def test_a_table_holds_records_that_leave_it(drop: str, found: str, leak: bool, tmp_path: Path) -> None:
    """What is found there is handed out again, or memory that each call fills."""
    code = TABLE.replace("DROP", DROPS[drop]).replace("FOUND", found).replace("LAUNCH", LAUNCH)
    report = lint(tmp_path, solution(ABOVE.replace("<map>", "<deque>") + code), "04_kahan_softmax")
    leaks = {f.leak_class for f in report.findings if f.severity == "error"}
    assert leaks == ({"unchanged-input-output-memo"} if leak else set()), (report.verdict, report.unread)
    assert leak or report.verdict == "clean", (report.unread, report.promises)
