"""What a C++ host keeps in what a lambda captures."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import lint
from test_holders_of_cpp import MADE, of, with_packed
from test_keys_of_cpp import LAUNCH

BY_VERSION = f"if (kept.defined() && key == x._version()) return kept; {MADE} kept = y; key = x._version(); return y;"
LAMBDAS = {
    "init captures": f"static auto go = [kept = at::Tensor(), key = int64_t(-1)](torch::Tensor x) mutable {{ {BY_VERSION} }};",
    "braces": f"static auto go = [kept = at::Tensor{{}}, key = int64_t{{-1}}](torch::Tensor x) mutable {{ {BY_VERSION} }};",
    "std::function": "static std::function<at::Tensor(at::Tensor)> go = [kept = at::Tensor(), key = int64_t(-1)]"
    f"(torch::Tensor x) mutable -> at::Tensor {{ {BY_VERSION} }};",
    "copies of variables": "at::Tensor kept; int64_t key = -1; static auto go = [kept, key](torch::Tensor x) mutable "
    f"-> at::Tensor {{ {BY_VERSION} }};",
    "an optional": "static auto go = [kept = std::optional<at::Tensor>(), key = -1](const torch::Tensor& x) mutable "
    f"-> at::Tensor {{ if (key != x._version()) {{ {MADE} kept.emplace(y); key = x._version(); }} return *kept; }};",
    "a map": "static auto go = [kept = std::unordered_map<int64_t, at::Tensor>()](const torch::Tensor& x) mutable -> at::Tensor "
    f"{{ auto& y = kept[x._version()]; if (!y.defined()) {{ y = torch::empty_like(x); {LAUNCH} }} return y; }};",
    "what a function made": "static auto go = made();",
}  # fmt: skip
ROOM = "if (!kept.defined() || kept.numel() != x.numel()) kept = torch::empty_like(x); auto& y = kept;"
HONEST = {
    "a workspace of a lambda": "static auto go = [kept = at::Tensor()](const torch::Tensor& x) mutable -> at::Tensor "
    f"{{ {ROOM} {LAUNCH} return y; }}; return go(x);",
    "a lambda that counts": f"static auto go = [n = 0](const torch::Tensor& x) mutable -> at::Tensor {{ ++n; {MADE} return y; }}; return go(x);",
    "a copy of a lambda, which begins anew": f"static auto go = [kept = at::Tensor(), key = int64_t(-1)](torch::Tensor x) mutable "
    f"{{ {BY_VERSION} }}; auto mine = go; return mine(x);",
}  # fmt: skip


@pytest.mark.parametrize("how", LAMBDAS)
def test_an_output_in_a_lambda_is_kept(how: str, tmp_path: Path) -> None:
    made = f"auto made() {{ return [kept = at::Tensor(), key = int64_t(-1)](torch::Tensor x) mutable {{ {BY_VERSION} }}; }}\n"
    report = lint(tmp_path, of(f"{LAMBDAS[how]} return go(x);", made), "04_kahan_softmax")
    assert {f.leak_class for f in report.findings} == {"output-memoization"}, (report.verdict, report.unread)


def test_an_output_in_a_lambda_of_the_file_is_kept(tmp_path: Path) -> None:
    before = LAMBDAS["init captures"]
    report = lint(tmp_path, of("return go(x);", f"{before}\n"), "04_kahan_softmax")
    assert {f.leak_class for f in report.findings} == {"output-memoization"}, (report.verdict, report.unread)


@pytest.mark.parametrize("what", HONEST)
def test_what_is_kept_so_may_be_filled_by_every_call(what: str, tmp_path: Path) -> None:
    report = lint(tmp_path, of(HONEST[what]), "04_kahan_softmax")
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread, report.promises)


WEIGHT = (
    "static auto go = [kept = at::Tensor(), at = (const void*)nullptr, v = int64_t(-1)](torch::Tensor w, auto make) mutable "
    "{ if (at != w.data_ptr() || v != w._version()) { kept = make(); at = w.data_ptr(); v = w._version(); } return kept; }; return go(w, make);"
)


def test_a_lambda_may_keep_a_packed_weight_for_its_version(tmp_path: Path) -> None:
    report = lint(tmp_path, with_packed(WEIGHT))
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread, report.promises)
