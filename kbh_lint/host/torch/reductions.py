"""Operations that bring a dimension down to one value, to a few, or to sums along it; and losses."""

from __future__ import annotations

from typing import Any

from kbh_lint.host.torch import elementwise, promotion
from kbh_lint.host.torch.signatures import NOTHING, Called, Made, Rule, Shape, Table, each
from kbh_lint.host.values.tensors import Tensor, broadcast

_ALL: Any = object()


def _dims(called: Called, rank: int) -> Any:
    """The reduced dimensions from the front: _ALL, a set, or None when they are not known."""
    value = called.given.get("dim")
    if value is None or value == () or value == []:
        return _ALL
    values = value if isinstance(value, (tuple, list)) else [value]
    if not all(isinstance(v, int) and not isinstance(v, bool) and -max(rank, 1) <= v < max(rank, 1) for v in values):
        return None
    return {v % rank for v in values} if rank else _ALL


def reduced(called: Called, key: str = "input") -> Shape:
    """Returns the shape of a tensor without the dimensions that the call reduces; None where not known."""
    shape = called.shape(key)
    keep = called.given.get("keepdim", False)
    if shape is None or not isinstance(keep, bool):
        return None
    dims = _dims(called, len(shape))
    if dims is None or called.given.get("dim") in ((), []) and called.name not in ("sum", "mean", "amax", "amin"):
        return None
    if dims is _ALL:
        dims = set(range(len(shape)))
    return tuple(1 if i in dims else d for i, d in enumerate(shape) if keep or i not in dims)


def _summed(called: Called) -> Made:
    dtype = called.dtype
    return reduced(called), "i64" if called.asked is None and promotion.is_whole(dtype) else dtype


def _kept(called: Called) -> Made:
    return reduced(called), called.dtype


def _floats(called: Called) -> Made:
    dtype = called.dtype
    return reduced(called), "f32" if promotion.is_whole(dtype) else dtype


def _as(dtype: str) -> Rule:
    return lambda called: (reduced(called), dtype)


def _truths(called: Called) -> Made:
    return reduced(called), "u8" if called.dtype == "u8" else "bool"


def _spread(called: Called) -> Made:
    """std(dim, unbiased, keepdim), and std(unbiased) alone."""
    if isinstance(called.given.get("dim"), bool):
        called.given["dim"] = None
    return reduced(called), called.dtype


def _two_spreads(called: Called) -> list[Made]:
    return [_spread(called)] * 2


def _extreme(called: Called) -> Made | list[Made]:
    """max and min: of all, along a dimension with its places, or of two tensors."""
    other = called.given.get("dim")
    if isinstance(other, Tensor) or isinstance(called.given.get("other"), Tensor):
        pair = [t for t in (called.tensor("input"), other, called.given.get("other")) if isinstance(t, Tensor)]
        return broadcast([t.shape for t in pair]), promotion.result_type(pair)
    if other is None:
        return reduced(called), called.dtype
    return _with_places(called)


def _median(called: Called) -> Made | list[Made]:
    return (reduced(called), called.dtype) if called.given.get("dim") is None else _with_places(called)


def _with_places(called: Called) -> list[Made]:
    shape = reduced(called)
    return [(shape, called.dtype), (shape, "i64")]


def _two_extremes(called: Called) -> list[Made]:
    return [(reduced(called), called.dtype)] * 2


def _along(called: Called) -> Made:
    shape, dtype = called.shape(), called.dtype
    return shape, "i64" if called.asked is None and promotion.is_whole(dtype) else dtype


def _along_with_places(called: Called) -> list[Made]:
    return [(called.shape(), called.dtype), (called.shape(), "i64")]


def _places(called: Called) -> Made:
    return called.shape(), "i64"


def _topk(called: Called) -> list[Made]:
    shape, axis = called.shape(), called.axis()
    if shape is None or axis is None:
        return [(None, called.dtype), (None, "i64")]
    if shape:
        shape = (*shape[:axis], called.number("k"), *shape[axis + 1 :])
    return [(shape, called.dtype), (shape, "i64")]


