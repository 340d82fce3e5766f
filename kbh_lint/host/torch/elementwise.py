"""Operations that compute each element by itself: shapes broadcast, and element types by class of operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbh_lint.base.dtypes import UNKNOWN
from kbh_lint.host.torch import promotion
from kbh_lint.host.torch.signatures import Called, Made, Rule, Table, each
from kbh_lint.host.values.tensors import Tensor, broadcast

# Of one operand: the type stays; whole numbers become floats; the type stays and more arguments say how.
_KEPT = (
    "abs absolute neg negative positive sign sgn ceil floor trunc fix frac round relu relu6 hardtanh hardswish "
    "hardsigmoid silu mish gelu elu selu celu leaky_relu rrelu threshold softplus softsign tanhshrink hardshrink "
    "softshrink logsigmoid log_sigmoid bitwise_not dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d "
    "dropout3d feature_dropout nan_to_num bernoulli conj conj_physical resolve_conj resolve_neg invert cauchy "
    "exponential geometric random normal uniform log_normal clamp_min clamp_max native_dropout swish fake_quantize "
    "positive invert requires_grad"
)
_TO_FLOAT = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan arcsin arccos arctan sinh cosh tanh "
    "asinh acosh atanh arcsinh arccosh arctanh sigmoid expit reciprocal erf erfc erfinv lgamma gammaln digamma "
    "polygamma psi logit i0 i0e i1 i1e ndtr ndtri log_ndtr sinc deg2rad rad2deg special_expit entr erfcx"
)
_TO_BOOL = "isnan isinf isfinite isposinf isneginf isreal logical_not signbit"
_TWO = (
    "add sub subtract mul multiply rsub maximum minimum fmax fmin remainder fmod floor_divide bitwise_and bitwise_or "
    "bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm hypot nextafter heaviside pow dist_elementwise "
    "logaddexp logaddexp2 __and__ __or__ __xor__"
)
_TWO_TO_FLOAT = "true_divide atan2 arctan2 copysign xlogy xlog1py ldexp zeta"
_TWO_TO_BOOL = (
    "eq ne lt le gt ge greater greater_equal less less_equal not_equal logical_and logical_or logical_xor isclose"
)
_THREE = "addcmul addcdiv lerp"


def _tensors(called: Called, *keys: str) -> list[Tensor]:
    return [value for key in keys if isinstance(value := called.given.get(key), Tensor)]


def over(called: Called, *keys: str) -> Any:
    """Returns the shape to which the tensors given for the parameters `keys` broadcast."""
    return broadcast([tensor.shape for tensor in _tensors(called, *keys)])


def _floating(dtype: str) -> str:
    return "f32" if promotion.is_whole(dtype) else dtype


def _typed(kind: Callable[[str], str], *keys: str) -> Rule:
    """A rule: shapes of `keys` broadcast, their types promote, and `kind` makes the result's of that."""

    def rule(called: Called) -> Made:
        dtype = called.asked or kind(promotion.result_type([called.given.get(key) for key in keys]))
        return over(called, *keys), dtype

    return rule


def _same(dtype: str) -> str:
    return dtype


def _power(dtype: str) -> str:
    return UNKNOWN if dtype == "bool" else dtype


def _power_of_two(dtype: str) -> str:
    return "i64" if dtype == "bool" else dtype


def _truth(dtype: str) -> str:
    return "bool"


def _division(called: Called) -> Made:
    dtype = promotion.result_type([called.given.get("input"), called.given.get("other")])
    return over(called, "input", "other"), dtype if called.given.get("rounding_mode") else _floating(dtype)


def _float_power(called: Called) -> Made:
    return over(called, "input", "other"), "f64"


def _where(called: Called) -> Made | list[Made]:
    condition = called.shape("condition")
    if called.given.get("input") is None:
        return [((None,), "i64")] * len(condition) if condition is not None else (None, UNKNOWN)
    dtype = promotion.result_type([called.given.get("input"), called.given.get("other")])
    return over(called, "condition", "input", "other"), dtype


def _clamp(called: Called) -> Made:
    limits = [called.given.get("min"), called.given.get("max")]
    operands = [called.given.get("input"), *limits]
    return over(called, "input", "min", "max"), promotion.result_type([v for v in operands if v is not None])


def _masked_fill(called: Called) -> Made:
    return over(called, "input", "mask"), called.dtype


