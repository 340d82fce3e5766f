"""What aten's names of operations mean: modules of torch are prefixes there, and what one backend runs, or one step of
an operation, has a name of its own."""

from __future__ import annotations

import re
from functools import lru_cache

MODULES = ("linalg", "special", "fft")
# Work a library does whole, by what it is.
PRODUCTS = frozenset(
    "matmul mm bmm addmm baddbmm addbmm mv addmv dot vdot vecdot inner linear bilinear einsum tensordot chain_matmul "
    "multi_dot _scaled_mm scaled_mm _int_mm _grouped_mm _scaled_grouped_mm grouped_mm conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d convolution lstm gru rnn_tanh rnn_relu "
    "multi_head_attention_forward scaled_dot_product_attention _scaled_dot_product_flash_attention addmm_ baddbmm_ "
    "_weight_int4pack_mm _weight_int8pack_mm matrix_power _convert_weight_to_int4pack ger outer kron".split()
)
SOLVERS = frozenset(
    "solve_triangular solve inv inv_ex lu_factor lu_solve ldl_solve lstsq tensorsolve tensorinv pinv pinverse cholesky "
    "cholesky_solve cholesky_inverse triangular_solve inverse".split()
)
SELECTIONS = frozenset(
    "topk sort argsort kthvalue msort median nanmedian quantile nanquantile unique unique_dim "
    "partition argpartition lexsort".split()
)
SOFTMAXES = frozenset("softmax log_softmax logsumexp _softmax _safe_softmax".split())
NORMALS = frozenset("layer_norm rms_norm group_norm batch_norm".split())
# What torch computes element by element, or along a dimension.
ARITHMETIC = frozenset(
    "add sub rsub mul multiply div true_divide neg addcmul addcdiv lerp pow square exp exp2 expm1 log sigmoid tanh "
    "where".split()
)
ACTIVATIONS = frozenset(
    "silu glu gelu relu relu6 rrelu sigmoid logsigmoid hardsigmoid tanh hardtanh hardswish swish softplus softsign "
    "mish celu elu selu leaky_relu prelu exp exp2 expm1".split()
)
FUNCTIONS = ACTIVATIONS | frozenset("sqrt rsqrt reciprocal subtract divide abs clamp maximum minimum".split())
REDUCTIONS = frozenset(
    "sum amax amin max min mean cumsum prod logsumexp cumprod argmax argmin norm aminmax nanmean nansum std var "
    "std_mean var_mean vector_norm count_nonzero cummax cummin logcumsumexp scatter_reduce index_reduce segment_reduce "
    "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d".split()
)
_FAMILIES = {
    "product": PRODUCTS, "solver": SOLVERS, "selection": SELECTIONS, "softmax": SOFTMAXES, "normal": NORMALS,
}  # fmt: skip
_INNER = re.compile(r"_?(?:(?:cudnn|miopen|mkldnn|thnn|slow|native|quantized|sparse|foreach|linalg)_)?(.+?)")
_STEP = re.compile(r"(?:_(?:ex|helper|forward|legit|for_cpu|for_mps|v2|math|overrideable|activation|add_relu|relu))*2?")
_WORDS = {"softmax": "softmax", "logsumexp": "softmax"} | dict.fromkeys(
    "attention mm smm hspmm matmul addmm sspaddmm linear convolution conv rnn lstm gru cdist".split(), "product"
)
_CONVOLUTION = re.compile(r"conv(?:\d[dn]?)?")
_OTHERWISE = frozenset("pack prepack search shape quantize plan reorder flatten use combination".split())


def public(name: str) -> str:
    """Returns the name by which Python's modules call an ATen operation: `linalg_solve_triangular` is
    `solve_triangular`."""
    module, _, rest = name.partition("_")
    return rest if module in MODULES and rest else name


@lru_cache(maxsize=4096)
def family(name: str) -> str:
    """Returns the kind of work of an operation: product, solver, selection, softmax or normal; empty for any other."""
    for known, names in _FAMILIES.items():
        if name in names:
            return known
    match = re.fullmatch(_INNER.pattern + _STEP.pattern, name)
    inner = match[1] if match is not None else name
    for known, names in _FAMILIES.items():
        if inner in names:
            return known
    words = ["conv" if _CONVOLUTION.fullmatch(word) else word for word in name.split("_")]
    if _OTHERWISE & set(words):
        return ""
    known = next((_WORDS[word] for word in words if word in _WORDS), "")
    return known if known == "product" or "backward" not in words else ""  # gradients of products are products
