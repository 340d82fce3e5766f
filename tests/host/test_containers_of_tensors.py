"""Tensors that C++ host code keeps in containers on the way to a kernel: what comes out is what went in.

The rotation of 09 in one plain kernel; its three position tensors lie in a container first. The twin of each puts the
time positions in three times, so that the other two reach nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import lint, states
from rotation_support import submission, twin

PUSHED = "for (auto& one : given) kept.push_back(one.flatten());"
TAKEN = "kept[0].data_ptr<int64_t>(), kept[1].data_ptr<int64_t>(), kept[2].data_ptr<int64_t>()"
# What is declared before the kernel, how the tensors are kept, how the kernel is given them.
WAYS = {
    "a vector": ("", f"std::vector<at::Tensor> kept; {PUSHED}", TAKEN),
    "an alias": ("using Axes = std::vector<at::Tensor>;", f"Axes kept; {PUSHED}", TAKEN),
    "an alias of a namespace": ("namespace { using Axes = std::vector<at::Tensor>; }", f"Axes kept; {PUSHED}", TAKEN),
    "a template": ("template <class T> using Many = std::deque<T>;", f"Many<at::Tensor> kept; {PUSHED}", TAKEN),
    "a small vector": ("", f"c10::SmallVector<at::Tensor, 4> kept; {PUSHED}", TAKEN),
    "a view": ("", "at::TensorList kept(given);", TAKEN),
    "a transform": ("", "std::array<at::Tensor, 3> kept{}; std::transform(given.begin(), given.end(), kept.begin(), "
                        "[](const at::Tensor& one) { return one.flatten(); });", TAKEN),
    "a map": ("", "std::map<int, at::Tensor> kept; for (int i = 0; i < 3; ++i) kept.try_emplace(i, given[i]);", TAKEN),
    "iterators": ("", "std::vector<at::Tensor> kept; for (auto it = given.begin(); it != given.end(); ++it) "
                      "kept.push_back(it->flatten());", TAKEN),
    "an inserter": ("", "std::vector<at::Tensor> kept; std::transform(given.begin(), given.end(), "
                        "std::back_inserter(kept), [](const at::Tensor& one) { return one.flatten(); });", TAKEN),
    "a range at the end": (
        "", "std::vector<at::Tensor> kept; kept.insert(kept.end(), given.begin(), given.end());", TAKEN,
    ),
    "an assigned range": ("", "std::vector<at::Tensor> kept; kept.assign(given.begin(), given.end());", TAKEN),
    "a swap": ("", "std::vector<at::Tensor> kept, other = given; kept.swap(other);", TAKEN),
    "pairs": ("", "std::vector<std::pair<int, at::Tensor>> pairs; for (int i = 2; i >= 0; --i) "
                  "pairs.emplace_back(i, given[i]); std::sort(pairs.begin(), pairs.end(), [](auto& a, auto& b) "
                  "{ return a.first < b.first; }); pairs.push_back({3, x}); std::vector<at::Tensor> kept; "
                  "for (auto& one : pairs) kept.push_back(one.second);", TAKEN),
    "objects that are made in place": (
        "struct Axis { const int64_t* p; int at; Axis(const int64_t* q, int i) : p(q), at(i) {} };",
        "std::vector<Axis> kept; for (int i = 0; i < 3; ++i) kept.emplace_back(given[i].data_ptr<int64_t>(), i);",
        "kept[0].p, kept[1].p, kept[2].p",
    ),
    "a pack": (
        "template <class... A> std::array<const int64_t*, sizeof...(A)> all(const A&... a) "
        "{ return {a.template data_ptr<int64_t>()...}; }",
        "auto kept = all(given[0], given[1], given[2]);", "kept[0], kept[1], kept[2]",
    ),
    "copies to the parts of a buffer": (
        "", "auto all = at::empty({3, B * T}, given[0].options()); auto* base = all.data_ptr<int64_t>(); "
        "for (int i = 0; i < 3; ++i) cudaMemcpyAsync(base + i * B * T, given[i].data_ptr(), sizeof(int64_t) * B * T, "
        "cudaMemcpyDeviceToDevice, nullptr);", "base, base + B * T, &base[2 * B * T]",
    ),
    "copies one by one": (
        "", "auto all = at::empty({3, B * T}, given[0].options()); auto* base = all.data_ptr<int64_t>(); "
        "size_t n = sizeof(int64_t) * B * T; cudaMemcpy(base, given[0].data_ptr(), n, cudaMemcpyDeviceToDevice); "
        "cudaMemcpy(base + B * T, given[1].data_ptr(), n, cudaMemcpyDeviceToDevice); "
        "cudaMemcpy(base + 2 * B * T, given[2].data_ptr(), n, cudaMemcpyDeviceToDevice);",
        "base, base + B * T, base + 2 * B * T",
    ),
    "chunks": (
        "", "auto kept = at::cat(given).chunk(3);",
        "kept[0].data_ptr<int64_t>(), kept.at(1).data_ptr<int64_t>(), kept.back().data_ptr<int64_t>()",
    ),
    "an optional": (
        "", "std::optional<at::Tensor> last; last.emplace(given[2]);",
        "given[0].data_ptr<int64_t>(), given[1].data_ptr<int64_t>(), last->data_ptr<int64_t>()",
    ),
}  # fmt: skip


def program(declared: str, kept: str, taken: str) -> str:
    return submission(
        declared, "const int64_t* p0, const int64_t* p1, const int64_t* p2",
        "at < s0 ? p0[token] : at < s0 + s1 ? p1[token] : p2[token]", "std::vector<at::Tensor> given", kept, taken,
        "([pos_t, pos_h, pos_w],)",
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_what_a_container_gives_is_what_it_was_given(tmp_path: Path, way: str) -> None:
    code = program(*WAYS[way])
    assert states(lint(tmp_path, code, "09_fmha_preattn_mrope")) == {"authored-compute": "kept"}
    assert states(lint(tmp_path, twin(code), "09_fmha_preattn_mrope")) == {"authored-compute": "broken"}


def test_an_object_of_an_unknown_type_may_give_all_that_it_was_given(tmp_path: Path) -> None:
    kept = "Box<at::Tensor> kept; for (auto& one : given) kept.put(one.flatten());"
    code = program("", kept, "kept.take<int64_t>(0), kept.take<int64_t>(1), kept.take<int64_t>(2)")
    assert states(lint(tmp_path, code, "09_fmha_preattn_mrope")) == {"authored-compute": "unproven"}


def test_an_address_that_nobody_knows_leaves_open_what_is_read(tmp_path: Path) -> None:
    """Not even where one of the three is known."""
    code = program("", "", "given[0].data_ptr<int64_t>(), elsewhere(given, 1), elsewhere(given, 2)")
    assert states(lint(tmp_path, code, "09_fmha_preattn_mrope")) == {"authored-compute": "unproven"}
