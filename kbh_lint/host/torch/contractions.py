"""Operations that multiply and sum: matrix products, convolutions, solvers, attention; and windows over images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kbh_lint.base.dtypes import UNKNOWN
from kbh_lint.host.torch.signatures import NOTHING, Called, Made, Rule, Shape, Table, each
from kbh_lint.host.values.tensors import Tensor, broadcast, product

_RANK = re.compile(r"(\d)d")


def matmul_shape(a: Shape, b: Shape) -> Shape:
    """The shape of `a @ b`."""
    if not a or not b:
        return None
    if len(a) == 1 and len(b) == 1:
        return ()
    if len(b) == 1:
        return a[:-1]
    if len(a) == 1:
        return (*b[:-2], b[-1])
    batch = broadcast([a[:-2], b[:-2]])
    return (*batch, a[-2], b[-1]) if batch is not None else None


def _product(called: Called) -> Made:
    """Of the two tensors that are called `input` and `other`."""
    return matmul_shape(called.shape(), called.shape("other")), called.dtype


def _added_product(called: Called) -> Made:
    shape = matmul_shape(called.shape("one"), called.shape("two"))
    if called.name == "addbmm" and shape is not None:
        shape = shape[1:]
    return shape, called.dtype


def _linear(called: Called) -> Made:
    a, b = called.shape(), called.shape("weight")
    if not a or not b:
        return None, called.dtype
    return (*a[:-1], b[0]) if len(b) == 2 else a[:-1], called.dtype


def _bilinear(called: Called) -> Made:
    a, w = called.shape(), called.shape("weight")
    return ((*a[:-1], w[0]) if a and w else None), called.dtype


def _whole_product(called: Called) -> Made:
    return _product(called)[0], "i32"


def _grouped(called: Called) -> Made:
    """A product for each group of rows or columns, whose ends `offs` holds."""
    a, b, offs = called.shape(), called.shape("other"), called.shape("offs")
    if a is None or b is None or not {len(a), len(b)} <= {2, 3}:
        return None, called.dtype
    out: Shape = (a[-2], b[-1])
    if len(a) == len(b):
        out = (a[0] if len(a) == 3 else offs[0] if offs else None, a[-2], b[-1])
    return out, called.dtype


def _packed(called: Called) -> Made:
    shape = called.shape()
    return ((*shape[:-1], None) if shape else None), called.dtype


def _number(called: Called) -> Made:
    return (), called.dtype


def _inner(called: Called) -> Made:
    a, b = called.shape(), called.shape("other")
    if a is None or b is None:
        return None, called.common
    return ((*a[:-1], *b[:-1]) if a and b else a or b), called.common


def _outer(called: Called) -> Made:
    a, b = called.shape(), called.shape("other")
    return ((*a, *b) if a and b else None), called.common


def _kron(called: Called) -> Made:
    a, b = called.shape(), called.shape("other")
    if a is None or b is None:
        return None, called.common
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(m * n if isinstance(m, int) and isinstance(n, int) else None for m, n in pairs), called.common


def _tensordot(called: Called) -> Made:
    a, b, dims = called.shape(), called.shape("other"), called.given.get("dims")
    if a is None or b is None:
        return None, called.dtype
    if isinstance(dims, int) and 0 <= dims <= min(len(a), len(b)):
        return (*a[: len(a) - dims], *b[dims:]), called.dtype
    if isinstance(dims, (list, tuple)) and len(dims) == 2:
        left, right = (side if isinstance(side, (list, tuple)) else [side] for side in dims)
        if all(isinstance(d, int) for d in (*left, *right)):
            out = [d for i, d in enumerate(a) if i not in {v % len(a) for v in left}]
            return (*out, *(d for i, d in enumerate(b) if i not in {v % len(b) for v in right})), called.dtype
    return None, called.dtype


def _chain(called: Called) -> Made:
    shape = called.inputs[0].shape
    for tensor in called.inputs[1:]:
        shape = matmul_shape(shape, tensor.shape)
    return shape, called.dtype


def _einsum(called: Called) -> Made:
    return einsum_shape(called.given.get("equation"), [tensor.shape for tensor in called.inputs]), called.dtype


def einsum_shape(equation: object, shapes: Sequence[Shape]) -> Shape:
    """The shape of an einsum, with or without output letters and dots."""
    if not isinstance(equation, str):
        return None
    left, arrow, right = str(equation).replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        return None
    sizes: dict[str, Any] = {}
    dots: Shape = ()
    for term, shape in zip(terms, shapes, strict=True):
        before, has_dots, after = term.partition("...")
        extra = len(shape) - len(before) - len(after) if shape is not None else -1
        if shape is None or extra < 0 or (extra and not has_dots):
            return None
        if has_dots:
            dots = broadcast([dots, shape[len(before) : len(before) + extra]])
        for letter, size in zip(before + after, (*shape[: len(before)], *shape[len(before) + extra :]), strict=True):
            if sizes.get(letter, 1) in (1, None):
                sizes[letter] = size
    if dots is None:
        return None
    letters = "".join(term.replace("...", "") for term in terms)
    if not arrow:
        right = "..." + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    before, has_dots, after = right.partition("...")
    if any(letter not in sizes for letter in before + after):
        return None
    return (*(sizes[v] for v in before), *(dots if has_dots else ()), *(sizes[v] for v in after))


def _attention(called: Called) -> Made:
    q, v, k = called.shape("query"), called.shape("value"), called.shape("key")
    if not q or not v or not k or len(q) != len(v):
        return None, called.dtype
    batch = broadcast([q[:-2], k[:-2] if called.given.get("enable_gqa") is not True else (1,)])
    return ((*batch, q[-2], v[-1]) if batch is not None else None), called.dtype


def _solution(called: Called) -> Made:
    """Of `A X = B`, B being the tensor called `other`."""
    return called.shape("other"), called.dtype


def _solved(called: Called) -> Made:
    """solve(A, B): B may be a vector for each matrix, and batches broadcast."""
    a, b = called.shape(), called.shape("other")
    if not a or not b or len(a) < 2:
        return None, called.dtype
    if len(b) == 1 or (len(a) - 1 == len(b) and b == a[:-1]):
        return b, called.dtype
    batch = broadcast([a[:-2], b[:-2]])
    return ((*batch, *b[-2:]) if batch is not None else None), called.dtype


def _inverted(called: Called) -> list[Made]:
    shape = called.shape()
    return [(shape, called.dtype), (shape[:-2] if shape else None, "i32")]


def _determinant(called: Called) -> Made:
    shape = called.shape()
    return (shape[:-2] if shape else None), called.dtype


def _sign_and_log(called: Called) -> list[Made]:
    return [_determinant(called)] * 2


def _transposed_inverse(called: Called) -> Made:
    shape = called.shape()
    return ((*shape[:-2], shape[-1], shape[-2]) if shape and len(shape) > 1 else None), called.dtype


def _eigen(called: Called) -> list[Made]:
    shape = called.shape()
    return [(shape[:-1] if shape else None, called.dtype), (shape, called.dtype)]


def _least(a: object, b: object) -> int | None:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else None


def _qr(called: Called) -> list[Made]:
    shape = called.shape()
    if not shape or len(shape) < 2 or called.given.get("mode") not in ("reduced", None):
        return [(None, called.dtype)] * 2
    k = _least(shape[-2], shape[-1])
    return [((*shape[:-1], k), called.dtype), ((*shape[:-2], k, shape[-1]), called.dtype)]


# --- windows -----------------------------------------------------------------------------------------------


def sizes_of(value: object, rank: int) -> tuple[int | None, ...]:
    """`3` or `(3, 5)` for each of `rank` dimensions; None where it is not known."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(values) == 1:
        values = values * rank
    if len(values) != rank:
        return (None,) * rank
    return tuple(v if isinstance(v, int) and not isinstance(v, bool) else None for v in values)


