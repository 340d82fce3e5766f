"""Schemas of the operators of torch that do the work of a whole kernel, as torch's own list of them has them."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any

from kbh_lint.base.records import dataclass
from kbh_lint.host.torch import aten_names

UNNAMED = "?"  # the name of an operator of torch that a program finds by one that nobody knows

# One a line, in the order of `torch._C._jit_get_all_schemas()`; a line that is indented goes on. Backward operators,
# and those that write to `out`, are left out.
_TEXT = """
_scaled_grouped_mm_v2(Tensor self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] swizzle_a, Tensor[] scale_b,
  int[] recipe_b, int[] swizzle_b, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None, int[]
  contraction_dim=[], bool use_fast_accum=False) -> Tensor
_scaled_grouped_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? offs=None, Tensor? bias=None,
  Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor
_weight_int4pack_mm(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor
cudnn_convolution_relu(Tensor self, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
  SymInt groups) -> Tensor
_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None,
  ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor
_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor
_scaled_mm_v2(Tensor self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] swizzle_a, Tensor[] scale_b, int[]
  recipe_b, int[] swizzle_b, Tensor? bias, ScalarType? out_dtype, int[] contraction_dim=[], bool use_fast_accum=False)
  -> Tensor
argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor
argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor
triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor
  solution, Tensor cloned_coefficient)
linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor
_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool use_gelu=False) ->
  Tensor
tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor
bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor
quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor
quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor
softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, SymInt max_q,
  SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None, SymInt?
  window_size_left=None, SymInt? window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None, Tensor?
  block_table=None, int? num_splits=None) -> (Tensor output, Tensor softmax_logsumexp, Tensor rng_state, Tensor
  unused, Tensor debug_attn_mask)
linalg_matmul(Tensor self, Tensor other) -> Tensor
_int_mm(Tensor self, Tensor mat2) -> Tensor
linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor
_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool
  transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool
  allow_tf32) -> Tensor
_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor
dot(Tensor self, Tensor tensor) -> Tensor
baddbmm_(Tensor(a!) self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)
native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor,
  Tensor, Tensor)
baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) ->
  Tensor
addmm_(Tensor(a!) self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)
linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor
bmm(Tensor self, Tensor mat2) -> Tensor
bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor
addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor
addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
mm(Tensor self, Tensor mat2) -> Tensor
mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor
mv(Tensor self, Tensor vec) -> Tensor
inner(Tensor self, Tensor other) -> Tensor
conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0],
  SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor
conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding="valid",
  SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor
conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1]
  dilation=[1], SymInt groups=1) -> Tensor
conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding="valid", SymInt[1]
  dilation=[1], SymInt groups=1) -> Tensor
conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2]
  dilation=[1, 1], SymInt groups=1) -> Tensor
conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding="valid", SymInt[2]
  dilation=[1, 1], SymInt groups=1) -> Tensor
convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool
  transposed, SymInt[] output_padding, SymInt groups) -> Tensor
addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor
matmul(Tensor self, Tensor other) -> Tensor
einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor
linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor
_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False,
  bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor
  cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)
scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool
  is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor
cudnn_convolution(Tensor self, Tensor weight, SymInt[] padding, SymInt[] stride, SymInt[] dilation, SymInt groups,
  bool benchmark, bool deterministic, bool allow_tf32) -> Tensor
layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float
  eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor
rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor
msort(Tensor self) -> Tensor
outer(Tensor self, Tensor vec2) -> Tensor
topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)
_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor
unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor,
  Tensor, Tensor)
sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)
median(Tensor self) -> Tensor
median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
"""
_SCHEMA = re.compile(r"(\w+)(?:\.(\w+))?\((.*)\) -> (.*)")
_PARAMETER = re.compile(r"([\w()!]+?)(\[(\d*)\])?(\??) (\w+)(?:=(.*))?")
_SPLIT = re.compile(r", (?![^\[(]*[\])])")
_TYPES = {"SymInt": "int", "ScalarType": "int", "Scalar": "number"}
REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an operator; `default` is `REQUIRED` where there is none."""

    name: str
    type: str  # as torch prints it
    count: int | None
    default: Any
    keyword: bool


@dataclass(frozen=True, slots=True)
class Schema:
    """An operator of torch's with the name of its overload."""

    text: str
    name: str
    overload: str
    parameters: tuple[Parameter, ...]
    results: tuple[str, ...]  # their names


@cache
def known() -> tuple[Schema, ...]:
    """Returns the schemas that are known."""
    return tuple(_parsed(line) for line in re.sub(r"\n  ", " ", _TEXT).strip().splitlines())


def names() -> list[str]:
    """Returns the names of the operators that are known, without `aten::`, each once."""
    return list(dict.fromkeys(schema.name for schema in known()))


def names_in(space: str) -> list[str]:
    """Returns the names that a module or a namespace of torch has for operators that are known."""
    if space == "torch.ops.aten":
        return names()
    if space in ("torch", "torch._C._VariableFunctions", EXTERN):
        return [name for name in names() if not name.startswith(_NOT_IN_TORCH) and name[-1] != "_"]
    module = space.removeprefix("torch.")
    within = [name for name in names() if name.startswith(f"{module}_")] if module in aten_names.MODULES else []
    return [name.removeprefix(f"{module}_") for name in within]


_NOT_IN_TORCH = ("linalg_", "linear", "scaled_dot", "_flash", "_scaled_dot", "unique_dim")


def namespaces() -> tuple[str, ...]:
    """Returns the namespaces of torch that hold operators and nothing else, so that whatever is in one computes."""
    modules = [*aten_names.MODULES, "nn.functional", "_C._nn", "_C._VariableFunctions"]
    return tuple(f"torch.{space}" for space in ("ops.aten", "ops.prims", "ops.quantized", *modules)) + (EXTERN,)


EXTERN = "torch._inductor.select_algorithm.extern_kernels"  # what a compiled program calls of torch's libraries


def _parsed(line: str) -> Schema:
    match = _SCHEMA.fullmatch(line)
    if match is None:
        raise ValueError(line)
    name, overload, given, results = match.groups()
    keyword, parameters = False, []
    for part in _SPLIT.split(given):
        if part == "*":
            keyword = True
            continue
        parameters.append(_parameter(part, keyword))
    parts = results.strip("()").split(", ") if results != "()" else []
    return Schema(f"aten::{line}", name, overload or "", tuple(parameters), tuple(p.partition(" ")[2] for p in parts))


def _parameter(part: str, keyword: bool) -> Parameter:
    match = _PARAMETER.fullmatch(part)
    if match is None:
        raise ValueError(part)
    kind, listed, count, optional, name, default = match.groups()
    kind = kind.partition("(")[0]
    kind = _TYPES.get(kind, kind)
    kind = f"List[{kind}]" if listed else kind
    value = REQUIRED if default is None else ast.literal_eval(default)
    return Parameter(name, f"Optional[{kind}]" if optional else kind, int(count) if count else None, value, keyword)
