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


# What else a tensor of torch has an attribute for, beside what is modelled: what has none of a name raises.
_IN_PLACE_TOO = (
    "absolute acos acosh addcdiv addcmul addr arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan "
    "atan2 atanh bernoulli bitwise_left_shift bitwise_not bitwise_right_shift bitwise_xor clamp_max clamp_min clip "
    "conj_physical copysign cos cosh cumprod deg2rad digamma divide erf erfc erfinv exp2 expm1 fix float_power "
    "floor_divide fmod frac gcd greater greater_equal heaviside hypot i0 igamma igammac index_copy index_fill "
    "index_put index_reduce lcm ldexp lerp less less_equal lgamma log10 log1p log2 logical_not logical_xor logit "
    "masked_scatter multiply mvlgamma nan_to_num negative nextafter not_equal polygamma put rad2deg reciprocal "
    "remainder renorm resize resize_as scatter_add scatter_reduce sgn sign sin sinc sinh square subtract tan "
    "true_divide trunc xlogy"
)
_ALONE = (
    "_addmm_activation _autocast_to_full_precision _autocast_to_reduced_precision _backward_hooks _cdata "
    "_clear_non_serializable_cached_data _coalesced_ _conj _conj_physical _dimI _dimV _dtensor__new__ _fix_weakref "
    "_grad _grad_fn _has_symbolic_sizes_strides _indices _is_all_true _is_any_true _is_view _is_zerotensor "
    "_lazy_clone _make_subclass _make_wrapper_subclass _neg_view _nested_tensor_size _nested_tensor_storage_offsets "
    "_nested_tensor_strides _nnz _philox_normal_ _philox_uniform_ _post_accumulate_grad_hooks _python_dispatch "
    "_reduce_ex_internal _rev_view_func_unsafe _sparse_mask_projection _to_dense _to_sparse _to_sparse_bsc "
    "_to_sparse_bsr _to_sparse_csc _to_sparse_csr _use_count _values _view_func _view_func_unsafe aminmax angle "
    "argwhere as_strided_scatter as_subclass cauchy_ ccol_indices cdouble cfloat chalf coalesce col_indices conj "
    "const_data_ptr corrcoef count_nonzero cov crow_indices cummax cummin dense_dim dequantize det diag_embed "
    "diagflat diagonal_scatter diff dim_order dist dsplit eig exponential_ fill_diagonal_ fliplr flipud fmax fmin "
    "frexp geometric_ geqrf grad_dtype hardshrink hash_tensor histogram hsplit index indices int_repr ipu is_cpu "
    "is_ipu is_maia is_mkldnn is_mtia is_nonzero is_sparse_csr is_vulkan is_xla is_xpu isclose isfinite isinf isnan "
    "isneginf isposinf isreal istft log_normal_ logaddexp logaddexp2 logcumsumexp logdet lu map2_ masked_select "
    "matrix_exp maximum minimum mode module_load mtia multinomial name nanmean nansum narrow_copy new nonzero_static "
    "orgqr ormqr output_nr positive prelu q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale "
    "q_zero_point qr qscheme random_ register_post_accumulate_grad_hook reinforce resize_as_sparse_ resolve_conj "
    "resolve_neg retains_grad rot90 row_indices select_scatter set_ signbit slice_inverse slice_scatter slogdet smm "
    "sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ sspaddmm stft storage_type sum_to_size svd symeig "
    "take take_along_dim to_dense to_mkldnn to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo "
    "to_sparse_csc to_sparse_csr trace unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes values "
    "volatile vsplit xpu"
)
NAMES = frozenset((*_ALONE.split(), *_IN_PLACE_TOO.split(), *(f"{name}_" for name in _IN_PLACE_TOO.split())))
