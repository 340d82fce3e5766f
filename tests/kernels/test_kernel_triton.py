"""What the kernel analysis proves about Triton kernels."""

from __future__ import annotations

from typing import Any

import pytest
from triton_support import GEMM, OUT, SCALE, SIZES, W8, W16, X8, X16, flags, params, run

from kbh_lint.base import ir
from kbh_lint.base.values import UNKNOWN, Buffer, Descriptor, Scalar
from kbh_lint.kernels.core.facts import KernelFacts

BYTES = Buffer("u8", 2, "u8")


def line(loc: ir.Loc) -> int:
    return int(loc[1])


def gemm(body: str, x: Any = X8, w: Any = W8) -> KernelFacts:
    return run(GEMM.format(body=body), x=x, w=w, out=OUT, scale=SCALE, **SIZES)


def test_a_dot_of_loaded_fp8_tiles_is_an_fp8_product_without_casts() -> None:
    facts = gemm("acc = tl.dot(a, b, acc)")
    (product,) = facts.products
    assert (product.kind, product.a, product.b, product.accumulator) == ("dot", "e4m3", "e4m3", "f32")
    assert (params(product.a_origins), params(product.b_origins)) == ({"x"}, {"w"})
    assert product.casts == () and product.rows == 64
    assert facts.unread == []


def test_widening_both_operands_makes_a_bf16_product_and_names_the_casts() -> None:
    facts = gemm("acc += tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))")
    (product,) = facts.products
    assert (product.a, product.b) == ("bf16", "bf16")
    assert flags(product.a_origins, "x") == {"cast"} and flags(product.b_origins, "w") == {"cast"}
    assert [line(loc) for loc in product.casts] == [10, 10]
    assert {(c.source, c.target) for c in facts.casts} >= {("e4m3", "bf16")}


def test_the_epilogue_cast_is_a_cast_of_a_product_only() -> None:
    facts = gemm("acc = tl.dot(a, b, acc)")
    (cast,) = facts.casts
    assert (cast.source, cast.target) == ("f32", "bf16")
    assert all("product" in o.flags for o in cast.origins if o.param in ("x", "w"))


def test_a_bitcast_of_bytes_is_no_cast() -> None:
    byte_view = Buffer("u8", 1, "e4m3")
    facts = gemm("acc = tl.dot(a.to(tl.float8e4nv, bitcast=True), b, acc)", x=byte_view)
    (product,) = facts.products
    assert (product.a, product.casts) == ("e4m3", ())
    assert {o.dtype for o in product.a_origins} == {"e4m3"}


def test_bytes_of_unknown_content_become_what_they_are_bitcast_to() -> None:
    facts = gemm("acc = tl.dot(a.to(tl.float8e4nv, bitcast=True), b, acc)", x=Buffer("u8", 1, "u8"))
    assert [(p.a, p.casts) for p in facts.products] == [("e4m3", ())]


def test_twiddling_fp8_bits_into_bf16_is_a_cast() -> None:
    facts = gemm(
        "u = a.to(tl.uint8, bitcast=True).to(tl.uint16)\n"
        "        h = (((u & 0x80) << 8) | ((u & 0x7F) << 4)).to(tl.bfloat16, bitcast=True)\n"
        "        acc = tl.dot(h, b.to(tl.bfloat16), acc)"
    )
    (product,) = facts.products
    assert product.a == "bf16" and "cast" in flags(product.a_origins, "x")
    assert ("e4m3", "bf16") in {(c.source, c.target) for c in facts.casts if line(c.loc) == 11}


def test_packing_two_bf16_halves_into_a_word_and_back_is_no_cast() -> None:
    facts = gemm(
        "u = a.to(tl.uint16, bitcast=True).to(tl.uint32)\n"
        "        p = (u << 16) | u\n"
        "        acc = tl.dot((p >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True), b, acc)",
        x=X16,
        w=W16,
    )
    (product,) = facts.products
    assert product.a == "bf16" and product.casts == ()


def test_a_lookup_table_indexed_by_fp8_bytes_is_a_cast() -> None:
    facts = gemm(
        "acc = tl.dot(tl.load(scale + a.to(tl.int32)).to(tl.bfloat16), b.to(tl.bfloat16), acc)",
        x=Buffer("u8", 1, "e4m3"),
    )
    (product,) = facts.products
    assert "cast" in flags(product.a_origins, "x")
    assert ("e4m3", "f32") in {(c.source, c.target) for c in facts.casts}


