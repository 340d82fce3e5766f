"""One resolver of names: a library's work is its work whatever it is called, and a function of the text is its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of
from test_extension_hosts import LAUNCH, TENSORS, Host

import kbh_lint
from kbh_lint.findings import FileReport

SORTER = "DeviceSegmentedRadixSort"
SORTS = """
#include <cub/cub.cuh>
__global__ void number(int64_t* p, int* ends, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) p[(int64_t)blockIdx.x * n + i] = i;
  if (threadIdx.x == 0) { ends[blockIdx.x + 1] = (blockIdx.x + 1) * n; ends[0] = 0; }
}
__global__ void take(const float* s, const int64_t* p, float* top, int64_t* at, int n, int k) {
  for (int i = threadIdx.x; i < k; i += blockDim.x) {
    top[blockIdx.x * k + i] = s[(int64_t)blockIdx.x * n + i];
    at[blockIdx.x * k + i] = p[(int64_t)blockIdx.x * n + i];
  }
}
ABOVE
void go(torch::Tensor x, torch::Tensor top, torch::Tensor at, int64_t k) {
  int batch = x.size(0), n = x.size(1);
  auto keys = torch::empty_like(x), places = torch::empty_like(x, x.options().dtype(torch::kInt64));
  auto out = torch::empty_like(places), ends = torch::empty({batch + 1}, x.options().dtype(torch::kInt32));
  number<<<batch, 256>>>(places.data_ptr<int64_t>(), ends.data_ptr<int>(), n);
  auto room = torch::empty({1 << 24}, x.options().dtype(torch::kUInt8));
  size_t bytes = 1 << 24;
  const int* e = ends.data_ptr<int>();
  BEFORE
  CALL(room.data_ptr(), bytes, x.data_ptr<float>(), keys.data_ptr<float>(), places.data_ptr<int64_t>(),
       out.data_ptr<int64_t>(), batch * n, batch, e, e + 1);
  take<<<batch, 256>>>(
      keys.data_ptr<float>(), out.data_ptr<int64_t>(), top.data_ptr<float>(), at.data_ptr<int64_t>(), n, k);
}
"""
PASSED = (
    "void* r, size_t& b, const float* a, float* c, const int64_t* d, int64_t* f, int n, int m, "
    "const int* g, const int* h"
)
NAMES = {  # what stands before the function, in it before the call, and what is called
    "a namespace alias": ("namespace c = cub; namespace d = c;", "", f"d::{SORTER}::SortPairsDescending"),
    "an alias in the function": ("", "namespace c = cub;", f"c::{SORTER}::SortPairsDescending"),
    "a using-declaration": (f"using cub::{SORTER};", "", f"{SORTER}::SortPairsDescending"),
    "a directive": ("using namespace cub;", "", f"{SORTER}::SortPairsDescending"),
    "a directive in the function": ("", "using namespace cub;", f"{SORTER}::SortPairsDescending"),
    "a directive of a namespace": ("namespace l { using namespace cub; }", "", f"l::{SORTER}::SortPairsDescending"),
    "a declaration in a namespace": (
        f"namespace l {{ using cub::{SORTER}; }}",
        "",
        f"l::{SORTER}::SortPairsDescending",
    ),
    "a typedef": (f"typedef cub::{SORTER} Ranks;", "", "Ranks::SortPairsDescending"),
    "a template argument": (
        f"template <class S> void ordered({PASSED}) {{ S::SortPairsDescending(r, b, a, c, d, f, n, m, g, h); }}",
        "",
        f"ordered<cub::{SORTER}>",
    ),
    "a member of a class template": (
        f"template <class S> struct W {{ using T = S; static void go({PASSED}) "
        "{ T::SortPairsDescending(r, b, a, c, d, f, n, m, g, h); } };",
        "",
        f"W<cub::{SORTER}>::go",
    ),
    "a method template of an alias": (
        f"template <class S> struct W {{ template <class V> static void go({PASSED}) "
        "{ S::SortPairsDescending(r, b, a, c, d, f, n, m, g, h); } }; "
        f"namespace l {{ using Ranks = W<::cub::{SORTER}>; }}",
        "",
        "l::Ranks::go<int64_t>",
    ),
    "a method template of a class template": (
        f"template <class S> struct W {{ template <class V> static void go({PASSED}) "
        "{ S::SortPairsDescending(r, b, a, c, d, f, n, m, g, h); } };",
        "",
        f"W<cub::{SORTER}>::template go<int64_t>",
    ),
    "a base": (f"struct P : cub::{SORTER} {{}};", "", "P::SortPairsDescending"),
    "pasted tokens": ("#define J(a, b) a##b", "", "cub::J(DeviceSegmented, RadixSort)::SortPairsDescending"),
    "a pointer": ("", f"auto f = &cub::{SORTER}::SortPairsDescending<float, int64_t, const int*, const int*>;", "f"),
}
OWN = f"""__global__ void ordered(const float* x, float* s, const int64_t* in, int64_t* out, int n) {{
  const float* row = x + (int64_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {{
    int before = 0;
    for (int j = 0; j < n; ++j) before += row[j] > row[i] || (row[j] == row[i] && j < i);
    s[(int64_t)blockIdx.x * n + before] = row[i];
    out[(int64_t)blockIdx.x * n + before] = in[(int64_t)blockIdx.x * n + i];
  }}
}}
namespace own {{ struct {SORTER} {{
  static void SortPairsDescending({PASSED}) {{ ordered<<<m, 256>>>(a, c, d, f, n / m); }}
}}; }}
namespace cub2 = own;
"""
OWN_NAMES = {
    "an alias": (OWN, "", f"cub2::{SORTER}::SortPairsDescending"),
    "a directive": (OWN + "using namespace own;", "", f"{SORTER}::SortPairsDescending"),
    "a class in the place of the library's": (OWN + f"using own::{SORTER};", "", f"{SORTER}::SortPairsDescending"),
}
BOXED = """#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
static const std::string kind = "top";
static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(("aten::" + kind + "k").c_str(), "");
"""
PUSHED = "torch::jit::Stack stack; stack.reserve(5); torch::jit::push(stack, x, c10::IValue(k), -1, true, true); "
DISPATCHER = "c10::Dispatcher::singleton()"
POPPED = "at::Tensor one, two; torch::jit::pop(stack, one, two); auto both = std::make_tuple(one, two);"
KEEPER = """
class Keeper {
  std::map<std::string, c10::OperatorHandle> held;
 public:
  const c10::OperatorHandle& of(const std::string& what) {
    auto at = held.find(what);
    if (at == held.end()) at = held.emplace(what, *c10::Dispatcher::singleton().findSchema(
        {"aten::" + what + "k", ""})).first;
    return at->second;
  }
};
static Keeper keeper;
"""
PACKED = """
template <class... A> torch::jit::Stack packed(A&&... a) {
  torch::jit::Stack s; (s.emplace_back(std::forward<A>(a)), ...); op.callBoxed(&s); return s;
}
"""
TORCH = {
    "an alias": ("namespace t = at;", "auto both = t::topk(x, k);"),
    "a using-declaration": ("using at::topk;", "auto both = topk(x, k);"),
    "a directive": ("", "using namespace torch; auto both = topk(x, k);"),
    "its argument": ("", "auto both = topk(x, k);"),
    "a pointer": ("", "auto f = &at::topk; auto both = f(x, k, -1, true, true);"),
    "a pointer to a member": ("", "auto f = &at::Tensor::topk; auto both = (x.*f)(k, -1, true, true);"),
    "the operator": ("", "auto both = at::_ops::topk::call(x, k, -1, true, true);"),
    "the dispatcher": (
        "#include <ATen/core/dispatch/Dispatcher.h>\nusing Two = std::tuple<at::Tensor, at::Tensor>("
        "const at::Tensor&, c10::SymInt, int64_t, bool, bool);",
        'static auto h = c10::Dispatcher::singleton().findSchemaOrThrow("aten::topk", "").typed<Two>(); '
        "auto both = h.call(x, k, -1, true, true);",
    ),
    "the dispatcher, by a made name": (
        "#include <ATen/core/dispatch/Dispatcher.h>\nusing Two = std::tuple<at::Tensor, at::Tensor>("
        "const at::Tensor&, c10::SymInt, int64_t, bool, bool);\n"
        'static const c10::TypedOperatorHandle<Two>& op() { static const std::string a = "aten::to"; '
        'static auto h = c10::Dispatcher::singleton().findSchemaOrThrow((a + "pk").c_str(), "").typed<Two>(); '
        "return h; }",
        "auto both = op().call(x, k, -1, true, true);",
    ),
    "a namespace of the text": ("namespace l { using namespace at; }", "auto both = l::topk(x, k);"),
    "a boxed call": (
        BOXED,
        PUSHED + "op.callBoxed(stack); auto both = std::make_tuple(stack[0].toTensor(), stack.back().toTensor());",
    ),
    "a boxed call by address": (
        BOXED,
        PUSHED + "op.callBoxed(&stack); auto second = torch::jit::pop(stack).toTensor(); "
        "auto both = std::make_tuple(torch::jit::pop(stack).toTensor(), second);",
    ),
    "a boxed call of what was put into a vector": (
        BOXED,
        "std::vector<c10::IValue> stack{c10::IValue(x), c10::IValue(k)}; stack.emplace_back(-1); "
        "stack.push_back(c10::IValue(true)); stack.emplace_back(true); op.callBoxed(&stack); "
        "auto both = std::make_tuple(torch::jit::peek(stack, 0, 2).toTensor(), "
        "torch::jit::peek(stack, 1, 2).toTensor());",
    ),
    "an operator in an optional": (
        BOXED,
        PUSHED + f'const auto found = {DISPATCHER}.findSchema(c10::OperatorName(std::string("aten::") + kind + "k", '
        f'"")); if (!found.has_value()) return; (*found).callBoxed(stack); {POPPED}',
    ),
    "an operator by what stands in braces": (
        BOXED,
        PUSHED
        + f'auto found = {DISPATCHER}.findOp({{"aten::topk", ""}}); TORCH_CHECK(found); found->callBoxed(stack); '
        + POPPED,
    ),
    "an operator that is there of two namespaces": (
        BOXED,
        PUSHED + f'for (const char* one : {{"rank", "aten"}}) {{ auto found = {DISPATCHER}.findSchema('
        f'{{std::string(one) + "::" + kind + "k", ""}}); if (!found) continue; found->callBoxed(&stack); break; }} '
        + POPPED,
    ),
    "an operator that a class keeps": (
        BOXED + KEEPER,
        PUSHED + f"keeper.of(kind).callBoxed(stack); {POPPED}",
    ),
    "the dispatcher, which is handed the operator": (
        BOXED,
        PUSHED + f"auto& all = {DISPATCHER}; all.callBoxed(op, &stack); {POPPED}",
    ),
    "an operator of the interpreter": (
        "#include <torch/csrc/jit/runtime/operator.h>",
        PUSHED + 'auto all = torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString("aten::topk")); '
        f"all[0]->getOperation()(stack); {POPPED}",
    ),
    "what a pack lays out": (
        BOXED + PACKED,
        "auto stack = packed(x, k, -1, true, true); " + POPPED,
    ),
    "what a pack lays out in braces": (
        BOXED + PACKED.replace("s; (s.emplace_back(std::forward<A>(a)), ...)", "s{c10::IValue(a)...}"),
        "auto stack = packed(x, k, -1, true, true); " + POPPED,
    ),
}
OWN_OPERATOR = f"""
static void ranked({TENSORS}, int64_t k) {{ {LAUNCH} }}
TORCH_LIBRARY(ranks, m) {{ m.def("go(Tensor x, Tensor(a!) top, Tensor(b!) at, int k) -> ()"); }}
TORCH_LIBRARY_IMPL(ranks, CUDA, m) {{ m.impl("go", &ranked); }}
void go({TENSORS}, int64_t k) {{
  torch::jit::Stack stack{{x, top, at, k}};
  {DISPATCHER}.findSchemaOrThrow("ranks::go", "").callBoxed(stack);
}}
"""


def _lint(text: str, tmp_path: Path) -> FileReport:
    host = Host(text, "ext.go(x, top, at, self.k)", (), "go", f"void go({TENSORS}, int64_t k);")
    path = tmp_path / "solution.py"
    path.write_text(host.solution(), encoding="utf-8")
    return kbh_lint.lint([path], problem="05_topk_bitonic").files[0]


def _sorts(above: str, before: str, call: str) -> str:
    return SORTS.replace("ABOVE", above).replace("BEFORE", before).replace("CALL", call)


@pytest.mark.parametrize("how", NAMES)
def test_a_sort_of_cub_is_told_through(how: str, tmp_path: Path) -> None:
    report = _lint(_sorts(*NAMES[how]), tmp_path)
    assert "builtin-op-sidestep" in {f.leak_class for f in report.findings}, (report.verdict, report.unread)


@pytest.mark.parametrize("how", OWN_NAMES)
def test_a_sort_of_the_text_is_its_own_through(how: str, tmp_path: Path) -> None:
    report = _lint(_sorts(*OWN_NAMES[how]), tmp_path)
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread)


@pytest.mark.parametrize("how", TORCH)
def test_an_operation_of_torch_is_told_through(how: str, tmp_path: Path) -> None:
    above, body = TORCH[how]
    text = f"{above}\nvoid go({TENSORS}, int64_t k) {{\n  {body}\n"
    report = _lint(text + "  top.copy_(std::get<0>(both)); at.copy_(std::get<1>(both));\n}\n", tmp_path)
    told = [f.message for f in report.findings if f.leak_class == "builtin-op-sidestep"]
    assert any("topk does the selection" in message for message in told), (report.verdict, told, report.unread)


def test_an_operator_of_the_text_is_its_own(tmp_path: Path) -> None:
    report = _lint(OWN_OPERATOR, tmp_path)
    assert {p.state for p in report.promises} == {"kept"}, (report.verdict, report.promises, report.unread)


def test_an_operator_of_a_name_that_is_not_known_is_unread(tmp_path: Path) -> None:
    body = f'{LAUNCH} {PUSHED} {DISPATCHER}.findSchemaOrThrow(named_elsewhere(k), "").callBoxed(stack); {POPPED}'
    report = _lint(f"{BOXED}void go({TENSORS}, int64_t k) {{ {body} top.copy_(one); }}", tmp_path)
    assert report.verdict == "unproven"
    assert any("by a name that is not known" in one.reason for one in report.unread), report.unread


@pytest.mark.parametrize("call", ["vendor::ordered", "vendor_ordered<float>", "vendor::Ranks<float, 32>::go<int>"])
def test_a_function_that_no_text_has_is_unread(call: str, tmp_path: Path) -> None:
    report = _lint(_sorts("#include <vendor/ranks.h>", "", call), tmp_path)
    assert report.verdict == "unproven" and report.unread


@pytest.mark.parametrize(("source", "verdict"), [("elsewhere(x, k)", "unproven"), ("top.clone()", "clean")])
def test_what_is_copied_from_a_function_that_no_text_has_is_unread(source: str, verdict: str, tmp_path: Path) -> None:
    text = f"void go({TENSORS}, int64_t k) {{ {LAUNCH} auto more = {source}; top.copy_(more); }}"
    assert _lint(text, tmp_path).verdict == verdict


BLOCK = (Path(__file__).parents[1] / "variants" / "05_topk_bitonic" / "cub_block_sort.py").read_text(encoding="utf-8")
OWN_ALIAS = "using Sort = cub::BlockRadixSort<float, THREADS, ITEMS, int>;"
IN_CLASSES = {
    "an alias in a class": ("using T = Tile<float, THREADS, ITEMS>;", "typename T::Sort"),
    "an alias in a class, named again": ("using T = Tile<float, THREADS, ITEMS>; using S = typename T::Sort;", "S"),
}


@pytest.mark.parametrize("how", IN_CLASSES)
def test_a_sort_of_a_block_is_told_through(how: str, tmp_path: Path) -> None:
    alias, name = IN_CLASSES[how]
    tile = "template <class K, int M, int N> struct Tile { using Sort = cub::BlockRadixSort<K, M, N, int>; };\n"
    first = next(line for line in BLOCK.splitlines() if line.startswith("template"))
    text = BLOCK.replace(first, tile + first, 1).replace(OWN_ALIAS, alias).replace("Sort(tmp)", f"{name}(tmp)")
    text = text.replace("typename Sort::TempStorage", f"typename {name.removeprefix('typename ')}::TempStorage")
    assert text.count(alias) and "Tile<K" not in text
    report = report_of(tmp_path, text, "05_topk_bitonic")
    assert {p.state for p in report.promises} == {"kept"}, (report.verdict, report.promises)