def _like_input(called: Called) -> Made:
    """The input's shape and type, whatever else is given."""
    tensor = called.tensor("input")
    return (tensor.shape, called.asked or tensor.dtype) if tensor is not None else (None, called.dtype)


def _isin(called: Called) -> Made:
    return called.shape("input"), "bool"


def _two_from_one(called: Called) -> list[Made]:
    shape, dtype = called.shape(), called.dtype
    return [(shape, dtype), (shape, "i32")]


_OWN_ORDER = "rrelu logsigmoid log_sigmoid bernoulli normal uniform cauchy exponential geometric log_normal rsub"
POINTWISE = frozenset(
    f"{_KEPT} {_TO_FLOAT} {_TO_BOOL} {_TWO} {_TWO_TO_FLOAT} {_TWO_TO_BOOL} {_THREE} div divide float_power where clamp "
    "clip square pow frexp".split()
) - frozenset(_OWN_ORDER.split())  # their results lie in memory in the order of their operands

TABLE: Table = {
    **each(_KEPT, "input p1=None p2=None p3=None p4=None", _typed(_same, "input")),
    **each(_TO_FLOAT, "input eps=None", _typed(_floating, "input")),
    **each(_TO_BOOL, "input", _typed(_truth, "input")),
    **each(_TWO, "input other alpha=None", _typed(_same, "input", "other")),
    **each(_TWO_TO_FLOAT, "input other", _typed(_floating, "input", "other")),
    **each(_TWO_TO_BOOL, "input other rtol=None atol=None equal_nan=None", _typed(_truth, "input", "other")),
    **each(_THREE, "input one two value=None", _typed(_same, "input", "one", "two")),
    **each("pow", "input exponent", _typed(_power, "input", "exponent")),
    **each("square", "input", _typed(_power_of_two, "input")),
    **each("polygamma", "n input", _typed(_floating, "input")),
    **each("div divide", "input other rounding_mode=None", _division),
    **each("float_power", "input other", _float_power),
    **each("where", "condition input=None other=None", _where),
    **each("clamp clip", "input min=None max=None", _clamp),
    **each("clamp_min", "input min", _clamp),
    **each("clamp_max", "input max", _clamp),
    **each("masked_fill", "input mask value", _masked_fill),
    **each("isin", "input test *more", _isin),
    **each("frexp", "input", _two_from_one),
    **each("prelu _prelu_kernel", "input weight", _like_input),
    **each("scatter scatter_add index_copy index_fill", "input dim index src=None value=None", _like_input),
    **each("scatter_reduce", "input dim index src=None reduce=None include_self=None", _like_input),
    **each("index_add", "input dim index source alpha=None", _like_input),
    **each("index_put", "input indices values accumulate=None", _like_input),
    **each("masked_scatter", "input mask source", _like_input),
    **each("put", "input index source accumulate=None", _like_input),
    **each("fill zero copy", "input value=None non_blocking=None", _like_input),
    **each("tril triu", "input diagonal=None", _like_input),
    **each("flip fliplr flipud roll", "input p1=None p2=None *more", _like_input),
    **each("softmax log_softmax softmin _softmax _log_softmax _safe_softmax", "input dim=None p1=None p2=None",
           _like_input),
    **each("gumbel_softmax", "logits tau=None hard=None eps=None dim=None", lambda c: (c.shape("logits"), c.dtype)),
    **each("layer_norm", "input p1=None weight=None bias=None eps=None p2=None", _like_input),
    **each("rms_norm", "input p1=None weight=None eps=None", _like_input),
    **each("group_norm", "input p1=None weight=None bias=None eps=None p2=None", _like_input),
    **each("batch_norm", "input p1=None p2=None p3=None p4=None p5=None p6=None p7=None p8=None", _like_input),
    **each("instance_norm", "input p1=None p2=None p3=None p4=None p5=None p6=None p7=None p8=None", _like_input),
    **each("local_response_norm", "input size alpha=None beta=None k=None", _like_input),
    **each("normalize", "input p=None dim=None eps=None", _like_input),
    **each("renorm", "input p=None dim=None maxnorm=None", _like_input),
    **each("channel_shuffle", "input groups", _like_input),
    **each("logcumsumexp", "input dim=None", _like_input),
    **each("matrix_power matrix_exp inv inverse cholesky cholesky_inverse", "input p1=None p2=None", _like_input),
}  # fmt: skip
