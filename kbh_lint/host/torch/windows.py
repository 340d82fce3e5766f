"""Operations on images and tables: convolutions, pools, resizing, patches, and rows that are looked up."""

from __future__ import annotations

import re
from typing import Any

from kbh_lint.base.dtypes import UNKNOWN
from kbh_lint.host.torch.signatures import NOTHING, Called, Made, Shape, Table, each
from kbh_lint.host.values.tensors import Tensor, product

_RANK = re.compile(r"(\d)d")


def sizes_of(value: object, rank: int) -> tuple[int | None, ...]:
    """Expands `3` or `(3, 5)` to one size for each of `rank` dimensions; None stands for an unknown size."""
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


def _conv_gradients(called: Called) -> list[Made]:
    """Gradients of input, weight and bias, each as large as what it is of; what is not asked for is None."""
    x, w = called.shape(), called.shape("weight")
    bias = None if called.given["bias_sizes"] is None else sizes_of(called.given["bias_sizes"], 1)
    return [(x, called.dtype), (w, called.dtype), (bias, called.dtype)]


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


TABLE: Table = {
    **each("convolution", _CONV.replace(" groups=1", "") + " transposed=False output_padding=0 groups=1", _convolution),
    **each("convolution_backward", "grad input weight bias_sizes stride padding dilation transposed output_padding "
           "groups output_mask", _conv_gradients),
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