def _quantile(called: Called) -> Made:
    shape, q = reduced(called), called.given.get("q")
    if isinstance(q, Tensor):
        shape = (*q.shape, *shape) if q.shape is not None and shape is not None else None
    return (shape if isinstance(q, (float, int, Tensor)) else None), called.dtype


def _trace(called: Called) -> Made:
    dtype = called.dtype
    return (), "i64" if promotion.is_whole(dtype) else dtype


def _histogram(called: Called) -> Made:
    return (called.number("bins"),), called.dtype


def _search(called: Called) -> Made:
    """searchsorted(sorted, values) and bucketize(values, boundaries)."""
    values = called.given.get("values")
    shape = values.shape if isinstance(values, Tensor) else ()
    return shape, "i32" if called.given.get("out_int32") is True else "i64"


def _loss(called: Called, shape: Shape, dtype: str) -> Made:
    """What `reduction` leaves of a loss of each sample."""
    reduction = called.given.get("reduction")
    if reduction in ("mean", "sum", "batchmean", 1, 2) and not called.given.get("size_average"):
        return (), dtype
    return (shape if reduction in ("none", 0) else None), dtype


def _elementwise_loss(called: Called) -> Made:
    return _loss(called, elementwise.over(called, "input", "target"), called.common)


def _input_loss(called: Called) -> Made:
    return _loss(called, called.shape(), called.dtype)


def _class_loss(called: Called) -> Made:
    shape, target = called.shape(), called.shape("target")
    left = None if shape is None or target is None else target
    if shape is not None and left == shape and shape:  # probabilities of classes
        left = shape[1:] if len(shape) == 1 else (shape[0], *shape[2:])
    return _loss(called, left, called.dtype)


def _triplet_loss(called: Called) -> Made:
    shape = elementwise.over(called, "input", "positive", "negative")
    return _loss(called, shape[:-1] if shape else None, called.common)


def _pair_loss(called: Called) -> Made:
    shape = elementwise.over(called, "input", "other")
    return _loss(called, shape[:-1] if shape else None, called.common)


def _ranking_loss(called: Called) -> Made:
    return _loss(called, elementwise.over(called, "input", "other", "target"), called.common)


def _similarity(called: Called) -> Made:
    shape = elementwise.over(called, "input", "other")
    axis = called.axis(rank=len(shape)) if shape is not None else None
    if shape is None or axis is None:
        return None, called.common
    return (*shape[:axis], *shape[axis + 1 :]), called.common


def _distance(called: Called) -> Made:
    shape = elementwise.over(called, "input", "other")
    keep = called.given.get("keepdim")
    if not shape or not isinstance(keep, bool):
        return None, called.common
    return (*shape[:-1], 1) if keep else shape[:-1], called.common


def _all_distances(called: Called) -> Made:
    a, b = called.shape(), called.shape("other")
    if not a or not b or len(a) < 2 or len(b) < 2:
        return None, called.common
    batch = broadcast([a[:-2], b[:-2]])
    return ((*batch, a[-2], b[-2]) if batch is not None else None), called.common


def _distance_of_all(called: Called) -> Made:
    return (), called.common


def _counted(called: Called) -> Made:
    """Results whose length only the values tell."""
    return (None,), called.dtype


def _counts(called: Called) -> Made:
    return (None,), "i64"


def _unique(called: Called) -> Made | list[Made]:
    if called.given.get("dim") is not None:
        return NOTHING
    out: list[Made] = [((None,), called.dtype)]
    if called.given.get("return_inverse") is True:
        out.append((called.shape(), "i64"))
    if called.given.get("return_counts") is True:
        out.append(((None,), "i64"))
    known = all(isinstance(called.given.get(key), bool) for key in ("return_inverse", "return_counts"))
    return NOTHING if not known else out if len(out) > 1 else out[0]


