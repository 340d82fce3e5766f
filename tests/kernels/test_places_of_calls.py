"""What a call refers to: a store there is no load, however the place is named, and what is asked for is one."""

from __future__ import annotations

import pytest
from cuda_support import run

from kbh_lint.base.values import Buffer, StructArg

KERNEL = """
struct Pair { float first, second; };
template <class T> class Span {
 public:
  using value_type = T;
  template <class From> __host__ __device__ Span(From* p) : held(static_cast<value_type*>(p)) {}
  template <class I> __device__ value_type& operator[](I at) const { return *(data() + at); }
  __device__ value_type& operator()(int at) const { return nth(at); }
  __device__ value_type& operator*() const { return *held; }
  __device__ value_type& nth(int at) const { return held[at]; }
  __device__ value_type* data() const { return held; }
  value_type* held;
};
__device__ float& entry(float* p, int at) { return p[at]; }
__device__ void put(float& to, float from) { to = from; }
__device__ void add(float& to, float from) { to += from; }
__global__ void kernel(Span<const float> x, Span<float> y, Span<float2> lanes, Span<Pair> pairs) {
  const int i = threadIdx.x;
  BODY
}
"""
MEMORY = {
    name: StructArg((("held", Buffer("f32", at, "f32")),)) for at, name in enumerate(("x", "y", "lanes", "pairs"), 1)
}


def touched(body: str) -> tuple[set[str], dict[str, set[int]]]:
    """The arguments that a body loads, and those that it stores to, with the storages that this comes from."""
    facts = run(KERNEL.replace("BODY", body), **MEMORY)
    assert not facts.unread
    stored: dict[str, set[int]] = {}
    for store in facts.stores:
        stored.setdefault(store.param.partition(".")[0], set()).update(origin.storage for origin in store.origins)
    return {load.param.partition(".")[0] for load in facts.loads}, stored


@pytest.mark.parametrize(
    ("body", "to"),
    [
        ("y[i] = x[i];", "y"),
        ("y(i) = x[i];", "y"),
        ("*y = x[i];", "y"),
        ("y.nth(i) = x[i];", "y"),
        ("entry(y.data(), i) = x[i];", "y"),
        ("put(y[i], x[i]);", "y"),
        ("put(y(i), x[i]);", "y"),
        ("put(*y, x[i]);", "y"),
        ("auto& one = y[i]; one = x[i];", "y"),
        ("float& one = y(i); one = x[i];", "y"),
        ("float* one = &y(i); *one = x[i];", "y"),
        ("*(&y[0] + i) = x[i];", "y"),
        ("for (int k = 0; k < 4; ++k) y[i + k] = x[i + k];", "y"),
        ("pairs[i].first = x[i];", "pairs"),
        ("pairs(i) = Pair{x[i], 1.f};", "pairs"),
        ("put(pairs[i].second, x[i]);", "pairs"),
        ("lanes[i] = make_float2(x[i], 1.f);", "lanes"),
        ("lanes[i].x = x[i];", "lanes"),
        ("lanes.data()[i].y = x[i];", "lanes"),
        ("put(lanes(i).y, x[i]);", "lanes"),
    ],
)
def test_a_store_to_what_a_call_refers_to_is_no_load(body: str, to: str) -> None:
    loaded, stored = touched(body)
    assert loaded == {"x"}
    assert stored == {to: {1}}


@pytest.mark.parametrize(
    "body",
    [
        "y[i] += x[i];",
        "y(i) = y(i) + x[i];",
        "*y += x[i];",
        "add(y[i], x[i]);",
        "add(y(i), x[i]);",
        "auto& one = y(i); one += x[i];",
        "const float one = y[i]; y[i] = x[i] * one;",
        "y[i] = x[i]; y[i + 1] = y[i];",
        "put(y[i], y[i + 1] + x[i]);",
        "for (int k = 0; k < 4; ++k) { y[k] = x[i]; x.data(); y[i] = y[k]; }",
    ],
)
def test_what_is_asked_of_it_is_loaded(body: str) -> None:
    loaded, stored = touched(body)
    assert loaded == {"x", "y"}
    assert stored == {"y": {1, 2}}


def test_what_chooses_the_place_is_loaded() -> None:
    assert touched("y[(int)lanes[i].x] = x[i];")[0] == {"x", "lanes"}
    assert touched("y((int)y[i]) = x[i];")[0] == {"x", "y"}
