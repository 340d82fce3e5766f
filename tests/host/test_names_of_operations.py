"""What ATen's names of operations mean, and operations that are found by their names."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from host_support import HEAD, KERNEL, classes, lint, model

from kbh_lint.host.torch.aten_names import family

PRODUCTS = """mm _scaled_mm convolution_backward linear_backward matmul_backward cudnn_convolution_add_relu
    _scaled_dot_product_efficient_attention_backward _flash_attention_backward slow_conv_dilated3d conv_depthwise3d
    _conv_depthwise2d conv_tbc _mixed_dtypes_linear _sparse_semi_structured_linear _sparse_semi_structured_addmm hspmm
    smm sspaddmm sparse_sampled_addmm lstm_cell _thnn_fused_gru_cell _cudnn_rnn cdist fbgemm_linear_int8_weight
    mkldnn_linear_backward_weights"""
OTHERS = """_softmax_backward_data _log_softmax_backward_data upsample_linear1d upsample_bilinear2d_backward lgamma
    _cudnn_rnn_flatten_weight mkldnn_reorder_conv2d_weight fbgemm_linear_quantize_weight _wrapped_linear_prepack
    _cslt_sparse_mm_search _compute_linear_combination searchsorted relu add native_layer_norm_backward"""


@pytest.mark.parametrize("name", PRODUCTS.split())
def test_what_multiplies_is_a_product_by_its_name(name: str) -> None:
    assert hasattr(torch.ops.aten, name)
    assert family(name) == "product"


@pytest.mark.parametrize("name", OTHERS.split())
def test_what_only_sounds_so_is_none(name: str) -> None:
    assert hasattr(torch.ops.aten, name)
    assert family(name) != "product"


WIDE = "x.to(torch.bfloat16), self.weight.to(torch.bfloat16)"
FOUND = {
    "by the name, with its overloads": f'torch._C._jit_get_operation("aten::" + "m" * 2)[0]({WIDE}.t())',
    "by the name and the overload": f'torch._C._get_operation_overload("aten::linear", "")[0]({WIDE})',
    "as a gradient": (
        "torch.ops.aten.convolution_backward.default("
        "x.to(torch.bfloat16)[:, :, None], x.new_empty(M, N, 1, dtype=torch.bfloat16), "
        "self.weight.to(torch.bfloat16).t()[:, :, None], None, [1], [0], [1], False, [0], 1, "
        "[True, False, False])[0][..., 0]"
    ),
    "as a gradient by a function of torch": (
        "torch.nn.grad.conv1d_input((M, N, 1), self.weight.to(torch.bfloat16).t()[:, :, None], "
        "x.to(torch.bfloat16)[:, :, None])[..., 0]"
    ),
}


@pytest.mark.parametrize("call", FOUND.values(), ids=FOUND)
def test_a_product_is_one_however_it_is_found(tmp_path: Path, call: str) -> None:
    text = HEAD + KERNEL + model(f"return ({call} * self.weight_scale).to(torch.bfloat16)\n")
    assert classes(lint(tmp_path, text)) & {"library-gemm-wrapper", "reference-resubmission"}
