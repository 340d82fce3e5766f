"""What a program asks about a tensor before it hands out a kept result: the answer is known, or both are tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import GRID, HEAD, KERNEL, OUTPUT, TILES, classes, lint, model, reasons
from test_keys_of_cpp import ABOVE, solution
from test_keys_of_cpp import LAUNCH as LAUNCH_OF_CPP

LAUNCH = f"{OUTPUT.strip()}\ngemm[{GRID}](x, self.weight, self.weight_scale, y, M, N, K, {TILES})\n"
SETUP = "self.held, self.key, self.y, self.at = {}, None, None, -1"
KEPT = "unchanged-input-output-memo"
LAST = """torch::Tensor run(torch::Tensor x) {
  static torch::Tensor held, kept;
  static int64_t at = -1;
  const int64_t now = STAMP;
  if (kept.defined() && held.is_same(x) && now == at && ASKED) RETURN
  auto y = torch::empty_like(x);
  LAUNCH
  kept = y; held = x; at = now;
  return y;
}
"""
KNOWN = (
    "!x.is_inference()", "!torch::is_inference(x)", "!x.is_conj()", "!x.is_neg()", "!x.is_complex()", "x.is_signed()",
    "!x.is_pinned()", "!x.has_names()", "!x.is_mkldnn()", "x.layout() == at::kStrided", "x.is_alias_of(held)",
    "x.is_same_size(held)", "x.sizes().equals(held.sizes())", "x.strides() == held.strides()", "!x._is_zerotensor()",
    "x.is_non_overlapping_and_dense()", "!x.unsafeGetTensorImpl()->is_inference()",
)  # fmt: skip
DOUBTFUL = (
    "at::hasCUDA()", "x.suggest_memory_format() == at::MemoryFormat::Contiguous", "!x.key_set().has(some_key)",
    "std::memcmp(&now, &at, sizeof now) == 0", "std::hash<int64_t>()(now) == std::hash<int64_t>()(at)",
)  # fmt: skip
STAMPS = (
    "x._version()",
    "x.is_inference() ? -1 : x._version()",
    "x.is_inference() ? 0 : static_cast<int64_t>(x._version()) + 1",
)


def of_cpp(
    tmp_path: Path, asked: str, stamp: str = "x._version()", found: str = "return kept;"
) -> tuple[set[str], str]:
    text = LAST.replace("STAMP", stamp).replace("ASKED", asked).replace("RETURN", found)
    report = lint(tmp_path, solution(ABOVE + text.replace("LAUNCH", LAUNCH_OF_CPP)), "04_kahan_softmax")
    return {f.leak_class for f in report.findings if f.severity == "error"}, report.verdict


@pytest.mark.parametrize("asked", KNOWN)
def test_what_holds_of_every_input_hides_no_kept_result(asked: str, tmp_path: Path) -> None:
    assert of_cpp(tmp_path, asked)[0] == {KEPT}


@pytest.mark.parametrize("stamp", STAMPS)
def test_a_version_may_be_asked_for_where_there_is_one(stamp: str, tmp_path: Path) -> None:
    assert of_cpp(tmp_path, "now >= 0", stamp)[0] == {KEPT}


@pytest.mark.parametrize("asked", DOUBTFUL)
def test_what_nobody_can_answer_leaves_it_open_whether_a_result_is_kept(asked: str, tmp_path: Path) -> None:
    leaks, verdict = of_cpp(tmp_path, asked)
    assert leaks == {KEPT} or verdict == "unproven"


@pytest.mark.parametrize("asked", [*KNOWN[:4], *DOUBTFUL])
def test_what_is_asked_may_decide_nothing(asked: str, tmp_path: Path) -> None:
    assert of_cpp(tmp_path, asked, found="at = now;") == (set(), "clean")


HANDLES = {
    "getIntrusivePtr()": ("c10::intrusive_ptr<c10::TensorImpl>", "handle == x.getIntrusivePtr()"),
    "getIntrusivePtr(), weak": (
        "c10::weak_intrusive_ptr<c10::TensorImpl>", "handle.lock().get() == x.unsafeGetTensorImpl()"),
}  # fmt: skip
BY_HANDLE = """struct Plan {
  HANDLE handle;
  int64_t version;
  torch::Tensor y;
  Plan(const torch::Tensor& x, const torch::Tensor& y) : handle(x.getIntrusivePtr()), version(x._version()), y(y) {}
  bool fits(const torch::Tensor& x) const { return SAME && version == x._version(); }
};
static std::unique_ptr<Plan> plan;
torch::Tensor run(torch::Tensor x) {
  if (plan && plan->fits(x)) FOUND
  auto y = torch::empty_like(x);
  LAUNCH
  plan = std::make_unique<Plan>(x, y);
  return y;
}
"""


@pytest.mark.parametrize("how", HANDLES)
@pytest.mark.parametrize(("found", "leaks"), [("return plan->y;", {KEPT}), ("plan.reset();", set())])
def test_the_object_behind_a_tensor_may_be_held_by_a_pointer(
    how: str, found: str, leaks: set[str], tmp_path: Path
) -> None:
    kind, same = HANDLES[how]
    text = BY_HANDLE.replace("HANDLE", kind).replace("SAME", same.replace("handle", "this->handle"))
    text = text.replace("FOUND", found).replace("LAUNCH", LAUNCH_OF_CPP)
    report = lint(tmp_path, solution(ABOVE + text), "04_kahan_softmax")
    assert {f.leak_class for f in report.findings if f.severity == "error"} == leaks, (report.verdict, report.unread)


OF_PYTHON = (
    "not x.is_inference()", "not torch.is_inference(x)", "x.layout == torch.strided", "not x.is_cpu", "x.is_shared()",
    "not x.is_xpu", "not torch.is_complex(x)", "x.is_signed()", "x._is_zerotensor() is False", "not x.is_pinned()",
)  # fmt: skip
OF_NOBODY = (
    "sys.getrefcount(x) > 1", "x.untyped_storage().size() > 0", "x._use_count() > 0", "x.output_nr == 0",
    "torch.get_default_dtype() == torch.float32", "x.storage_type()",
)  # fmt: skip


def last(asked: str, found: str = "return self.y") -> str:
    test = f"if self.key is x and self.at == x._version and {asked}:\n    {found}\n"
    return f"import sys\n{test}{LAUNCH}self.key, self.y, self.at = x, y, x._version\nreturn y"


@pytest.mark.parametrize("asked", OF_PYTHON)
def test_what_python_asks_of_an_input_is_known(asked: str, tmp_path: Path) -> None:
    report = lint(tmp_path, HEAD + KERNEL + model(last(asked), SETUP))
    assert classes(report) == {KEPT}, reasons(report)


@pytest.mark.parametrize("asked", OF_NOBODY)
@pytest.mark.parametrize(("found", "verdict"), [("return self.y", "unproven"), ("self.at = -1", "clean")])
def test_what_nobody_can_tell_is_answered_both_ways(asked: str, found: str, verdict: str, tmp_path: Path) -> None:
    assert lint(tmp_path, HEAD + KERNEL + model(last(asked, found), SETUP)).verdict == verdict


KEYS = {
    "beside a number of torch": "(id(x), x._version, x._use_count())",
    "beside a number of Python": "(id(x), x._version, sys.getrefcount(x))",
}
BY_KEY = "import sys\nkey = KEY\nif key in self.held:\n    FOUND\nLAUNCHself.held[key] = y\nreturn y"


@pytest.mark.parametrize("how", KEYS)
@pytest.mark.parametrize(("found", "verdict"), [("return self.held[key]", "unproven"), ("del self.held[key]", "clean")])
def test_a_key_that_nobody_knows_may_find_what_it_is_kept_under(
    how: str, found: str, verdict: str, tmp_path: Path
) -> None:
    body = BY_KEY.replace("KEY", KEYS[how]).replace("FOUND", found).replace("LAUNCH", LAUNCH)
    assert lint(tmp_path, HEAD + KERNEL + model(body, SETUP)).verdict == verdict


ROOM = "y = self.held.get(KEY)\nif y is None:\n    y = self.held[KEY] = OUTPUT\nLAUNCHreturn y"


@pytest.mark.parametrize("key", ["(M, N, torch.cuda.memory_allocated())", "(M, N, x._use_count())", "(M, N)"])
def test_room_under_a_key_that_nobody_knows_is_filled_by_each_call(key: str, tmp_path: Path) -> None:
    made = OUTPUT.strip().partition(" = ")[2]
    body = ROOM.replace("KEY", key).replace("OUTPUT", made).replace("LAUNCH", LAUNCH.partition("\n")[2])
    assert lint(tmp_path, HEAD + KERNEL + model(body, SETUP)).verdict == "clean"
