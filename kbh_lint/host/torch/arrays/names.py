"""Which operation of torch a function with numpy's name is: a row where it has another name or other parameters.

A row gives torch's name and the function's parameters in numpy's order, under torch's names. What has no row has the
same name there and is given what it takes: elements, and then `out`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Value
from kbh_lint.host.torch import elementwise
from kbh_lint.host.torch.aten_names import family

_OVER = "input dim out keepdim"
_TYPED = "input dim dtype out keepdim"


@dataclass(frozen=True, slots=True)
class Row:
    """An operation of torch, and the parameters under which numpy gives its arguments. `flat`: without a dimension it
    works on all elements in a row."""

    torch: str
    parameters: tuple[str, ...]
    flat: bool = False


def _rows(parameters: str, *names: str, flat: bool = False) -> dict[str, Row]:
    """Rows for names that are `numpy=torch`, or one name of both."""
    made = {}
    for name in " ".join(names).split():
        numpy, _, torch = name.partition("=")
        made[numpy] = Row(torch or numpy, tuple(parameters.split()), flat)
    return made


ROWS: Mapping[str, Row] = {
    **_rows(_TYPED, "sum prod mean nansum nanmean argmax argmin nansum average=mean"),
    **_rows(_OVER, "max=amax amax min=amin amin any all ptp=amax nanmax=amax nanmin=amin median nanmedian"),
    **_rows("input dim dtype out correction keepdim", "std var nanstd=std nanvar=var"),
    **_rows("input dim keepdim", "count_nonzero"),
    **_rows("input q dim out", "quantile percentile=quantile"),
    **_rows("input dim dtype out", "cumsum cumprod nancumsum=cumsum", flat=True),
    **_rows("input ord dim keepdim", "norm"),
    **_rows("input dim kind", "sort=msort argsort", flat=False),
    **_rows("input kth dim", "partition argpartition"),
    **_rows("input dim", "lexsort", "expand_dims=unsqueeze squeeze", "softmax log_softmax logsumexp"),
    **_rows("input values side sorter", "searchsorted"),
    **_rows("values input right", "digitize=bucketize"),
    **_rows("input bins range weights", "histogram=histc"),
    **_rows("input weights minlength", "bincount"),
    **_rows("input other out", "matmul dot=matmul vdot inner outer kron solve"),
    **_rows("input other dims", "tensordot"),
    **_rows("input other mode", "convolve=convolution correlate=convolution"),
    **_rows("input other trans lower unit_diagonal", "solve_triangular"),
    **_rows("input n", "matrix_power"),
    **_rows("input index dim out mode", "take=index_select", flat=True),
    **_rows("input index dim", "take_along_axis=take_along_dim", flat=True),
    **_rows("condition input dim out", "compress=masked_select"),
    **_rows("condition input", "extract=masked_select"),
    **_rows("input shape order", "reshape"),
    **_rows("input order", "ravel ascontiguousarray=contiguous asfortranarray=clone copy=clone"),
    **_rows("input axis0 axis1", "swapaxes"),
    **_rows("input source destination", "moveaxis"),
    **_rows("input size", "broadcast_to"),
    **_rows("tensors dim out dtype", "concatenate=cat stack"),
    **_rows("tensors", "vstack hstack dstack column_stack"),
    **_rows("input sizes", "tile"),
    **_rows("input repeats dim", "repeat=repeat_interleave"),
    **_rows("input indices_or_sections dim", "split=tensor_split array_split=tensor_split"),
    **_rows("input dim", "flip"),
    **_rows("input shifts dim", "roll"),
    **_rows("input diagonal", "tril triu"),
    **_rows("input offset dim1 dim2", "diagonal"),
    **_rows("condition input other", "where"),
    **_rows("input min max out", "clip=clamp"),
    **_rows("input decimals out", "around=round round round_=round"),
    **_rows("input", "nonzero argwhere=nonzero flatnonzero=nonzero unique isreal"),
    **_rows(
        "input other out",
        "power=pow float_power=pow mod=remainder left_shift=bitwise_left_shift right_shift=bitwise_right_shift",
        "equal=eq not_equal=ne greater=gt greater_equal=ge less=lt less_equal=le",
    ),
    **_rows("input out", "invert=bitwise_not rint=round fix=trunc conjugate=conj expit=sigmoid log_expit=logsigmoid"),
    **_rows("input out", "degrees=rad2deg radians=deg2rad cbrt=sqrt fabs=abs"),
}
# What `ufunc.reduce`, `ufunc.accumulate` and `ufunc.outer` are.
UFUNCS: Mapping[str, Mapping[str, str]] = {
    "reduce": {
        "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min",
        "logical_or": "any", "logical_and": "all",
    },
    "accumulate": {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"},
    "outer": {"multiply": "outer"},
}  # fmt: skip
_OTHERWISE = {
    "axis": "dim", "axes": "dim", "keepdims": "keepdim", "a": "input", "x": "input", "x1": "input", "x2": "other",
    "b": "other", "indices": "index", "newshape": "shape", "a_min": "min", "a_max": "max", "array": "input",
    "arrays": "tensors", "tup": "tensors", "v": "values", "ary": "input", "ddof": "correction", "reps": "sizes",
    "arr": "input", "y": "other", "m": "input", "shift": "shifts", "k": "diagonal",
}  # fmt: skip
_NAMED = {"tensordot": {"axes": "dims"}, "broadcast_to": {"shape": "size"}, "split": {"axis": "dim"}}


def row_of(name: str) -> Row | None:
    """Returns the operation that a function of this name is; None for what is no operation that is known."""
    found = ROWS.get(name)
    if found is not None:
        return found
    if name in elementwise.TABLE:
        parameters, _ = elementwise.TABLE[name]
        two = "other" in parameters.split()
        return Row(name, ("input", "other", "out") if two else ("input", "out"))
    return Row(name, ("input", "other", "out")) if family(name) else None


def bind(name: str, row: Row, args: Sequence[Value], kwargs: Mapping[str, Value]) -> dict[str, Value] | None:
    """Binds the arguments of a call to torch's names, without those that are None; None where there are too many."""
    if len(args) > len(row.parameters):
        return None
    given = dict(zip(row.parameters, args, strict=False))
    for word, value in kwargs.items():
        own = _NAMED.get(name, {})
        given[own.get(word, word if word in row.parameters else _OTHERWISE.get(word, word))] = value
    return {word: value for word, value in given.items() if value is not None}
