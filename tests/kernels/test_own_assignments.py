"""Classes of CUDA C++ with an `operator=` of their own, and fields that unnamed unions share."""

from __future__ import annotations

import pytest
from cuda_support import run

from kbh_lint.base.values import Buffer
from kbh_lint.kernels.core.facts import KernelFacts

TILES = """
struct Row { const float* from; int step; __device__ Row(const float* f, int s) : from(f), step(s) {} };
struct Out;
struct Held { Held* at; };
struct Tile {
    float data[64];
    __device__ Tile() {}
    __device__ Tile& operator=(const Row& row);
    __device__ Tile& operator=(const float& one) { data[threadIdx.x] = one; return *this; }
    __device__ Held held() { return Held{(Held*)this}; }
};
struct Part {
    float v[2];
    __device__ Part() {}
    __device__ Part(const Tile& t) { *this = t; }
    __device__ Part& operator=(const Tile& t);
};
struct Out { float* to; __device__ Out(float* t) : to(t) {} __device__ Out& operator=(const Part& p); };
struct Plain { float v[2]; __device__ Plain& operator=(const Plain&) = default; };
__device__ Tile& Tile::operator=(const Row& row) { data[threadIdx.x] = row.from[threadIdx.x * row.step]; return *this; }
__device__ Part& Part::operator=(const Tile& t) { for (int i = 0; i < 2; i++) v[i] = t.data[i]; return *this; }
__device__ Out& Out::operator=(const Part& p) { to[threadIdx.x] = p.v[0]; return *this; }
struct Sums {
    union { float2 two[4]; float one[8]; };
    __device__ Sums() {}
    __device__ Sums(const Sums& o) { for (int i = 0; i < 4; i++) two[i] = o.two[i]; }
};
__device__ void read(Sums& s, const float* p) { s.two[0] = *((const float2*)&p[threadIdx.x]); }
__device__ void doubled(float2& to, const float2& from) { to.x = from.x * 2; to.y = from.y * 2; }
struct Scaled {
    float v;
    __device__ Scaled(const Part& p) : v(p.v[0]) {}
    __device__ Scaled(const Sums& s) : v(s.one[0]) {}
};
__device__ float of_scaled(const Scaled& s) { return s.v; }
__device__ Scaled scaled(const Part& p) { return p; }
__device__ inline unsigned& bits(const float& f) { return *((unsigned*)(&f)); }
__global__ void kernel(const float* x, float* y) {
    extern __shared__ char room[];
    BODY
}
"""


def facts(body: str) -> KernelFacts:
    return run(TILES.replace("BODY", body), x=Buffer("f32", 1, "f32"), y=Buffer("f32", 2, "f32"))


def sources(body: str) -> list[tuple[str, list[str]]]:
    """What a kernel writes to, and what the values come from; nothing may be left unread."""
    found = facts(body)
    assert not found.unread
    return [(store.param, sorted(origin.param for origin in store.origins)) for store in found.stores]


@pytest.mark.parametrize(
    "body",
    [
        "Tile* t = (Tile*)room; t[0] = Row(x, 4); Tile& u = t[1]; Part p = u; Out(y) = p;",
        "Tile* t = (Tile*)room; auto fill = [&](int i) { t[i % 2] = Row(x + i, 4); }; fill(1); Out(y) = Part(t[0]);",
        "Tile t; t = Row(x, 4); Part p; p = t; Out out(y); out = p;",
        "__shared__ Tile t; t = x[0]; Part p; p = t; Out(y) = p;",
        "Tile t[2]; t[1] = Row(x, 4); Part p[2]; p[0] = t[1]; p[1] = p[0]; Out(y) = p[1];",
        "Plain p, q; p.v[0] = x[0]; q = p; y[0] = q.v[0];",
        "Tile t, u; t = Row(x, 4); u = t; y[0] = u.data[0];",
    ],
)
def test_an_assignment_runs_the_operator_of_the_class(body: str) -> None:
    assert sources(body) == [("y", ["x"])]


def test_a_deleted_or_defaulted_operator_is_none_that_runs() -> None:
    assert sources("Plain p; Plain* q = (Plain*)room; p.v[0] = x[0]; q[0] = p; y[0] = q[1].v[0];") == [("y", ["x"])]


def test_what_no_value_of_the_input_reaches_has_none() -> None:
    assert sources("Tile t; t = 1.f; Part p; p = t; Out(y) = p;") == [("y", [])]


@pytest.mark.parametrize(
    "body",
    [
        "Sums s; read(s, x); y[0] = s.one[0];",
        "Sums s; read(s, x); Sums t = s; y[0] = t.one[1];",
        "Sums s, t; read(s, x); doubled(t.two[0], s.two[0]); y[0] = t.one[0];",
        "Sums s, t; read(s, x); ((float4*)t.two)[0] = ((const float4*)s.two)[0]; y[0] = t.one[0];",
        "Sums s[2]; read(s[0], x); Sums t = s[1]; y[0] = t.one[1];",
        "Sums* s = (Sums*)room; Sums t; read(t, x); s[0] = t; y[0] = s[1].one[1];",
        "Sums* s = (Sums*)room; read(s[0], x); Sums t; t = s[1]; y[0] = t.one[1];",
    ],
)
def test_fields_of_an_unnamed_union_are_one_memory(body: str) -> None:
    assert sources(body) == [("y", ["x"])]


@pytest.mark.parametrize(
    "body",
    [
        "Part p; p.v[0] = x[0]; Scaled s = p; y[0] = s.v;",
        "Part p; p.v[0] = x[0]; y[0] = of_scaled(p);",
        "Part p; p.v[0] = x[0]; y[0] = ((Scaled)p).v;",
        "Part p; p.v[0] = x[0]; Scaled s = scaled(p); y[0] = s.v;",
        "Part* p = (Part*)room; p[0].v[0] = x[0]; Part& q = p[1]; Scaled s = q; y[0] = s.v;",
        "Sums t; read(t, x); Scaled s = t; y[0] = s.v;",
    ],
)
def test_an_object_of_another_class_is_made_by_a_constructor(body: str) -> None:
    assert sources(body) == [("y", ["x"])]


@pytest.mark.parametrize(
    "body",
    [
        "float a; bits(a) = __float_as_uint(x[0]); y[0] = a;",
        "Part p; bits(p.v[1]) = __float_as_uint(x[0]); y[0] = p.v[1];",
        'float a; asm volatile("mov.b32 %0, %1;" : "=r"(bits(a)) : "r"(__float_as_uint(x[0]))); y[0] = a;',
    ],
)
def test_a_reference_that_a_function_gives_of_what_it_took_as_const_can_be_written_to(body: str) -> None:
    assert sources(body) == [("y", ["x"])]
