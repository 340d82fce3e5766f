"""Operations that multiply and sum: matrix products, solvers, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbh_lint.host.torch.signatures import Called, Made, Shape, Table, each
from kbh_lint.host.values.tensors import broadcast


def matmul_shape(a: Shape, b: Shape) -> Shape:
    """Returns the shape of `a @ b`."""
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


def _added_outer(called: Called) -> Made:
    a, b = called.shape("one"), called.shape("two")
    return ((*a, *b) if a and b else None), called.common


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
    """Returns the shape of an einsum, with or without output letters and an ellipsis."""
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
    **each("addmm baddbmm addmv addbmm", "input one two beta=None alpha=None", _added_product),
    **each("addr", "input one two beta=None alpha=None", _added_outer),
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
}  # fmt: skip