def _window(
    size: object, kernel: object, stride: object, padding: object, dilation: object, ceil: bool = False
) -> int | None:
    """How many windows fit along one dimension."""
    if not isinstance(size, int) or not isinstance(kernel, int) or not isinstance(stride, int) or stride < 1:
        return None
    if not isinstance(padding, int) or not isinstance(dilation, int):
        return None
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if room < 0:
        return None
    count: int = -(-room // stride) + 1 if ceil else room // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count  # the last begins inside


def _rank_of(name: str) -> int:
    """`max_pool2d` -> 2."""
    found = _RANK.search(name)
    return int(found[1]) if found is not None else 0


def _conv(called: Called) -> Made:
    x, w = called.shape(), called.shape("weight")
    if x is None or w is None:
        return None, called.dtype
    rank = len(w) - 2
    if rank < 1 or len(x) not in (rank + 1, rank + 2):
        return None, called.dtype
    stride, dilation = sizes_of(called.given["stride"], rank), sizes_of(called.given["dilation"], rank)
    space = x[-rank:]
    if called.given["padding"] == "same":
        out: tuple[Any, ...] = space
    else:
        padding = sizes_of(0 if called.given["padding"] == "valid" else called.given["padding"], rank)
        out = tuple(map(_window, space, w[2:], stride, padding, dilation))
    return (*x[: -rank - 1], w[0], *out), called.dtype


def _conv_transposed(called: Called) -> Made:
    x, w, groups = called.shape(), called.shape("weight"), called.number("groups")
    if x is None or w is None:
        return None, called.dtype
    rank = len(w) - 2
    if rank < 1 or len(x) not in (rank + 1, rank + 2):
        return None, called.dtype
    names = ("stride", "padding", "output_padding", "dilation")
    rows = zip(x[-rank:], w[2:], *(sizes_of(called.given[name], rank) for name in names), strict=True)
    out = [
        (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1
        if all(isinstance(v, int) for v in (size, kernel, stride, padding, more, dilation))
        else None
        for size, kernel, stride, padding, more, dilation in rows
    ]
    channels = w[1] * groups if isinstance(w[1], int) and groups is not None else None
    return (*x[: -rank - 1], channels, *out), called.dtype


def _convolution(called: Called) -> Made:
    transposed = called.given["transposed"]
    if not isinstance(transposed, bool):
        return NOTHING
    return _conv_transposed(called) if transposed else _conv(called)


def _pooled(called: Called) -> Made | list[Made]:
    shape, rank = called.shape(), _rank_of(called.name)
    ceil = called.given.get("ceil_mode", False)
    out: Shape = None
    if shape is not None and len(shape) in (rank + 1, rank + 2) and isinstance(ceil, bool):
        kernel = sizes_of(called.given["kernel_size"], rank)
        given = called.given.get("stride")
        stride = kernel if given is None or given == () or given == [] else sizes_of(given, rank)
        padding, dilation = (
            sizes_of(called.given.get("padding", 0), rank),
            sizes_of(called.given.get("dilation", 1), rank),
        )
        out = (*shape[:-rank], *map(_window, shape[-rank:], kernel, stride, padding, dilation, [ceil] * rank))
    first: Made = (out, called.dtype)
    if called.name.endswith("_with_indices") or called.given.get("return_indices") is True:
        return [first, (out, "i64")]
    return first


def _adaptive(called: Called) -> Made | list[Made]:
    shape, rank = called.shape(), _rank_of(called.name)
    out: Shape = None
    if shape is not None and len(shape) in (rank + 1, rank + 2):
        size = called.given["output_size"]
        listed = tuple(size) if isinstance(size, (tuple, list)) else (size,) * rank
        known = [old if new is None else new for new, old in zip(listed, shape[-rank:], strict=False)]
        out = (*shape[:-rank], *sizes_of(known, rank))
    first: Made = (out, called.dtype)
    return [first, (out, "i64")] if called.given.get("return_indices") is True else first


def _resized(called: Called) -> Made:
    shape, size, factor = called.shape(), called.given.get("size"), called.given.get("scale_factor")
    if shape is None or len(shape) < 3:
        return None, called.dtype
    rank = len(shape) - 2
    if size is not None:
        return (*shape[:2], *sizes_of(size, rank)), called.dtype
    factors = tuple(factor) if isinstance(factor, (tuple, list)) else (factor,) * rank
    if len(factors) != rank:
        return None, called.dtype
    out = [
        int(d * f) if isinstance(d, int) and isinstance(f, (int, float)) else None
        for d, f in zip(shape[2:], factors, strict=True)
    ]
    return (*shape[:2], *out), called.dtype


def _columns(called: Called) -> Made:
    """nn.functional.unfold: patches of an image as columns."""
    shape = called.shape()
    if shape is None or len(shape) not in (3, 4):
        return None, called.dtype
    kernel = sizes_of(called.given["kernel_size"], 2)
    rest = (sizes_of(called.given[name], 2) for name in ("stride", "padding", "dilation"))
    count = product(tuple(map(_window, shape[-2:], kernel, *rest)))
    width = product((shape[-3], *kernel))
    return (*shape[:-3], width, count), called.dtype


def _image(called: Called) -> Made:
    """nn.functional.fold, the other way."""
    shape, area = called.shape(), product(sizes_of(called.given["kernel_size"], 2))
    if shape is None or len(shape) not in (2, 3):
        return None, called.dtype
    channels = shape[-2] // area if isinstance(shape[-2], int) and area else None
    return (*shape[:-2], channels, *sizes_of(called.given["output_size"], 2)), called.dtype


def _shuffled(called: Called) -> Made:
    shape, by = called.shape(), called.number("factor")
    if shape is None or len(shape) < 3 or by is None or by < 1 or not all(isinstance(d, int) for d in shape[-3:]):
        return None, called.dtype
    channels, height, width = shape[-3:]
    if called.name == "pixel_unshuffle":
        return (*shape[:-3], channels * by * by, height // by, width // by), called.dtype
    return (*shape[:-3], channels // (by * by), height * by, width * by), called.dtype


def _sampled(called: Called) -> Made:
    shape, grid = called.shape(), called.shape("grid")
    return ((*shape[:2], *grid[1:-1]) if shape and grid else None), called.dtype


def _affine(called: Called) -> Made:
    size = called.given["size"]
    known = isinstance(size, (tuple, list)) and len(size) in (4, 5)
    whole = sizes_of(size, len(size)) if known else ()
    return ((whole[0], *whole[2:], len(whole) - 2) if known else None), called.dtype


def _looked_up(called: Called) -> Made:
    places, weight = called.shape(), called.tensor("weight")
    dtype = weight.dtype if weight is not None else UNKNOWN
    return ((*places, *weight.shape[1:]) if weight is not None and weight.shape and places is not None else None), dtype


def _bagged(called: Called) -> Made:
    places, weight, offsets = called.shape(), called.tensor("weight"), called.given.get("offsets")
    if weight is None or not weight.shape or not places:
        return NOTHING
    bags = (
        offsets.shape[0] if isinstance(offsets, Tensor) and offsets.shape else places[0] if len(places) == 2 else None
    )
    if called.given.get("include_last_offset") is not False:
        bags = None
    return (bags, weight.shape[1]), weight.dtype


_CONV = "input weight bias=None stride=1 padding=0 dilation=1 groups=1"
_WINDOW = "input kernel_size stride=None padding=0"


def _pools() -> Table:
    table: Table = {}
    for rank in (1, 2, 3):
        table |= each(
            f"max_pool{rank}d max_pool{rank}d_with_indices",
            _WINDOW + " dilation=1 ceil_mode=False return_indices=False", _pooled,
        )  # fmt: skip
        table |= each(
            f"avg_pool{rank}d", _WINDOW + " ceil_mode=False count_include_pad=True divisor_override=None", _pooled
        )
        table |= each(f"lp_pool{rank}d", "input norm_type kernel_size stride=None ceil_mode=False", _pooled)
        table |= each(f"adaptive_max_pool{rank}d", "input output_size return_indices=False", _adaptive)
        table |= each(f"adaptive_avg_pool{rank}d", "input output_size", _adaptive)
        table |= each(f"conv{rank}d", _CONV, _conv)
        table |= each(
            f"conv_transpose{rank}d",
            "input weight bias=None stride=1 padding=0 output_padding=0 groups=1 dilation=1", _conv_transposed,
        )  # fmt: skip
    return table


_ADDED: Rule = _added_product
TABLE: Table = {
    **each("matmul __matmul__", "input other", _product),
    **each("mm bmm _scaled_mm scaled_mm", "input other p1=None p2=None p3=None p4=None p5=None p6=None", _product),
    **each("_grouped_mm grouped_mm", "input other offs=None bias=None", _grouped),
    **each("_scaled_grouped_mm scaled_grouped_mm", "input other scale_a scale_b offs=None bias=None scale_result=None "
           "p1=None", _grouped),
    **each("_weight_int4pack_mm _weight_int8pack_mm", "input other p1=None p2=None", _packed),
    **each("mv", "input other", _product),
    **each("dot vdot", "input other", _number),
    **each("_int_mm", "input other", _whole_product),
    **each("inner", "input other", _inner),
    **each("outer ger", "input other", _outer),
    **each("kron", "input other", _kron),
    **each("addmm baddbmm addmv addbmm", "input one two beta=None alpha=None", _ADDED),
    **each("tensordot", "input other dims=2", _tensordot),
    **each("chain_matmul multi_dot", "*tensors", _chain),
    **each("einsum", "equation *operands", _einsum),
    **each("linear", "input weight bias=None", _linear),
    **each("bilinear", "input other weight bias=None", _bilinear),
    **each("scaled_dot_product_attention _scaled_dot_product_attention",
           "query key value attn_mask=None dropout_p=None is_causal=None scale=None enable_gqa=None", _attention),
    **each("solve", "input other left=True", _solved),
    **each("solve_triangular", "input other upper=None left=True unitriangular=None", _solved),
    **each("cholesky_solve", "other input upper=None", _solution),
    **each("inv_ex cholesky_ex", "input", _inverted),
    **each("det logdet", "input", _determinant),
    **each("slogdet", "input", _sign_and_log),
    **each("pinv pinverse", "input rcond=None", _transposed_inverse),
    **each("eigh", "input UPLO=None", _eigen),
    **each("qr", "input mode=None", _qr),
    **each("convolution", _CONV.replace(" groups=1", "") + " transposed=False output_padding=0 groups=1", _convolution),
    **each("interpolate", "input size=None scale_factor=None mode=None align_corners=None", _resized),
    **each("upsample upsample_nearest upsample_bilinear", "input size=None scale_factor=None mode=None", _resized),
    **each("im2col", "input kernel_size dilation=1 padding=0 stride=1", _columns),
    **each("fold col2im", "input output_size kernel_size dilation=1 padding=0 stride=1", _image),
    **each("pixel_shuffle pixel_unshuffle", "input factor", _shuffled),
    **each("grid_sample", "input grid mode=None padding_mode=None align_corners=None", _sampled),
    **each("affine_grid", "theta size align_corners=None", _affine),
    **each("embedding", "input weight padding_idx=None max_norm=None norm_type=None p1=None p2=None",
           _looked_up),
    **each("embedding_bag", "input weight offsets=None max_norm=None norm_type=None scale_grad_by_freq=None mode=None "
           "sparse=None per_sample_weights=None include_last_offset=False padding_idx=None", _bagged),
    **_pools(),
}  # fmt: skip
