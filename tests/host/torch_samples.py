"""Calls of torch's operations, as expressions over tensors, to hold the linter's model of torch against torch.

A sample is an expression and its tensors: `("torch.add(x, y)", {"x": X, "y": Y})`, with a tensor as its shape, element
type and how it lies in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spec:
    """A tensor: its shape, element type (torch's name), and how a dense tensor becomes it."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    how: str = ""  # an expression over `t`, such as `t.transpose(0, 1)`


Sample = tuple[str, dict[str, Spec]]

SCALAR, ROW, MATRIX, CUBE = Spec(()), Spec((3,)), Spec((2, 3)), Spec((2, 3, 4))
TURNED = Spec((3, 2), how="t.t()")
SPREAD = Spec((1, 3), how="t.expand(2, 3)")
EVERY_OTHER = Spec((2, 6), how="t[:, ::2]")
PERMUTED = Spec((4, 2, 3), how="t.permute(1, 2, 0)")
IMAGE = Spec((2, 4, 9, 10))
CHANNELS_LAST = Spec((2, 9, 10, 4), how="t.permute(0, 3, 1, 2)")
LAYOUTS = (SCALAR, ROW, MATRIX, TURNED, SPREAD, EVERY_OTHER, CUBE, PERMUTED, CHANNELS_LAST)
DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool")


def typed(spec: Spec, dtype: str) -> Spec:
    """The same tensor with other elements."""
    return Spec(spec.shape, dtype, spec.how)


UNARY = (
    "abs absolute neg negative positive square sign sgn ceil floor trunc fix frac round nan_to_num bitwise_not clone "
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan arcsin arccos arctan sinh cosh tanh "
    "asinh acosh atanh arcsinh arccosh arctanh sigmoid reciprocal erf erfc erfinv lgamma digamma logit i0 sinc deg2rad "
    "rad2deg isnan isinf isfinite isposinf isneginf isreal logical_not signbit relu conj_physical resolve_conj "
    "resolve_neg frexp zeros_like ones_like empty_like rand_like"
)
FUNCTIONAL = (
    "relu relu6 hardtanh hardswish hardsigmoid silu mish gelu elu selu celu leaky_relu rrelu softplus softsign "
    "tanhshrink hardshrink softshrink logsigmoid dropout alpha_dropout feature_alpha_dropout"
)
SPECIAL = "expit i0e i1 i1e ndtr ndtri log_ndtr entr erfcx gammaln psi"
BINARY = (
    "add sub subtract mul multiply maximum minimum fmax fmin remainder fmod floor_divide bitwise_and bitwise_or "
    "bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm hypot nextafter heaviside pow float_power div divide "
    "true_divide atan2 arctan2 copysign logaddexp logaddexp2 xlogy ldexp eq ne lt le gt ge greater greater_equal less "
    "less_equal not_equal logical_and logical_or logical_xor isclose rsub"
)
REDUCTIONS = (
    "sum nansum mean nanmean amax amin any all argmax argmin std var std_mean var_mean logsumexp norm max min median "
    "nanmedian"
)
ALONG = "cumsum cumprod logcumsumexp cummax cummin softmax log_softmax sort argsort"


def turn(values: Sequence[Any], start: int, count: int) -> list[Any]:
    """Some of many values, others for each start."""
    return [values[(start + i) % len(values)] for i in range(count)]


def elementwise() -> Iterator[Sample]:
    """Operations of one operand, of two, and of three, over element types and layouts."""
    for i, name in enumerate(UNARY.split()):
        for spec in (MATRIX, PERMUTED, *turn(LAYOUTS, i, 2)):
            yield f"torch.{name}(x)", {"x": spec}
        for dtype in ("int64", "bool", *turn(DTYPES, i, 1)):
            yield f"torch.{name}(x)", {"x": typed(MATRIX, dtype)}
    for name in FUNCTIONAL.split():
        for spec in (MATRIX, TURNED, CHANNELS_LAST, typed(MATRIX, "float16")):
            yield f"F.{name}(x)", {"x": spec}
    for name in SPECIAL.split():
        for spec in (MATRIX, typed(MATRIX, "int64")):
            yield f"torch.special.{name}(x)", {"x": spec}
    for i, name in enumerate(BINARY.split()):
        lying = (
            (MATRIX, MATRIX),
            (MATRIX, ROW),
            (MATRIX, SCALAR),
            (SCALAR, ROW),
            (TURNED, TURNED),
            (MATRIX, TURNED),
            (TURNED, ROW),
            (PERMUTED, Spec((3, 4))),
            (PERMUTED, PERMUTED),
            (CUBE, Spec((1, 3, 1))),
            (CHANNELS_LAST, Spec((1, 4, 1, 1))),
            (CHANNELS_LAST, IMAGE),
            (SPREAD, SPREAD),
            (EVERY_OTHER, MATRIX),
        )
        for a, b in lying if name in ("add", "mul") else turn(lying, 3 * i, 5):
            yield f"torch.{name}(x, y)", {"x": a, "y": b}
        pairs = [(one, other) for one in DTYPES for other in DTYPES]
        for one, other in pairs if name in ("add", "div", "eq") else turn(pairs, 7 * i, 7):
            yield f"torch.{name}(x, y)", {"x": typed(MATRIX, one), "y": typed(MATRIX, other)}
            yield f"torch.{name}(x, y)", {"x": typed(MATRIX, one), "y": typed(SCALAR, other)}
        for one in turn(DTYPES, i, 3):
            for number in ("2", "2.5", "True"):
                yield f"torch.{name}(x, {number})", {"x": typed(MATRIX, one)}
    for op in ("+", "-", "*", "/", "//", "%", "**", "&", "|", "<", "=="):
        for one in ("float16", "float32", "int64", "bool"):
            for number in ("2", "2.5", "y"):
                yield f"x {op} {number}", {"x": typed(MATRIX, one), "y": typed(ROW, "int32")}
                yield f"{number} {op} x", {"x": typed(MATRIX, one), "y": typed(ROW, "int32")}
    for spec in (MATRIX, TURNED, typed(MATRIX, "int64"), typed(MATRIX, "float16")):
        for text in (
            "x.clamp(0, 6)",
            "x.clamp(min=0.5)",
            "torch.clip(x, y, y)",
            "x.clamp_min(0)",
            "x.clamp_max(0.5)",
            "-x",
            "abs(x)",
            "torch.addcmul(x, x, x)",
            "torch.addcdiv(x, x, x, value=2)",
            "torch.lerp(x, x, 0.5) if x.is_floating_point() else x",
            "x.masked_fill(x > 0, 1.0)",
            "torch.where(x > 0, x, 0.0)",
            "torch.where(x > 0, x, y)",
            "torch.where(x > 0, 1.0, 0.0)",
            "torch.isin(x, y)",
            "F.threshold(x, 0.1, 20)",
            "torch.prelu(x, y)",
            "F.normalize(x, dim=1)",
            "torch.renorm(x, 2, 0, 1.0)",
            "x.tril()",
            "x.triu(1)",
            "x.flip(0)",
            "x.roll(1, 0)",
            "x.fliplr()",
            "torch.flipud(x)",
            "F.gumbel_softmax(x)",
            "x.bernoulli()",
            "torch.normal(x, 1.0)",
            "torch.polygamma(1, x)",
            "torch.dropout(x, 0.5, False)",
            "x.type_as(y)",
            "x.fill_(2)",
            "x.zero_()",
            "torch.softmax(x, 1, torch.float64)",
            "F.softmin(x, dim=0)",
            "x.round(decimals=1)",
            "torch.gelu(x)",
            "torch.div(x, y, rounding_mode='floor')",
            "torch.add(x, y, alpha=2)",
        ):
            yield text, {"x": spec, "y": Spec((1,))}
    for text in (
        "x.add_(y)",
        "x.mul_(2.5)",
        "x.copy_(y)",
        "x.relu_()",
        "torch.exp_(x)",
        "torch.add(x, y, out=z)",
        "torch.add(x, y, out=e)",
        "torch.mm(x, x.t(), out=e)",
        "torch.mm(x, x.t(), out=z)",
        "torch.exp(x.t(), out=e)",
        "F.linear(x, x, out=e)",
        "x.clamp_(0)",
        "x.masked_fill_(x > 0, 0)",
        "x.sub_(y).div_(y)",
        "x.normal_()",
        "x.index_fill_(0, i, 2.0)",
        "x.scatter_(0, j, 1.0)",
    ):
        index = {"i": Spec((1,), "int64"), "j": Spec((1, 3), "int64"), "e": Spec((0,))}
        yield (
            text,
            {
                "x": MATRIX,
                "y": ROW,
                "z": MATRIX,
                **{k: v for k, v in index.items() if f" {k}," in text or f"={k})" in text},
            },
        )


def reductions() -> Iterator[Sample]:
    """Reductions over dimensions and element types, what goes along a dimension, and losses."""
    for name in REDUCTIONS.split():
        for spec in (CUBE, SCALAR, TURNED, *(typed(MATRIX, dtype) for dtype in ("int64", "bool", "float16", "uint8"))):
            yield f"torch.{name}(x)", {"x": spec}
            for dim in ("0", "-1", "1", "(0, 1)", "[0]", "()") if spec == CUBE else ("0", "(0, -1)"):
                yield f"torch.{name}(x, dim={dim})", {"x": spec}
                yield f"torch.{name}(x, dim={dim}, keepdim=True)", {"x": spec}
                yield f"x.{name}({dim})", {"x": spec}
                yield f"x.{name}({dim}, keepdim=True)", {"x": spec}
        yield f"x.{name}(1, True)", {"x": MATRIX}
        yield f"x.{name}(axis=1, keepdims=True)", {"x": MATRIX}
    for name in ("max", "min"):
        yield f"torch.{name}(x, y)", {"x": MATRIX, "y": ROW}
        yield f"x.{name}(dim=1).values", {"x": MATRIX}
        yield f"x.{name}(1)[1]", {"x": MATRIX}
    for name in ALONG.split():
        for spec in (MATRIX, CUBE, TURNED, typed(MATRIX, "int64"), typed(MATRIX, "bool"), typed(MATRIX, "bfloat16")):
            yield f"torch.{name}(x, dim=1)", {"x": spec}
            yield f"torch.{name}(x, -1)", {"x": spec}
            yield f"x.{name}(0)", {"x": spec}
    for text in (
        "x.prod()",
        "x.prod(1)",
        "x.prod(1, keepdim=True)",
        "x.sum(dtype=torch.float64)",
        "x.mean(1, dtype=torch.float64)",
        "x.count_nonzero()",
        "x.count_nonzero(1)",
        "torch.aminmax(x)",
        "torch.aminmax(x, dim=1)",
        "x.topk(2)",
        "torch.topk(x, k=1, dim=0)",
        "x.topk(2, -1, largest=False)",
        "x.kthvalue(1)",
        "x.kthvalue(2, 1, True)",
        "x.mode()",
        "x.mode(0, True)",
        "torch.quantile(x, 0.5)",
        "torch.quantile(x, 0.5, dim=1, keepdim=True)",
        "torch.nanquantile(x, 0.5, 1)",
        "torch.trace(x)",
        "torch.histc(x, 10)",
        "x.std(1, unbiased=False)",
        "x.var(unbiased=False)",
        "x.std(False)",
        "x.var(1, False)",
        "x.var(dim=1, correction=0, keepdim=True)",
        "x.norm(2)",
        "x.norm(2, 1)",
        "x.norm(p=1, dim=(0, 1), keepdim=True)",
        "torch.linalg.norm(x)",
        "torch.linalg.norm(x, dim=1)",
        "torch.linalg.vector_norm(x, 2, 1)",
        "torch.msort(x)",
        "x.argsort(descending=True)",
        "torch.searchsorted(y, x)",
        "torch.searchsorted(y, x, out_int32=True)",
        "torch.bucketize(x, y)",
        "x.logsumexp(1)",
        "x.sort(descending=True)[0]",
        "torch.cosine_similarity(x, x)",
        "F.cosine_similarity(x, x, dim=0)",
        "F.pairwise_distance(x, x)",
        "F.pairwise_distance(x, x, keepdim=True)",
        "torch.cdist(x, x)",
        "torch.unique_consecutive(x)",
        "torch.bincount(x.flatten().long())",
        "torch.argwhere(x)",
        "F.max_pool1d_with_indices(x, 2)",
        "torch.dist(x, x)",
    ):
        yield text, {"x": Spec((2, 3)), "y": ROW}
    for name in (
        "mse_loss l1_loss smooth_l1_loss huber_loss kl_div soft_margin_loss poisson_nll_loss hinge_embedding_loss "
        "binary_cross_entropy_with_logits cross_entropy"
    ).split():
        for reduction in ("", ", reduction='sum'", ", reduction='none'"):
            yield f"F.{name}(x, y{reduction})", {"x": MATRIX, "y": MATRIX}
    for reduction in ("mean", "none"):
        more = f"reduction='{reduction}'"
        labels = {"x": Spec((4, 5)), "y": Spec((4,), "int64")}
        yield f"F.cross_entropy(x, y, {more})", labels
        yield f"F.nll_loss(x, y, {more})", labels
        yield f"F.multi_margin_loss(x, y, {more})", labels
        yield f"F.cross_entropy(x, y, {more})", {"x": Spec((2, 5, 3, 3)), "y": Spec((2, 3, 3), "int64")}
        yield f"F.triplet_margin_loss(x, x, y, {more})", {"x": MATRIX, "y": MATRIX}
        yield f"F.cosine_embedding_loss(x, x, y, {more})", {"x": MATRIX, "y": Spec((2,))}
        yield f"F.margin_ranking_loss(x, x, y, {more})", {"x": ROW, "y": ROW}


def contractions() -> Iterator[Sample]:
    """Products, convolutions, windows, attention and solvers."""
    a, b, v = Spec((4, 5)), Spec((5, 6)), Spec((5,))
    batch, other = Spec((3, 4, 5)), Spec((3, 5, 6))
    square = Spec((3, 3))
    for text, given in (
        ("torch.matmul(a, b)", {"a": a, "b": b}),
        ("a @ b", {"a": batch, "b": b}),
        ("a @ b", {"a": a, "b": v}),
        ("a @ b.t()", {"a": a, "b": a}),
        ("a.t() @ b", {"a": Spec((5, 4)), "b": b}),
        ("a @ b", {"a": v, "b": b}),
        ("a @ b", {"a": v, "b": v}),
        ("a @ b", {"a": Spec((2, 1, 4, 5)), "b": other}),
        ("torch.mm(a, b)", {"a": a, "b": b}),
        ("torch.bmm(a, b)", {"a": batch, "b": other}),
        ("a.mm(b)", {"a": Spec((4, 5), "float16"), "b": Spec((5, 6), "float16")}),
        ("torch.mv(a, b)", {"a": a, "b": v}),
        ("torch.dot(a, b)", {"a": v, "b": v}),
        ("torch.vdot(a, b)", {"a": v, "b": v}),
        ("torch.inner(a, b)", {"a": a, "b": Spec((6, 5))}),
        ("torch.outer(a, b)", {"a": v, "b": ROW}),
        ("torch.ger(a, b)", {"a": v, "b": ROW}),
        ("torch.kron(a, b)", {"a": a, "b": b}),
        ("torch.addmm(c, a, b)", {"a": a, "b": b, "c": Spec((6,))}),
        ("torch.addmm(c, a, b, beta=0.5, alpha=2)", {"a": a, "b": b, "c": Spec((4, 6))}),
        ("torch.baddbmm(c, a, b)", {"a": batch, "b": other, "c": Spec((1, 4, 6))}),
        ("torch.addbmm(c, a, b)", {"a": batch, "b": other, "c": Spec((4, 6))}),
        ("torch.addmv(c, a, b)", {"a": a, "b": v, "c": Spec((4,))}),
        ("torch.addr(c, a, b)", {"a": v, "b": ROW, "c": Spec(())}),
        ("torch.addr(c, a, b, beta=0.5)", {"a": v, "b": ROW, "c": ROW}),
        ("torch.tensordot(a, b, 1)", {"a": a, "b": b}),
        ("torch.tensordot(a, b, dims=([1], [0]))", {"a": a, "b": b}),
        ("torch.chain_matmul(a, b)", {"a": a, "b": b}),
        ("torch.linalg.multi_dot([a, b])", {"a": a, "b": b}),
        ("torch.einsum('ij,jk->ik', a, b)", {"a": a, "b": b}),
        ("torch.einsum('ij,jk', a, b)", {"a": a, "b": b}),
        ("torch.einsum('bij,bjk->bik', [a, b])", {"a": batch, "b": other}),
        ("torch.einsum('...ij,...jk->...ik', a, b)", {"a": batch, "b": other}),
        ("torch.einsum('bij->b', a)", {"a": batch}),
        ("torch.einsum('i,j->ij', a, b)", {"a": v, "b": ROW}),
        ("F.linear(a, b)", {"a": batch, "b": Spec((7, 5))}),
        ("F.linear(a, b, c)", {"a": v, "b": Spec((7, 5)), "c": Spec((7,))}),
        ("F.bilinear(a, b, c)", {"a": a, "b": Spec((4, 6)), "c": Spec((7, 5, 6))}),
        ("torch._int_mm(a, b)", {"a": Spec((32, 32), "int8"), "b": Spec((32, 32), "int8")}),
        ("F.scaled_dot_product_attention(a, b, b)", {"a": Spec((2, 3, 4, 8)), "b": Spec((2, 3, 6, 8))}),
        (
            "F.scaled_dot_product_attention(a, b, c, is_causal=True)",
            {"a": Spec((2, 3, 4, 8)), "b": Spec((2, 3, 4, 8)), "c": Spec((2, 3, 4, 5))},
        ),
        ("torch.linalg.solve(a, b)", {"a": square, "b": Spec((3, 2))}),
        ("torch.linalg.solve(a, b)", {"a": square, "b": ROW}),
        ("torch.linalg.solve_triangular(a, b, upper=False)", {"a": square, "b": Spec((3, 2))}),
        ("torch.cholesky_solve(b, a)", {"a": square, "b": Spec((3, 2))}),
        ("torch.linalg.inv(a)", {"a": square}),
        ("torch.inverse(a)", {"a": square}),
        ("torch.linalg.cholesky(a)", {"a": square}),
        ("torch.det(a)", {"a": square}),
        ("torch.cholesky_inverse(a)", {"a": square}),
        ("torch.linalg.inv_ex(a)", {"a": square}),
        ("torch.linalg.cholesky_ex(a)", {"a": square}),
        ("torch.logdet(a)", {"a": square}),
        ("torch.slogdet(a)", {"a": square}),
        ("torch.pinverse(a)", {"a": a}),
        ("torch.linalg.eigh(a)", {"a": square}),
        ("torch.linalg.qr(a)", {"a": a}),
        ("torch.matrix_power(a, 2)", {"a": square}),
        ("torch.matrix_exp(a)", {"a": square}),
        ("torch.linalg.pinv(a)", {"a": a}),
        ("F.embedding(i, w)", {"i": Spec((2, 3), "int64"), "w": Spec((10, 4))}),
        ("F.embedding_bag(i, w)", {"i": Spec((2, 3), "int64"), "w": Spec((10, 4))}),
        ("F.grid_sample(x, g, align_corners=False)", {"x": IMAGE, "g": Spec((2, 5, 6, 2))}),
        ("F.affine_grid(t, [2, 3, 4, 5], align_corners=False)", {"t": Spec((2, 2, 3))}),
    ):
        yield text, given
    for rank in (1, 2, 3):
        space = (9, 10, 11)[:rank]
        x, w = Spec((2, 4, *space)), Spec((6, 2, *(3, 2, 3)[:rank]))
        for more in (
            "",
            ", stride=2",
            ", padding=1, dilation=2",
            ", padding='same'",
            ", padding='valid'",
            f", stride={(2, 1, 3)[:rank]}",
        ):
            yield f"F.conv{rank}d(x, w, groups=2{more})", {"x": x, "w": w}
            yield f"torch.conv{rank}d(x, w, None, 1, 1, 1, 2)", {"x": Spec((4, *space)), "w": w}
        turned = Spec((4, 3, *(3, 2, 3)[:rank]))
        for more in ("", ", stride=2, output_padding=1", ", padding=1, dilation=2", ", groups=2"):
            yield f"F.conv_transpose{rank}d(x, w{more})", {"x": x, "w": turned}
        of, ones = Spec((2, 6, *space)), f"[1] * {rank}"
        same = Spec((6, 4, *(3,) * rank))
        rest = f"{ones}, {ones}, {ones}, False, [0] * {rank}, 1, [True, True, True]"
        yield f"torch.ops.aten.convolution_backward(g, x, w, [6], {rest})", {"g": of, "x": x, "w": same}
        for name in ("max", "avg"):
            for more in ("2", "3, 2", "3, stride=2, padding=1", "2, ceil_mode=True", "3, 2, 1, ceil_mode=True"):
                yield f"F.{name}_pool{rank}d(x, {more})", {"x": x}
        yield f"F.max_pool{rank}d(x, 2, 1, 0, 2)", {"x": x}
        yield f"F.max_pool{rank}d_with_indices(x, 2)", {"x": x}
        yield f"F.max_pool{rank}d(x, 2, return_indices=True)", {"x": x}
        yield f"F.lp_pool{rank}d(x, 2, 3, stride=2)", {"x": x}
        for size in ("1", "5", f"{(5, 4, 3)[:rank]}", f"{(None, 4, 3)[:rank]}"):
            yield f"F.adaptive_avg_pool{rank}d(x, {size})", {"x": x}
            yield f"F.adaptive_max_pool{rank}d(x, {size})", {"x": x}
        yield "F.interpolate(x, scale_factor=2)", {"x": x}
        yield "F.interpolate(x, scale_factor=1.7)", {"x": x}
        yield f"F.interpolate(x, size={(5, 4, 3)[:rank]})", {"x": x}
        yield "F.interpolate(x, 7)", {"x": x}
        yield "F.instance_norm(x)", {"x": x}
        yield f"F.dropout{rank}d(x, training=False)", {"x": x}
        yield f"F.pad(x, {(1, 2) * rank})", {"x": x}
        yield "F.pad(x, (1, -1), value=2.0)", {"x": x}
        yield f"F.pad(x, {(1, 1) * rank}, mode='reflect')", {"x": x}
        yield (
            "F.batch_norm(x, m, v, w, b)",
            {"x": x, "m": Spec((4,)), "v": Spec((4,)), "w": Spec((4,)), "b": Spec((4,))},
        )
        yield "F.group_norm(x, 2, w, b)", {"x": x, "w": Spec((4,)), "b": Spec((4,))}
        yield f"F.layer_norm(x, {space[-1:]})", {"x": x}
        yield f"F.rms_norm(x, {space[-1:]})", {"x": x}
        yield "F.local_response_norm(x, 2)", {"x": x}
    for text in (
        "F.unfold(x, 3)",
        "F.unfold(x, (2, 3), padding=1, stride=2)",
        "F.unfold(x, 3, dilation=2)",
        "F.pixel_shuffle(x, 2)",
        "F.pixel_unshuffle(F.pad(x, (0, 0, 0, 1)), 2)",
        "F.channel_shuffle(x, 2)",
        "F.upsample(x, scale_factor=2)",
    ):
        yield text, {"x": IMAGE}
    yield "F.fold(x, (5, 6), (2, 2))", {"x": Spec((2, 12, 20))}


def rearranging() -> Iterator[Sample]:
    """Joining, picking, padding, repeating; tensors made of sizes."""
    for text, given in (
        ("torch.cat([x, x])", {"x": MATRIX}),
        ("torch.cat((x, y), dim=-1)", {"x": MATRIX, "y": Spec((2, 5), "int64")}),
        ("torch.cat([x, y], 1)", {"x": MATRIX, "y": Spec((0,))}),
        ("torch.concat([x, x], axis=1)", {"x": CUBE}),
        ("torch.concatenate([x, x], 0)", {"x": CUBE}),
        ("torch.stack([x, x])", {"x": MATRIX}),
        ("torch.stack([x, x, x], dim=-1)", {"x": MATRIX}),
        ("torch.stack([x, x], 1)", {"x": MATRIX}),
        *[
            (f"torch.{name}([x, x])", {"x": spec})
            for name in ("hstack", "vstack", "dstack", "column_stack", "row_stack")
            for spec in (SCALAR, ROW, MATRIX, CUBE)
        ],
        ("x.repeat(2, 3)", {"x": ROW}),
        ("x.repeat((2, 1, 3))", {"x": MATRIX}),
        ("x.tile(2)", {"x": MATRIX}),
        ("torch.tile(x, (2, 2, 2))", {"x": MATRIX}),
        ("x.repeat_interleave(2)", {"x": MATRIX}),
        ("torch.repeat_interleave(x, 3, dim=1)", {"x": MATRIX}),
        ("torch.repeat_interleave(x, torch.tensor([1, 0, 2]), output_size=3)", {"x": Spec((3,))}),
        ("x.gather(1, i)", {"x": MATRIX, "i": Spec((2, 5), "int64")}),
        ("torch.take(x, i)", {"x": MATRIX, "i": Spec((4,), "int64")}),
        ("torch.take_along_dim(x, i, 1)", {"x": MATRIX, "i": Spec((2, 2), "int64")}),
        ("x.index_select(1, i)", {"x": CUBE, "i": Spec((5,), "int64")}),
        ("x.scatter(1, i, 1.0)", {"x": MATRIX, "i": Spec((2, 1), "int64")}),
        ("x.scatter_add(1, i, y)", {"x": MATRIX, "i": Spec((2, 2), "int64"), "y": Spec((2, 2))}),
        ("x.scatter_reduce(1, i, y, 'sum')", {"x": MATRIX, "i": Spec((2, 2), "int64"), "y": Spec((2, 2))}),
        ("x.index_add(0, i, y)", {"x": MATRIX, "i": Spec((1,), "int64"), "y": Spec((1, 3))}),
        ("x.index_copy(0, i, y)", {"x": MATRIX, "i": Spec((1,), "int64"), "y": Spec((1, 3))}),
        ("x.index_fill(0, i, 2.0)", {"x": MATRIX, "i": Spec((1,), "int64")}),
        ("x.index_put((i,), y)", {"x": MATRIX, "i": Spec((1,), "int64"), "y": Spec((1, 3))}),
        ("x.masked_scatter(x > 0, x)", {"x": MATRIX}),
        ("x.put(i, y)", {"x": MATRIX, "i": Spec((1,), "int64"), "y": Spec((1,))}),
        ("F.glu(x)", {"x": Spec((2, 6))}),
        ("F.glu(x, 0)", {"x": MATRIX}),
        ("F.one_hot(i, 5)", {"i": Spec((2, 3), "int64")}),
        ("torch.multinomial(x, 2)", {"x": MATRIX}),
        ("torch.diag(x)", {"x": ROW}),
        ("torch.diag(x, 1)", {"x": Spec((3, 4))}),
        ("torch.diag(x, -1)", {"x": Spec((3, 4))}),
        ("torch.diag_embed(x)", {"x": MATRIX}),
        ("torch.meshgrid(x, y, indexing='ij')", {"x": ROW, "y": Spec((4,))}),
        ("torch.meshgrid([x, y], indexing='xy')", {"x": ROW, "y": Spec((4,))}),
        ("torch.broadcast_tensors(x, y)", {"x": MATRIX, "y": ROW}),
        ("torch.cartesian_prod(x, y)", {"x": ROW, "y": Spec((4,))}),
        ("torch.rot90(x)", {"x": MATRIX}),
        ("torch.rot90(x, 2, [0, 1])", {"x": MATRIX}),
        ("torch.cross(x, x, dim=1)", {"x": MATRIX}),
        ("torch.diff(x)", {"x": MATRIX}),
        ("torch.diff(x, 2, 0)", {"x": Spec((5, 2))}),
        ("torch.complex(x, x)", {"x": MATRIX}),
        ("torch.polar(x, x)", {"x": MATRIX}),
        ("x.to(torch.float16)", {"x": TURNED}),
        ("x.half()", {"x": MATRIX}),
        ("x.float()", {"x": MATRIX}),
        ("x.contiguous()", {"x": TURNED}),
        ("x.contiguous()", {"x": MATRIX}),
        ("x.long()", {"x": MATRIX}),
        ("torch.tril(x, diagonal=-1)", {"x": MATRIX}),
        ("x.new_zeros(2, 3)", {"x": ROW}),
        ("x.new_empty((4,), dtype=torch.int32)", {"x": ROW}),
        ("x.new_full((2,), 3)", {"x": typed(ROW, "int64")}),
        ("torch.full_like(x, 2)", {"x": TURNED}),
        ("torch.randn_like(x)", {"x": PERMUTED}),
        ("torch.empty_like(x, dtype=torch.int8)", {"x": CHANNELS_LAST}),
    ):
        yield text, given
    for text in (
        "torch.zeros(2, 3)",
        "torch.ones((2, 3), dtype=torch.float16)",
        "torch.empty(size=(4,))",
        "torch.full((2, 3), 1.5)",
        "torch.full((2,), 7)",
        "torch.full((2,), True)",
        "torch.arange(5)",
        "torch.arange(1, 10, 3)",
        "torch.arange(0.0, 1.0, 0.25)",
        "torch.arange(5, dtype=torch.float32)",
        "torch.linspace(0, 1, 7)",
        "torch.linspace(0, 1, steps=7)",
        "torch.eye(3)",
        "torch.eye(2, 4)",
        "torch.randint(0, 10, (2, 3))",
        "torch.randint(10, (4,))",
        "torch.randperm(6)",
        "torch.rand(2, 3)",
        "torch.randn((2, 3))",
        "torch.tensor([1, 2, 3])",
        "torch.tensor([[1.0], [2.0]])",
        "torch.tensor(2.5)",
        "torch.tensor([True])",
        "torch.empty_strided((2, 3), (1, 2))",
        "torch.logspace(0, 1, 5)",
        "torch.arange(end=4)",
        "torch.arange(10, 0, -2)",
        "torch.tril_indices(3, 3)",
        "torch.hann_window(8)",
    ):
        yield text, {}


def views() -> Iterator[Sample]:
    """Views and indices, of tensors that lie in memory in different ways."""
    texts = (
        "x.view(-1)",
        "x.view(3, 2)",
        "x.view(1, *x.shape)",
        "x.reshape(-1)",
        "x.reshape(3, -1)",
        "x.reshape((2, 3))",
        "x.flatten()",
        "x.flatten(1)",
        "torch.flatten(x, 0, 1)",
        "x.ravel()",
        "x.t()",
        "x.T",
        "x.mT",
        "x.transpose(0, 1)",
        "x.transpose(-1, -2)",
        "torch.transpose(x, 0, -1)",
        "x.swapaxes(0, 1)",
        "torch.swapdims(x, 0, 1)",
        "x.permute(1, 0)",
        "x.permute((2, 0, 1))",
        "torch.permute(x, (-1, 0, 1))",
        "x.movedim(0, -1)",
        "x.movedim((0, 1), (1, 0))",
        "torch.moveaxis(x, 1, 0)",
        "x.squeeze()",
        "x.squeeze(0)",
        "x.squeeze((0, 1))",
        "x.unsqueeze(0)",
        "x.unsqueeze(-1)",
        "x.unsqueeze(-2)",
        "x.expand(4, *x.shape)",
        "x.expand(-1, -1)",
        "x.broadcast_to((5, *x.shape))",
        "x.expand_as(x)",
        "x.narrow(0, 0, 1)",
        "x.narrow(dim=1, start=1, length=2)",
        "x.select(0, 1)",
        "x.select(1, -1)",
        "x.detach()",
        "x.unflatten(0, (1, 2))",
        "x.unflatten(-1, (-1, 1))",
        "x.view_as(x)",
        "x.reshape_as(x)",
        "x.unbind()",
        "x.unbind(1)",
        "x.chunk(2)",
        "x.chunk(2, 1)",
        "x.split(1)",
        "x.split(2, dim=1)",
        "x.split([1, 2], 1)",
        "x.tensor_split(2, 1)",
        "x.split_with_sizes([1, 1])",
        "x.unfold(0, 2, 1)",
        "x.unfold(1, 2, 1)",
        "x.diagonal()",
        "torch.diagonal(x, 1)",
        "x.diagonal(0, 0, 1)",
        "torch.hsplit(x, 3)",
        "torch.vsplit(x, 2)",
        "torch.atleast_2d(x)",
        "torch.atleast_3d(x)",
        "x.as_strided((2, 2), (1, 2))",
        "x.as_strided((2,), (1,), 1)",
        "x[0]",
        "x[-1]",
        "x[:1]",
        "x[:, 1]",
        "x[:, 1:]",
        "x[..., 0]",
        "x[None]",
        "x[:, None]",
        "x[..., None]",
        "x[0, 1]",
        "x[::2]",
        "x[1:5]",
        "x[:, ::2]",
        "x[x > 0]",
        "x[[0, 1]]",
        "x[torch.tensor([0, 1, 0])]",
        "x[[0, 1], [1, 2]]",
        "x[:, [0, 2]]",
        "x[torch.tensor([[0], [1]]), torch.tensor([0, 2])]",
        "x[..., torch.tensor([0, 1])]",
        "x[True]",
        "x[None, ..., 0]",
        "x.view(torch.int32)",
        "x.view(torch.float16)",
        "x.adjoint()",
        "x.swapdims(0, 1)",
        "x.squeeze(-1)",
        "list(x)",
        "x.view(x.size(0), -1)",
        "x.real",
        "x.data",
        "x.nonzero()",
        "x.masked_select(x > 0)",
        "torch.unique(x)",
        "x.unsqueeze(0).expand(3, *x.shape).reshape(-1)",
        "x.transpose(0, 1).contiguous().view(-1)",
        "x.permute(*range(x.dim() - 1, -1, -1)) + 1",
        "x.clone()",
        "x.transpose(0, 1).clone()",
        "x[0] + x[1]",
        "x[:, 1:] * 2",
        "x.t_()",
        "x.unsqueeze_(0)",
        "x.squeeze_()",
        "x.transpose_(0, 1)",
    )
    for text in texts:
        for spec in (MATRIX, TURNED, EVERY_OTHER, SPREAD, CUBE, PERMUTED, ROW, Spec((1, 3, 1)), SCALAR):
            yield text, {"x": spec}
    for text in (
        "x[0, ..., 1]",
        "x[:, 0]",
        "x[:, :, 1]",
        "x[0, :, torch.tensor([1, 0])]",
        "x[:, torch.tensor([0, 1]), 0]",
        "x[:, [0], :, [1]]",
    ):
        yield text, {"x": IMAGE}


LAYERS: tuple[tuple[str, Spec], ...] = tuple(
    (text, spec)
    for spec, texts in {
        IMAGE: (
            "Conv2d(4, 6, 3)",
            "Conv2d(4, 6, (3, 2), stride=2, padding=1, bias=False)",
            "Conv2d(4, 8, 3, groups=4, padding='same')",
            "Conv2d(4, 6, 3, padding=1, padding_mode='circular')",
            "ConvTranspose2d(4, 6, 3)",
            "ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1)",
            "ConvTranspose2d(4, 6, 3, groups=2, dilation=2)",
            "BatchNorm2d(4)",
            "BatchNorm2d(4, affine=False)",
            "BatchNorm2d(4, track_running_stats=False)",
            "InstanceNorm2d(4)",
            "InstanceNorm2d(4, affine=True, track_running_stats=True)",
            "GroupNorm(2, 4)",
            "GroupNorm(2, 4, affine=False)",
            "LayerNorm((9, 10))",
            "LayerNorm(10, elementwise_affine=False)",
            "LayerNorm([10], bias=False)",
            "RMSNorm(10)",
            "LocalResponseNorm(2)",
            "MaxPool2d(2)",
            "MaxPool2d(3, 2, 1)",
            "MaxPool2d(2, return_indices=True)",
            "MaxPool2d(3, stride=2, ceil_mode=True)",
            "AvgPool2d(2)",
            "AvgPool2d((2, 3), stride=1, padding=1)",
            "LPPool2d(2, 3)",
            "AdaptiveAvgPool2d(1)",
            "AdaptiveAvgPool2d((3, None))",
            "AdaptiveMaxPool2d(4)",
            "ZeroPad2d(1)",
            "ZeroPad2d((1, 2, 3, 4))",
            "ConstantPad2d(1, 2.0)",
            "ReflectionPad2d(2)",
            "ReplicationPad2d((1, 1, 2, 2))",
            "CircularPad2d(1)",
            "Dropout2d()",
            "Flatten()",
            "Flatten(2)",
            "Flatten(0, 1)",
            "Unflatten(1, (2, 2))",
            "Unfold(3, padding=1)",
            "PixelShuffle(2)",
            "ChannelShuffle(2)",
            "Upsample(scale_factor=2)",
            "Upsample(size=(4, 5), mode='bilinear')",
            "UpsamplingNearest2d(scale_factor=2)",
            "UpsamplingBilinear2d(size=(3, 3))",
            "Softmax2d()",
            "Identity()",
            "PReLU()",
            "PReLU(4)",
            "Sequential(torch.nn.Conv2d(4, 2, 1), torch.nn.BatchNorm2d(2), torch.nn.ReLU())",
            "SyncBatchNorm(4)",
        ),
        MATRIX: (
            "Linear(3, 5)",
            "Linear(in_features=3, out_features=5, bias=False)",
            "Softmax(dim=1)",
            "Softmax(-1)",
            "LogSoftmax(1)",
            "Softmin(0)",
            "Sigmoid()",
            "Tanh()",
            "LogSigmoid()",
            "Softsign()",
            "Tanhshrink()",
            "ReLU()",
            "ReLU(inplace=True)",
            "ReLU6()",
            "SiLU()",
            "Mish()",
            "SELU()",
            "Hardswish()",
            "Hardsigmoid()",
            "ELU()",
            "CELU(0.5)",
            "LeakyReLU(0.1)",
            "GELU()",
            "GELU(approximate='tanh')",
            "Hardtanh()",
            "Hardtanh(min_val=0, max_val=6)",
            "Hardshrink()",
            "Softshrink(0.2)",
            "Softplus()",
            "Threshold(0.1, 20)",
            "RReLU()",
            "Dropout(0.1)",
            "AlphaDropout()",
            "FeatureAlphaDropout()",
            "BatchNorm1d(3)",
            "LayerNorm(3)",
            "RMSNorm((3,), elementwise_affine=False)",
            "RNNCell(3, 5)",
            "GRUCell(3, 5)",
            "LSTMCell(3, 5)",
            "GLU(0)",
        ),
        CUBE: (
            "Conv1d(3, 5, 2)",
            "Conv1d(3, 6, 3, padding=1, groups=3)",
            "ConvTranspose1d(3, 5, 2, stride=2)",
            "MaxPool1d(2)",
            "AvgPool1d(2, 1)",
            "LPPool1d(1, 2)",
            "AdaptiveAvgPool1d(3)",
            "AdaptiveMaxPool1d(1)",
            "InstanceNorm1d(3)",
            "BatchNorm1d(3)",
            "Linear(4, 7)",
            "ConstantPad1d(2, 0.5)",
            "ZeroPad1d(1)",
            "ReflectionPad1d(1)",
            "ReplicationPad1d(2)",
            "CircularPad1d(1)",
            "Dropout1d()",
            "LSTM(4, 5)",
            "LSTM(4, 5, 2, batch_first=True, bidirectional=True)",
            "LSTM(4, 6, proj_size=3)",
            "GRU(4, 5)",
            "GRU(4, 5, num_layers=2, bias=False)",
            "RNN(4, 5)",
            "RNN(4, 5, nonlinearity='relu', batch_first=True)",
            "TransformerEncoderLayer(4, 2, 8)",
            "TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True)",
            "TransformerEncoder(torch.nn.TransformerEncoderLayer(4, 2, 8), 2)",
        ),
        Spec((2, 3, 4, 5, 6)): (
            "Conv3d(3, 4, 2)",
            "Conv3d(3, 4, (1, 2, 3), padding=(0, 1, 1))",
            "ConvTranspose3d(3, 4, 3, stride=2)",
            "MaxPool3d(2)",
            "AvgPool3d(2)",
            "BatchNorm3d(3)",
            "InstanceNorm3d(3)",
            "AdaptiveAvgPool3d((1, 2, 3))",
            "AdaptiveMaxPool3d(2)",
            "ConstantPad3d(1, 0.0)",
            "ReplicationPad3d(1)",
            "ReflectionPad3d(1)",
            "ZeroPad3d(1)",
            "CircularPad3d(1)",
            "Dropout3d()",
            "LPPool3d(2, 2)",
        ),
        Spec((2, 3), "int64"): ("Embedding(10, 4)", "EmbeddingBag(10, 4)"),
        Spec((2, 12, 20)): ("Fold((5, 6), 2)",),
        Spec((1, 4, 4, 6)): ("PixelUnshuffle(2)",),
    }.items()
    for text in texts
)
PAIRS = (
    "CosineSimilarity()",
    "CosineSimilarity(dim=0)",
    "PairwiseDistance()",
    "PairwiseDistance(keepdim=True)",
    "MSELoss()",
    "MSELoss(reduction='none')",
    "L1Loss()",
    "SmoothL1Loss()",
    "HuberLoss()",
    "HuberLoss(reduction='sum')",
    "KLDivLoss(reduction='batchmean')",
    "BCELoss()",
    "BCEWithLogitsLoss()",
    "CrossEntropyLoss()",
    "CrossEntropyLoss(reduction='none')",
    "SoftMarginLoss()",
    "HingeEmbeddingLoss()",
)


def samples() -> Iterator[Sample]:
    """All calls of operations, each once."""
    seen: set[tuple[str, tuple[tuple[str, Spec], ...]]] = set()
    for part in (elementwise, reductions, contractions, rearranging, views):
        for text, given in part():
            key = (text, tuple(given.items()))
            if key not in seen:
                seen.add(key)
                yield text, given


def layers() -> Iterator[Sample]:
    """All layers and what they are called with."""
    for text, spec in LAYERS:
        yield f"torch.nn.{text}", {"x": spec}
    for text in PAIRS:
        yield f"torch.nn.{text}", {"x": MATRIX, "y": MATRIX}
    yield "torch.nn.Bilinear(3, 4, 5)", {"x": MATRIX, "y": Spec((2, 4))}
    yield "torch.nn.NLLLoss()", {"x": MATRIX, "y": Spec((2,), "int64")}
    yield "torch.nn.TripletMarginLoss()", {"x": MATRIX, "y": MATRIX, "z": MATRIX}
    yield "torch.nn.MarginRankingLoss()", {"x": ROW, "y": ROW, "z": ROW}
    yield "torch.nn.CosineEmbeddingLoss()", {"x": MATRIX, "y": MATRIX, "z": Spec((2,))}
    for text in (
        "MultiheadAttention(8, 2)",
        "MultiheadAttention(8, 2, batch_first=True, bias=False)",
        "MultiheadAttention(8, 4, kdim=6, vdim=6)",
    ):
        other = Spec((7, 3, 6)) if "kdim" in text else Spec((7, 3, 8))
        first = Spec((3, 5, 8)) if "batch_first" in text else Spec((5, 3, 8))
        other = Spec((3, 7, 8)) if "batch_first" in text else other
        yield f"torch.nn.{text}", {"x": first, "y": other, "z": other}
    yield "torch.nn.TransformerDecoderLayer(4, 2, 8)", {"x": CUBE, "y": Spec((5, 3, 4))}