@pytest.mark.parametrize(
    ("expression", "unpacks"),
    [
        ("q & 0xF", 1),
        ("(q >> 4) & 0xF", 2),
        ("q >> 4", 1),
        ("q % 16", 1),
        ("q // 16", 1),
        ("q & 0x7F", 0),
        ("q + 16", 0),
    ],
)
def test_nibbles_taken_out_of_loaded_bytes_are_unpacks(expression: str, unpacks: int) -> None:
    facts = run(
        f"""
        def kernel(w, out, B: tl.constexpr):
            i = tl.arange(0, B)
            q = tl.load(w + i)
            v = ({expression}).to(tl.bfloat16)
            tl.store(out + i, v)
        """,
        w=BYTES, out=OUT, B=128,
    )  # fmt: skip
    assert len({u.loc for u in facts.unpacks}) == unpacks
    assert ("unpack" in flags(facts.stores[0].origins, "w")) == bool(unpacks)


def test_masks_on_positions_and_float_bits_are_no_unpacks() -> None:
    facts = run(
        """
        def kernel(x, idx, out, B: tl.constexpr):
            i = tl.arange(0, B)
            lane = i & 0xF
            exponent = (tl.load(x + i).to(tl.uint8, bitcast=True) >> 3) & 0xF
            page = tl.load(idx + lane) // 16
            tl.store(out + page, exponent.to(tl.float32))
        """,
        x=X8, idx=Buffer("i32", 4, "i32"), out=OUT, B=128,
    )  # fmt: skip
    assert facts.unpacks == []


def test_an_address_made_of_loaded_data_is_an_index_origin() -> None:
    facts = run(
        """
        def kernel(table, kv, lens, out, B: tl.constexpr):
            i = tl.arange(0, B)
            page = tl.load(table + tl.program_id(0))
            n = tl.load(lens + tl.program_id(0))
            v = tl.load(kv + page * B + i, mask=i < n, other=0.0)
            tl.store(out + i, v)
        """,
        table=Buffer("i32", 4, "i32"), kv=X16, lens=Buffer("i32", 5, "i32"), out=OUT, B=128,
    )  # fmt: skip
    (store,) = facts.stores
    assert params(store.origins) == {"kv"}
    assert params(store.origins, index=True) == {"table", "lens"}
    assert {(load.param, load.dtype) for load in facts.loads} == {("table", "i32"), ("kv", "bf16"), ("lens", "i32")}


def test_a_summed_outer_product_is_a_product_by_fma() -> None:
    facts = run(
        """
        def kernel(x, q, s, out, K, B: tl.constexpr):
            i = tl.arange(0, B)
            acc = tl.zeros((B,), tl.float32)
            for k in range(0, K, B):
                w = (tl.load(q + (k + i)[:, None] * K + i[None, :]) & 0xF).to(tl.float32)
                w = w * tl.load(s + i)[None, :]
                acc += tl.sum(tl.load(x + k + i).to(tl.float32)[:, None] * w, axis=0)
            tl.store(out + i, acc)
        """,
        x=X16, q=BYTES, s=Buffer("bf16", 3, "bf16"), out=OUT, K=Scalar(UNKNOWN), B=64,
    )  # fmt: skip
    (product,) = facts.products
    assert product.kind == "fma" and product.a == "f32"
    assert params(product.a_origins) == {"x"} and params(product.b_origins) == {"q", "s"}
    assert "unpack" in flags(product.b_origins, "q")


def test_scaling_and_squaring_are_no_products() -> None:
    facts = run(
        """
        def kernel(x, g, out, B: tl.constexpr):
            i = tl.arange(0, B)
            v = tl.load(x + i).to(tl.float32)
            r = tl.rsqrt(tl.sum(v * v, axis=0) / B)
            tl.store(out + i, v * r * tl.load(g + i))
        """,
        x=X16, g=W16, out=OUT, B=64,
    )  # fmt: skip
    assert facts.products == []


