"""Branches, loops, helpers and arguments of Triton kernels: what the analysis follows."""

from __future__ import annotations

from triton_support import GEMM, OUT, SCALE, SIZES, W8, W16, X8, X16, flags, params, run

from kbh_lint.base.values import UNKNOWN, Buffer, Descriptor, DType, Scalar


def test_known_constexprs_choose_one_branch_and_are_reported() -> None:
    source = """
    def kernel(x, w, out, FAST: tl.constexpr, MODE: tl.constexpr, B: tl.constexpr):
        USE: tl.constexpr = FAST and MODE == 'fp8'
        i = tl.arange(0, B)
        a = tl.load(x + i[:, None] * B + i[None, :])
        b = tl.load(w + i[:, None] * B + i[None, :])
        if USE:
            c = tl.dot(a, b)
        else:
            c = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
        tl.store(out + i[:, None] * B + i[None, :], c)
    """
    fast = run(source, x=X8, w=W8, out=OUT, FAST=True, MODE="fp8", B=32)
    slow = run(source, x=X8, w=W8, out=OUT, FAST=True, MODE="bf16", B=32)
    assert [p.a for p in fast.products] == ["e4m3"] and [p.a for p in slow.products] == ["bf16"]
    assert fast.decided | fast.tests.names == {"FAST", "MODE", "B"}  # B is the rows of the product


def test_an_unknown_condition_takes_both_branches() -> None:
    source = """
    def kernel(x, w, out, n, B: tl.constexpr):
        i = tl.arange(0, B)
        a = tl.load(x + i[:, None] * B + i[None, :])
        b = tl.load(w + i[:, None] * B + i[None, :])
        if n > 3:
            a2 = a.to(tl.bfloat16).to(tl.float32)
            c = tl.dot(a2, b.to(tl.float32))
        else:
            c = tl.dot(a, b)
        tl.store(out + i[:, None] * B + i[None, :], c)
    """
    facts = run(source, x=X8, w=W8, out=OUT, n=Scalar(UNKNOWN, "i32"), B=32)
    assert {p.a for p in facts.products} == {"f32", "e4m3"}
    assert params(facts.stores[0].origins) == {"x", "w"}


def test_a_loop_over_nothing_is_not_run() -> None:
    facts = run(
        GEMM.format(body="acc = tl.dot(a, b, acc)"), x=X8, w=W8, out=OUT, scale=SCALE, **{**SIZES, "K": Scalar(0)}
    )
    assert facts.products == [] and "K" in facts.decided


def test_an_operand_prefetched_in_the_last_iteration_is_followed_around_the_loop() -> None:
    facts = run(
        """
        def kernel(x, w, out, n, B: tl.constexpr):
            i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
            a = tl.load(x + i)
            acc = tl.zeros((B, B), tl.float32)
            for k in range(n):
                acc += tl.dot(a, tl.load(w + k + i))
                a = tl.load(x + k + i).to(tl.float16).to(tl.float8e4nv)
            tl.store(out + i, acc)
        """,
        x=X8, w=W8, out=OUT, n=Scalar(UNKNOWN), B=64,
    )  # fmt: skip
    assert any("cast" in flags(p.a_origins, "x") for p in facts.products)


def test_helpers_are_read_with_the_arguments_of_each_call() -> None:
    facts = run(
        """
        def widen(v, TO: tl.constexpr):
            if TO == tl.bfloat16:
                return v.to(TO)
            return v

        def kernel(x, w, out, B: tl.constexpr):
            i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
            c = tl.dot(widen(tl.load(x + i), tl.bfloat16), widen(tl.load(w + i), tl.bfloat16))
            d = tl.dot(widen(tl.load(x + i), tl.float8e4nv), widen(tl.load(w + i), tl.float8e4nv))
            tl.store(out + i, c + d)
        """,
        x=X8, w=W8, out=OUT, B=64,
    )  # fmt: skip
    assert sorted(p.a for p in facts.products) == ["bf16", "e4m3"]


def test_the_type_of_a_pointer_can_choose_a_branch() -> None:
    source = """
    def kernel(x, w, out, B: tl.constexpr):
        i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
        a, b = tl.load(x + i), tl.load(w + i)
        if x.dtype.element_ty == tl.float8e4nv:
            a = a.to(tl.float16)
            b = b.to(tl.float16)
        tl.store(out + i, tl.dot(a, b))
    """
    assert [p.a for p in run(source, x=X8, w=W8, out=OUT, B=64).products] == ["f16"]
    assert [p.a for p in run(source, x=X16, w=W16, out=OUT, B=64).products] == ["bf16"]


