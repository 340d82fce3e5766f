"""The layers of torch.nn by one table: constructor parameters, weights, and the function that a call comes to.

A layer that is not in the table, or whose constructor is called in a way that its entry cannot read, has unknown
attributes, and its results have an unknown shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Value
from kbh_lint.host.torch.windows import sizes_of

Attributes = Mapping[str, Any]
Weights = dict[str, "tuple[tuple[Any, ...], str]"]  # name -> shape, and what it is: weight, buffer or counter


@dataclass(frozen=True, slots=True)
class Layer:
    """One class of torch.nn.

    `constructor` are its parameters, which are attributes of the object, too. `function` is what a call comes to, of
    torch.nn.functional or of torch.Tensor, given the input, the weights in `first` and the attributes in `passed`
    (`theirs=ours` where the names differ). `spread` attributes have one number for each of `rank` dimensions.
    """

    constructor: str
    function: str
    passed: str = ""
    weights: Callable[[Attributes], Weights] | None = None
    first: tuple[str, ...] = ("weight", "bias")
    spread: str = ""
    rank: int = 0
    fixed: tuple[tuple[str, Any], ...] = ()  # attributes that no parameter gives


def number(attrs: Attributes, key: str) -> int | None:
    """Returns the attribute `key` where it is a known whole number; None otherwise."""
    value = attrs.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def divided(one: object, other: object) -> int | None:
    """Returns the quotient of two sizes; None where one is unknown."""
    return one // other if isinstance(one, int) and isinstance(other, int) and other > 0 else None


def times(one: object, other: object) -> int | None:
    """Returns the product of two sizes; None where one is unknown."""
    return one * other if isinstance(one, int) and isinstance(other, int) else None


def _with_bias(shape: tuple[Value, ...], attrs: Attributes, size: int | None) -> Weights:
    weights: Weights = {"weight": (shape, "weight")}
    if attrs.get("bias") is not False:
        weights["bias"] = ((size,), "weight")
    return weights


def _linear(attrs: Attributes) -> Weights:
    out = number(attrs, "out_features")
    return _with_bias((out, number(attrs, "in_features")), attrs, out)


def _bilinear(attrs: Attributes) -> Weights:
    out = number(attrs, "out_features")
    return _with_bias((out, number(attrs, "in1_features"), number(attrs, "in2_features")), attrs, out)


def _conv(attrs: Attributes) -> Weights:
    out, groups = number(attrs, "out_channels"), number(attrs, "groups")
    inside = divided(number(attrs, "in_channels"), groups)
    return _with_bias((out, inside, *attrs["kernel_size"]), attrs, out)


def _conv_transposed(attrs: Attributes) -> Weights:
    out, groups = number(attrs, "out_channels"), number(attrs, "groups")
    return _with_bias((number(attrs, "in_channels"), divided(out, groups), *attrs["kernel_size"]), attrs, out)


def _affine(attrs: Attributes, size: tuple[Value, ...], bias: bool = True) -> Weights:
    if attrs.get("affine", attrs.get("elementwise_affine")) is False:
        return {}
    weights: Weights = {"weight": (size, "weight")}
    if bias and attrs.get("bias", True) is not False:
        weights["bias"] = (size, "weight")
    return weights


def _running(attrs: Attributes) -> Weights:
    size = (number(attrs, "num_features"),)
    weights = _affine(attrs, size)
    if attrs.get("track_running_stats") is not False:
        weights |= {
            "running_mean": (size, "buffer"),
            "running_var": (size, "buffer"),
            "num_batches_tracked": ((), "counter"),
        }
    return weights


def _layer_norm(attrs: Attributes) -> Weights:
    return _affine(attrs, attrs["normalized_shape"])


def _rms_norm(attrs: Attributes) -> Weights:
    return _affine(attrs, attrs["normalized_shape"], bias=False)


def _group_norm(attrs: Attributes) -> Weights:
    return _affine(attrs, (number(attrs, "num_channels"),))


def _embedding(attrs: Attributes) -> Weights:
    return {"weight": ((number(attrs, "num_embeddings"), number(attrs, "embedding_dim")), "weight")}


def _slopes(attrs: Attributes) -> Weights:
    return {"weight": ((number(attrs, "num_parameters"),), "weight")}


def _recurrent(gates: int) -> Callable[[Attributes], Weights]:
    def weights(attrs: Attributes) -> Weights:
        hidden, layers = number(attrs, "hidden_size"), number(attrs, "num_layers")
        shown = number(attrs, "proj_size") or hidden
        ways = ("", "_reverse") if attrs.get("bidirectional") is True else ("",)
        out: Weights = {}
        for layer in range(min(layers or 0, 256)):
            inside = number(attrs, "input_size") if layer == 0 else times(shown, len(ways))
            for way in ways:
                out[f"weight_ih_l{layer}{way}"] = ((times(gates, hidden), inside), "weight")
                out[f"weight_hh_l{layer}{way}"] = ((times(gates, hidden), shown), "weight")
                if attrs.get("bias") is not False:
                    out[f"bias_ih_l{layer}{way}"] = ((times(gates, hidden),), "weight")
                    out[f"bias_hh_l{layer}{way}"] = ((times(gates, hidden),), "weight")
                if number(attrs, "proj_size"):
                    out[f"weight_hr_l{layer}{way}"] = ((shown, hidden), "weight")
        return out

    return weights


def _cell(gates: int) -> Callable[[Attributes], Weights]:
    def weights(attrs: Attributes) -> Weights:
        hidden = number(attrs, "hidden_size")
        wide = times(gates, hidden)
        out: Weights = {
            "weight_ih": ((wide, number(attrs, "input_size")), "weight"), "weight_hh": ((wide, hidden), "weight"),
        }  # fmt: skip
        if attrs.get("bias") is not False:
            out |= {"bias_ih": ((wide,), "weight"), "bias_hh": ((wide,), "weight")}
        return out

    return weights


def _attention(attrs: Attributes) -> Weights:
    size = number(attrs, "embed_dim")
    keys, values = number(attrs, "kdim") or size, number(attrs, "vdim") or size
    out: Weights = {}
    if keys == size == values:
        out["in_proj_weight"] = ((times(3, size), size), "weight")
    else:
        out |= {
            "q_proj_weight": ((size, size), "weight"), "k_proj_weight": ((size, keys), "weight"),
            "v_proj_weight": ((size, values), "weight"),
        }  # fmt: skip
    if attrs.get("bias") is not False:
        out["in_proj_bias"] = ((times(3, size),), "weight")
    if attrs.get("add_bias_kv") is True:
        out |= {"bias_k": ((1, 1, size), "weight"), "bias_v": ((1, 1, size), "weight")}
    return out


_MADE = " device=None dtype=None"
_CONV = "in_channels out_channels kernel_size stride=1 padding=0"
_RNN = " num_layers=1 bias=True batch_first=False dropout=0.0 bidirectional=False proj_size=0" + _MADE
_LOSS = "size_average=None reduce=None reduction='mean'"


def _ranked() -> dict[str, Layer]:
    table: dict[str, Layer] = {}
    for rank in (1, 2, 3):
        sizes = "kernel_size stride padding dilation output_padding"
        table[f"Conv{rank}d"] = Layer(
            f"{_CONV} dilation=1 groups=1 bias=True padding_mode='zeros'{_MADE}", f"conv{rank}d",
            "stride padding dilation groups", _conv, spread=sizes, rank=rank,
            fixed=(("transposed", False), ("output_padding", (0,) * rank)),
        )  # fmt: skip
        table[f"ConvTranspose{rank}d"] = Layer(
            f"{_CONV} output_padding=0 groups=1 bias=True dilation=1 padding_mode='zeros'{_MADE}",
            f"conv_transpose{rank}d", "stride padding output_padding groups dilation", _conv_transposed,
            spread=sizes, rank=rank, fixed=(("transposed", True),),
        )  # fmt: skip
        table[f"MaxPool{rank}d"] = Layer(
            "kernel_size stride=None padding=0 dilation=1 return_indices=False ceil_mode=False", f"max_pool{rank}d",
            "kernel_size stride padding dilation ceil_mode return_indices",
        )  # fmt: skip
        more = "" if rank == 1 else " divisor_override=None"
        table[f"AvgPool{rank}d"] = Layer(
            f"kernel_size stride=None padding=0 ceil_mode=False count_include_pad=True{more}", f"avg_pool{rank}d",
            "kernel_size stride padding ceil_mode",
        )  # fmt: skip
        table[f"LPPool{rank}d"] = Layer(
            "norm_type kernel_size stride=None ceil_mode=False", f"lp_pool{rank}d",
            "norm_type kernel_size stride ceil_mode",
        )  # fmt: skip
        table[f"AdaptiveAvgPool{rank}d"] = Layer("output_size", f"adaptive_avg_pool{rank}d", "output_size")
        table[f"AdaptiveMaxPool{rank}d"] = Layer(
            "output_size return_indices=False", f"adaptive_max_pool{rank}d", "output_size return_indices"
        )
        table[f"BatchNorm{rank}d"] = _NORM_BY_BATCH
        table[f"InstanceNorm{rank}d"] = Layer(
            "num_features eps=1e-5 momentum=0.1 affine=False track_running_stats=False" + _MADE, "instance_norm",
            "p1=running_mean p2=running_var p5=training", _running,
        )  # fmt: skip
        for kind in ("Zero", "Constant", "Reflection", "Replication", "Circular"):
            value = " value" if kind == "Constant" else ""
            table[f"{kind}Pad{rank}d"] = Layer(f"padding{value}", "pad", "pad=padding", spread="padding", rank=2 * rank)
        table[f"Dropout{rank}d"] = Layer("p=0.5 inplace=False", f"dropout{rank}d")
    return table


_NORM_BY_BATCH = Layer(
    "num_features eps=1e-5 momentum=0.1 affine=True track_running_stats=True" + _MADE, "batch_norm",
    "p1=running_mean p2=running_var p5=training p6=momentum p7=eps", _running,
)  # fmt: skip


def _plain(names: str, constructor: str = "", passed: str = "") -> dict[str, Layer]:
    """Layers without weights, `Class:function`."""
    pairs = (name.split(":") for name in names.split())
    return {name: Layer(constructor, function, passed) for name, function in pairs}


LAYERS: dict[str, Layer] = {
    "Identity": Layer("*args", ""),
    "Linear": Layer("in_features out_features bias=True" + _MADE, "linear", weights=_linear),
    "Bilinear": Layer("in1_features in2_features out_features bias=True" + _MADE, "bilinear", weights=_bilinear),
    **_ranked(),
    "SyncBatchNorm": _NORM_BY_BATCH,
    "LayerNorm": Layer(
        "normalized_shape eps=1e-5 elementwise_affine=True bias=True" + _MADE, "layer_norm", "p1=normalized_shape eps",
        _layer_norm,
    ),
    "RMSNorm": Layer(
        "normalized_shape eps=None elementwise_affine=True" + _MADE, "rms_norm", "p1=normalized_shape eps", _rms_norm,
    ),
    "GroupNorm": Layer(
        "num_groups num_channels eps=1e-5 affine=True" + _MADE, "group_norm", "p1=num_groups eps", _group_norm,
    ),
    "LocalResponseNorm": Layer("size alpha=1e-4 beta=0.75 k=1.0", "local_response_norm", "size alpha beta k"),
    "Embedding": Layer(
        "num_embeddings embedding_dim padding_idx=None max_norm=None norm_type=2.0 scale_grad_by_freq=False "
        "sparse=False _weight=None _freeze=False" + _MADE, "embedding", weights=_embedding,
    ),
    "EmbeddingBag": Layer(
        "num_embeddings embedding_dim max_norm=None norm_type=2.0 scale_grad_by_freq=False mode='mean' sparse=False "
        "_weight=None include_last_offset=False padding_idx=None" + _MADE, "embedding_bag",
        "include_last_offset", _embedding,
    ),
    "PReLU": Layer("num_parameters=1 init=0.25" + _MADE, "prelu", weights=_slopes),
    "RNN": Layer("input_size hidden_size" + _RNN.replace(" bias", " nonlinearity='tanh' bias", 1), "rnn_tanh",
                 "hidden_size num_layers bidirectional batch_first", _recurrent(1), (), fixed=(("mode", "RNN_TANH"),)),
    "LSTM": Layer("input_size hidden_size" + _RNN, "lstm", "hidden_size num_layers bidirectional batch_first proj_size",
                  _recurrent(4), (), fixed=(("mode", "LSTM"),)),
    "GRU": Layer("input_size hidden_size" + _RNN, "gru", "hidden_size num_layers bidirectional batch_first",
                 _recurrent(3), (), fixed=(("mode", "GRU"),)),
    "RNNCell": Layer("input_size hidden_size bias=True nonlinearity='tanh'" + _MADE, "rnn_tanh_cell", "hidden_size",
                     _cell(1), ()),
    "LSTMCell": Layer("input_size hidden_size bias=True" + _MADE, "lstm_cell", "hidden_size", _cell(4), ()),
    "GRUCell": Layer("input_size hidden_size bias=True" + _MADE, "gru_cell", "hidden_size", _cell(3), ()),
    "MultiheadAttention": Layer(
        "embed_dim num_heads dropout=0.0 bias=True add_bias_kv=False add_zero_attn=False kdim=None vdim=None "
        "batch_first=False" + _MADE, "multi_head_attention_forward", "num_heads batch_first", _attention, (),
    ),
    **_plain("Softmax:softmax LogSoftmax:log_softmax Softmin:softmin", "dim=None", "dim"),
    "Softmax2d": Layer("", "softmax", fixed=(("dim", -3),)),
    **_plain("Sigmoid:sigmoid Tanh:tanh LogSigmoid:logsigmoid Softsign:softsign Tanhshrink:tanhshrink"),
    **_plain("ReLU:relu ReLU6:relu6 SiLU:silu Mish:mish SELU:selu Hardswish:hardswish Hardsigmoid:hardsigmoid",
             "inplace=False"),
    **_plain("ELU:elu CELU:celu", "alpha=1.0 inplace=False", "p1=alpha"),
    **_plain("LeakyReLU:leaky_relu", "negative_slope=0.01 inplace=False", "p1=negative_slope"),
    **_plain("GELU:gelu", "approximate='none'", "approximate"),
    **_plain("Hardtanh:hardtanh", "min_val=-1.0 max_val=1.0 inplace=False", "p1=min_val p2=max_val"),
    **_plain("Hardshrink:hardshrink Softshrink:softshrink", "lambd=0.5", "p1=lambd"),
    **_plain("Softplus:softplus", "beta=1.0 threshold=20.0", "p1=beta p2=threshold"),
    **_plain("Threshold:threshold", "threshold value inplace=False", "p1=threshold p2=value"),
    **_plain("RReLU:rrelu", "lower=0.125 upper=0.3333333333333333 inplace=False"),
    **_plain("GLU:glu", "dim=-1", "dim"),
    **_plain("Dropout:dropout AlphaDropout:alpha_dropout FeatureAlphaDropout:feature_alpha_dropout",
             "p=0.5 inplace=False"),
    **_plain("Flatten:flatten", "start_dim=1 end_dim=-1", "start_dim end_dim"),
    **_plain("Unflatten:unflatten", "dim unflattened_size", "dim sizes=unflattened_size"),
    **_plain("Unfold:im2col", "kernel_size dilation=1 padding=0 stride=1", "kernel_size dilation padding stride"),
    **_plain("Fold:fold", "output_size kernel_size dilation=1 padding=0 stride=1",
             "output_size kernel_size dilation padding stride"),
    **_plain("PixelShuffle:pixel_shuffle", "upscale_factor", "factor=upscale_factor"),
    **_plain("PixelUnshuffle:pixel_unshuffle", "downscale_factor", "factor=downscale_factor"),
    **_plain("ChannelShuffle:channel_shuffle", "groups", "groups"),
    **_plain("Upsample:interpolate", "size=None scale_factor=None mode='nearest' align_corners=None "
             "recompute_scale_factor=None", "size scale_factor mode"),
    **_plain("UpsamplingNearest2d:interpolate UpsamplingBilinear2d:interpolate", "size=None scale_factor=None",
             "size scale_factor"),
    **_plain("CosineSimilarity:cosine_similarity", "dim=1 eps=1e-8", "dim eps"),
    **_plain("PairwiseDistance:pairwise_distance", "p=2.0 eps=1e-6 keepdim=False", "p eps keepdim"),
    **_plain("MSELoss:mse_loss L1Loss:l1_loss SoftMarginLoss:soft_margin_loss", _LOSS, "reduction"),
    **_plain("SmoothL1Loss:smooth_l1_loss", _LOSS + " beta=1.0", "reduction"),
    **_plain("HuberLoss:huber_loss", "reduction='mean' delta=1.0", "reduction delta"),
    **_plain("KLDivLoss:kl_div", _LOSS + " log_target=False", "reduction log_target"),
    **_plain("BCELoss:binary_cross_entropy", "weight=None " + _LOSS, "reduction"),
    **_plain("BCEWithLogitsLoss:binary_cross_entropy_with_logits", f"weight=None {_LOSS} pos_weight=None", "reduction"),
    **_plain("CrossEntropyLoss:cross_entropy", "weight=None size_average=None ignore_index=-100 reduce=None "
             "reduction='mean' label_smoothing=0.0", "reduction label_smoothing"),
    **_plain("NLLLoss:nll_loss", "weight=None size_average=None ignore_index=-100 reduce=None reduction='mean'",
             "reduction"),
    **_plain("TripletMarginLoss:triplet_margin_loss", "margin=1.0 p=2.0 eps=1e-6 swap=False " + _LOSS,
             "margin reduction"),
    **_plain("CosineEmbeddingLoss:cosine_embedding_loss MarginRankingLoss:margin_ranking_loss", "margin=0.0 " + _LOSS,
             "margin reduction"),
    **_plain("HingeEmbeddingLoss:hinge_embedding_loss", "margin=1.0 " + _LOSS, "margin reduction"),
}  # fmt: skip
CONTAINERS = frozenset(("ModuleList", "ParameterList", "Sequential", "ModuleDict", "ParameterDict"))


def finished(name: str, layer: Layer, attrs: dict[str, Any]) -> None:
    """Converts constructor arguments to the attributes that the layer keeps: tuples of sizes, strides that default to
    the window's size."""
    attrs.update({key: value for key, value in layer.fixed if key not in attrs or key == "output_padding"})
    for key in layer.spread.split():
        if key in attrs and not isinstance(attrs[key], str):
            attrs[key] = sizes_of(attrs[key], layer.rank)
    if "normalized_shape" in attrs:
        size = attrs["normalized_shape"]
        attrs["normalized_shape"] = sizes_of(size, len(size) if isinstance(size, (tuple, list)) else 1)
    if "Pool" in name and "stride" in attrs and attrs["stride"] is None:
        attrs["stride"] = attrs["kernel_size"]
    if name == "RNN" and attrs.get("nonlinearity") == "relu":
        attrs["mode"] = "RNN_RELU"