_DIM = "input dim=None keepdim=False"
_LOSS = "input target size_average=None reduce=None reduction='mean'"
TABLE: Table = {
    **each("sum nansum prod", _DIM, _summed),
    **each("mean nanmean logsumexp", _DIM, _floats),
    **each("amax amin", _DIM, _kept),
    **each("any all", _DIM, _truths),
    **each("argmax argmin", _DIM, _as("i64")),
    **each("count_nonzero", "input dim=None", _as("i64")),
    **each("std var", "input dim=None correction=None keepdim=False", _spread),
    **each("std_mean var_mean", "input dim=None correction=None keepdim=False", _two_spreads),
    **each("norm", "input p=None dim=None keepdim=False", _floats),
    **each("vector_norm", "input ord=None dim=None keepdim=False", _floats),
    **each("max min", _DIM + " other=None", _extreme),
    **each("median nanmedian", _DIM, _median),
    **each("mode", "input dim=-1 keepdim=False", _with_places),
    **each("kthvalue", "input k dim=-1 keepdim=False", _with_places),
    **each("aminmax", _DIM, _two_extremes),
    **each("cummax cummin", "input dim", _along_with_places),
    **each("sort", "input dim=-1 descending=False", _along_with_places),
    **each("argsort msort_places", "input dim=-1 descending=False", _places),
    **each("msort", "input dim=-1", _along),
    **each("cumsum cumprod", "input dim", _along),
    **each("topk", "input k dim=-1 largest=True sorted=True", _topk),
    **each("quantile nanquantile", "input q dim=None keepdim=False", _quantile),
    **each("trace", "input", _trace),
    **each("histc", "input bins=100 min=0 max=0", _histogram),
    **each("searchsorted", "input values", _search),
    **each("bucketize", "values input", _search),
    **each("bincount", "input weights=None minlength=0", _counts),
    **each("masked_select", "input mask", _counted),
    **each("unique", "input sorted=True return_inverse=False return_counts=False dim=None", _unique),
    **each("unique_consecutive", "input return_inverse=False return_counts=False dim=None", _unique),
    **each("mse_loss l1_loss smooth_l1_loss", _LOSS + " beta=None weight=None", _elementwise_loss),
    **each("huber_loss", "input target reduction='mean' delta=1.0 weight=None", _elementwise_loss),
    **each("kl_div", _LOSS + " log_target=False", _elementwise_loss),
    **each("soft_margin_loss", _LOSS, _elementwise_loss),
    **each("poisson_nll_loss", "input target log_input=True full=False size_average=None eps=1e-8 reduce=None "
           "reduction='mean'", _elementwise_loss),
    **each("binary_cross_entropy", "input target weight=None size_average=None reduce=None reduction='mean'",
           _input_loss),
    **each("binary_cross_entropy_with_logits",
           "input target weight=None size_average=None reduce=None reduction='mean' pos_weight=None", _input_loss),
    **each("hinge_embedding_loss", "input target margin=1.0 size_average=None reduce=None reduction='mean'",
           _elementwise_loss),
    **each("cross_entropy", "input target weight=None size_average=None ignore_index=-100 reduce=None "
           "reduction='mean' label_smoothing=0.0", _class_loss),
    **each("nll_loss", "input target weight=None size_average=None ignore_index=-100 reduce=None reduction='mean'",
           _class_loss),
    **each("triplet_margin_loss", "input positive negative margin=1.0 p=2 eps=1e-6 swap=False size_average=None "
           "reduce=None reduction='mean'", _triplet_loss),
    **each("cosine_embedding_loss", "input other target margin=0 size_average=None reduce=None reduction='mean'",
           _pair_loss),
    **each("margin_ranking_loss", "input other target margin=0 size_average=None reduce=None reduction='mean'",
           _ranking_loss),
    **each("multi_margin_loss", "input target p=1 margin=1.0 weight=None size_average=None reduce=None "
           "reduction='mean'", _class_loss),
    **each("cosine_similarity", "input other dim=1 eps=1e-8", _similarity),
    **each("pairwise_distance", "input other p=2.0 eps=1e-6 keepdim=False", _distance),
    **each("cdist", "input other p=2.0 compute_mode=None", _all_distances),
    **each("dist", "input other p=2", _distance_of_all),
}  # fmt: skip