def test_rotating_pairs_of_elements_is_no_product() -> None:
    facts = run(
        """
        def kernel(q, cos, sin, out, B: tl.constexpr):
            i = tl.arange(0, B)
            a, b = tl.load(q + i), tl.load(q + B + i)
            c, s = tl.load(cos + i), tl.load(sin + i)
            tl.store(out + i, a * c - b * s)
            tl.store(out + B + i, a * s + b * c)
        """,
        q=X16, cos=Buffer("f32", 3, "f32"), sin=Buffer("f32", 4, "f32"), out=OUT, B=64,
    )  # fmt: skip
    assert facts.products == []


@pytest.mark.parametrize("name", ["topk", "sort", "softmax"])
def test_built_ins_that_do_the_whole_job_are_uses(name: str) -> None:
    call = {"topk": "tl.topk(v, 8)", "sort": "tl.sort(v, descending=True)", "softmax": "tl.softmax(v)"}[name]
    facts = run(
        f"""
        def kernel(x, out, B: tl.constexpr):
            i = tl.arange(0, B)
            v = tl.load(x + i)
            tl.store(out + i, {call})
        """,
        x=X16, out=OUT, B=64,
    )  # fmt: skip
    assert [u.symbol for u in facts.uses] == [f"triton.language.{name}"]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("tl.standard.sort_impl(v, 8, None, True)", "sort"),
        ("tl.standard.sort_impl(v, descending=True)", "sort"),
        ("tl.bitonic_merge(v)", "bitonic_merge"),
        ("tl.standard._bitonic_merge_hypercube(v, 3, True)", "bitonic_merge"),
    ],
)
def test_the_network_under_the_built_ins_is_one_itself(call: str, name: str) -> None:
    facts = run(
        f"""
        def kernel(x, out, B: tl.constexpr):
            v = tl.load(x + tl.arange(0, B))
            made = {call}
            tl.store(out + tl.arange(0, made.shape[0]), made)
        """,
        x=X16, out=OUT, B=64,
    )  # fmt: skip
    assert [u.symbol for u in facts.uses] == [f"triton.language.{name}"]
    assert not facts.unread and [params(s.origins) for s in facts.stores] == [{"x"}]


def test_block_pointers_and_descriptors_lead_to_their_tensors() -> None:
    facts = run(
        """
        def kernel(x, desc, out, M, K, B: tl.constexpr):
            p = tl.make_block_ptr(x, (M, K), (K, 1), (0, 0), (B, B), (1, 0))
            inner = tl.make_tensor_descriptor(out, [M, K], [K, 1], [B, B])
            acc = tl.zeros((B, B), tl.float32)
            for k in range(0, K, B):
                acc = tl.dot(tl.load(p, boundary_check=(0, 1)), desc.load([0, k]).T, acc)
                p = tl.advance(p, (0, B))
            inner.store([0, 0], acc.to(tl.bfloat16))
        """,
        x=X8, desc=Descriptor("e4m3", 2, "e4m3", (64, 64)), out=OUT, M=Scalar(64), K=Scalar(UNKNOWN), B=64,
    )  # fmt: skip
    (product,) = facts.products
    assert (product.a, product.b, product.rows) == ("e4m3", "e4m3", 64)
    assert (params(product.a_origins), params(product.b_origins)) == ({"x"}, {"desc"})
    assert [(s.param, s.dtype, params(s.origins)) for s in facts.stores] == [("out", "bf16", {"x", "desc"})]


def test_inline_assembly_that_unpacks_nibbles_is_an_unpack_and_a_cast() -> None:
    facts = run(
        """
        def kernel(w, x, out, B: tl.constexpr):
            i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
            q = tl.load(w + i)
            v = tl.inline_asm_elementwise(
                "lop3.b32 $0, $1, 0x000f000f, 0x43004300, 0xEA;", "=r,r", [q], dtype=tl.bfloat16, is_pure=True, pack=2)
            tl.store(out + i, tl.dot(tl.load(x + i), v))
        """,
        w=Buffer("i32", 2, "i32"), x=X16, out=OUT, B=64,
    )  # fmt: skip
    (product,) = facts.products
    assert product.b == "bf16" and flags(product.b_origins, "w") >= {"unpack", "cast"}
    assert facts.unread == []