def test_a_dtype_passed_as_constexpr_is_the_operand_type() -> None:
    source = GEMM.format(body="acc = tl.dot(a.to(DOT), b.to(DOT), acc)").replace("K, BM", "K, DOT: tl.constexpr, BM")
    facts = run(source, x=X8, w=W8, out=OUT, scale=SCALE, DOT=DType("f16"), **SIZES)
    assert [p.a for p in facts.products] == ["f16"] and "DOT" in facts.decided


def test_a_reduction_runs_its_combine_function() -> None:
    facts = run(
        """
        def add(a, b):
            return a + b

        def kernel(x, out, B: tl.constexpr):
            i = tl.arange(0, B)
            tl.store(out, tl.reduce(tl.load(x + i).to(tl.float32), 0, add))
        """,
        x=X16, out=OUT, B=64,
    )  # fmt: skip
    assert ("f32", {"x"}) in [(s.dtype, params(s.origins)) for s in facts.sums]


def test_what_cannot_be_followed_is_said_and_keeps_its_origins() -> None:
    facts = run(
        """
        def kernel(x, out, B: tl.constexpr):
            i = tl.arange(0, B)
            tl.store(out + i, tl.no_such_builtin(tl.load(x + i)))
        """,
        x=X16, out=OUT, B=64,
    )  # fmt: skip
    assert [reason for reason, _ in facts.unread] == ["a call of triton.language.no_such_builtin"]
    assert params(facts.stores[0].origins) == {"x"}


def test_arguments_count_by_position_as_by_name() -> None:
    facts = run(
        """
        def kernel(x, w, out):
            at = tl.arange(0, 64)
            a = tl.load(x + at[:, None] * 64 + at[None, :], None, None, (), "", "", "evict_last")
            b = tl.load(w + at[:, None] * 64 + at[None, :])
            acc = tl.dot(a, b, None, None, None, None, tl.float16)
            top, where = tl.max(acc, 1, True)
            wide = tl.dot(a, tl.broadcast_to(tl.sum(acc, 1, True).to(tl.bfloat16), 64, 64))
            kept = tl.max(acc, 1, False, True, True)
            tl.store(out + at + where, top + tl.dot(kept.to(tl.bfloat16), b))
        """,
        x=X16, w=W16, out=OUT,
    )  # fmt: skip
    assert [hint.param for hint in facts.hints] == ["x"]
    assert facts.products[0].accumulator == "f16"
    assert [p.rows for p in facts.products] == [64, 64, 64]
    assert not facts.unread


def test_the_store_method_of_a_pointer_stores_its_first_argument_that_of_a_descriptor_its_second() -> None:
    facts = run(
        """
        def kernel(x, w, out, y):
            at = tl.arange(0, 64)
            mask = at < tl.load(w)
            (out + at).store(tl.load(x + at), mask)
            y.store([0], tl.load(x + at))
        """,
        x=X16, w=Buffer("i32", 2, "i32"), out=OUT, y=Descriptor("bf16", 8, "bf16", (64,)),
    )  # fmt: skip
    assert [(store.param, params(store.origins)) for store in facts.stores] == [("out", {"x"}), ("y", {"x"})]


def test_functions_do_what_they_do_under_other_names() -> None:
    facts = run(
        """
        def kernel(x, n, out):
            largest, swap, scan = tl.maximum, tl.atomic_cas, tl.associative_scan
            at = tl.arange(0, largest(32, 64))
            v = scan(tl.load(x + at[:, None] * 64 + at[None, :]), 1, lambda a, b: a + b)
            swap(n, 0, 1)
            tl.store(out + at, tl.dot(v, v))
        """,
        x=X16, n=Buffer("i32", 3, "i32"), out=OUT,
    )  # fmt: skip
    assert [product.rows for product in facts.products] == [64]
    assert {total.dtype for total in facts.sums} == {"bf16"}


def test_a_round_that_is_skipped_ends_no_loop_over_a_tuple() -> None:
    facts = run(
        """
        def kernel(x, w, out, n):
            at = tl.arange(0, 64)
            for k in (0, 1, 2, 3):
                if k == 0:
                    continue
                if k == 3:
                    break
                tl.store(out + at + k, tl.load(x + at) if k == 2 else tl.load(w + at))
        """,
        x=X16, w=W16, out=OUT,
    )  # fmt: skip
    assert {param for store in facts.stores for param in params(store.origins)} == {"x", "w"}


def test_a_range_by_keyword_is_bounded_by_its_data() -> None:
    source = "def kernel(x, n, out):\n    for i in tl.range(0, arg2=tl.load(n)):\n"
    source += "        tl.store(out + i, tl.load(x + i))\n"
    facts = run(source, x=X16, n=Buffer("i32", 3, "i32"), out=OUT)
    assert [o.param for bound in facts.bounds for o in bound.origins] == ["n"]