def test_inline_assembly_that_converts_fp8_is_a_cast() -> None:
    facts = run(
        """
        def kernel(w, x, out, B: tl.constexpr):
            i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
            v = tl.inline_asm_elementwise(
                "cvt.rn.f16x2.e4m3x2 $0, $1;", "=r,h", [tl.load(w + i)], dtype=tl.float16, is_pure=True, pack=2)
            tl.store(out + i, tl.dot(tl.load(x + i), v))
        """,
        w=Buffer("u8", 2, "e4m3"), x=Buffer("f16", 1, "f16"), out=OUT, B=64,
    )  # fmt: skip
    assert ("e4m3", "f16") in {(c.source, c.target) for c in facts.casts}
    assert flags(facts.products[0].b_origins, "w") == {"cast"}


def test_dot_scaled_takes_its_types_from_the_formats() -> None:
    facts = run(
        """
        def kernel(x, w, sx, sw, out, B: tl.constexpr):
            i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
            acc = tl.dot_scaled(tl.load(x + i), tl.load(sx + i), "e4m3", tl.load(w + i), tl.load(sw + i), "e2m1")
            tl.store(out + i, acc)
        """,
        x=X8, w=BYTES, sx=Buffer("u8", 3, "e8m0"), sw=Buffer("u8", 4, "e8m0"), out=OUT, B=64,
    )  # fmt: skip
    assert [(p.a, p.b) for p in facts.products] == [("e4m3", "e2m1")]


def test_second_products_know_that_their_operand_is_a_product() -> None:
    facts = run(
        """
        def kernel(q, k, v, out, n, B: tl.constexpr):
            i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
            a = tl.load(q + i)
            m = tl.full((B,), -float("inf"), tl.float32)
            l = tl.zeros((B,), tl.float32)
            acc = tl.zeros((B, B), tl.float32)
            for j in range(n):
                s = tl.dot(a, tl.trans(tl.load(k + j + i)))
                m_new = tl.maximum(m, tl.max(s, 1))
                p = tl.exp(s - m_new[:, None])
                c = tl.exp(m - m_new)
                l = l * c + tl.sum(p, 1)
                acc = acc * c[:, None] + tl.dot(p.to(tl.bfloat16), tl.load(v + j + i))
                m = m_new
            tl.store(out + i, acc / l[:, None])
        """,
        q=X16, k=W16, v=Buffer("bf16", 3, "bf16"), out=OUT, n=Scalar(UNKNOWN), B=64,
    )  # fmt: skip
    second = [p for p in facts.products if params(p.b_origins) == {"v"}]
    assert len(facts.products) == len({p.loc for p in facts.products}) == 2
    assert second and flags(second[0].a_origins, "k") >= {"product", "exp", "cast"}
    assert params(facts.stores[0].origins) == {"q", "k", "v"}
    assert any({"exp"} <= flags(s.origins, "k") for s in facts.sums)


@pytest.mark.parametrize(
    ("value", "computes"),
    [
        ("tl.sqrt(v)", True),
        ("tl.rsqrt(v)", True),
        ("libdevice.erf(v)", True),
        ("tl.math.log(v)", True),
        ("tl.floor(v)", True),
        ("tl.flip(v)", False),
        ("v.to(tl.bfloat16)", False),
        ("tl.sqrt(1.0)", False),
    ],
)
def test_functions_of_loaded_numbers_are_arithmetic_and_moves_are_not(value: str, computes: bool) -> None:
    source = (
        f"def kernel(x, out):\n    at = tl.arange(0, 64)\n    v = tl.load(x + at)\n    tl.store(out + at, {value})\n"
    )
    assert run(source, x=Buffer("f32", 1, "f32"), out=OUT).arithmetic is computes


@pytest.mark.parametrize("way", ["w.to(tl.pointer_type(tl.uint32))", "tl.cast(w, tl.pointer_type(tl.int32))"])
def test_a_pointer_to_wider_words_leads_to_the_same_memory(way: str) -> None:
    source = f"""
    def kernel(w, out):
        at = tl.arange(0, 64)
        word = tl.load({way} + at)
        tl.store(out + at, ((word >> 8) & 15).to(tl.bfloat16))
    """
    facts = run(source, w=Buffer("u8", 1, "u8"), out=OUT)
    assert {load.param for load in facts.loads} == {"w"}
    assert params(facts.stores[0].origins) == {"w"} and facts.unpacks
