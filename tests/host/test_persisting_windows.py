"""Windows of persisting accesses: which of them outlive the call, and whether the call reads what they cover again."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, WORK, lint, model

BUILT = '''
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>
static void set(torch::Tensor t, cudaAccessProperty hit) {
  cudaStreamAttrValue value = {};
  value.accessPolicyWindow.base_ptr = t.data_ptr();
  value.accessPolicyWindow.num_bytes = t.numel();
  value.accessPolicyWindow.hitRatio = 1.0f;
  value.accessPolicyWindow.hitProp = hit;
  value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
  cudaStreamSetAttribute(at::cuda::getCurrentCUDAStream(), cudaStreamAttributeAccessPolicyWindow, &value);
}
void keep(torch::Tensor t) { set(t, cudaAccessPropertyPersisting); }
void end(torch::Tensor t) { set(t, cudaAccessPropertyNormal); }
int64_t reset() { return (int64_t)cudaCtxResetPersistingL2Cache(); }
int64_t share(int64_t bytes) { return (int64_t)cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, bytes); }
"""
NAMES = ("void keep(torch::Tensor t)", "void end(torch::Tensor t)", "int64_t reset()", "int64_t share(int64_t bytes)")
l2 = load_inline("l2", cpp_sources="; ".join(NAMES) + ";", cuda_sources=SOURCE,
                 functions=["keep", "end", "reset", "share"])
'''
# A window over the weight: with 32 rows, one block of rows reads it, with 4096 many do.
RETAINED = [("KBH230", 1), ("KBH231", 3)]
VARIANTS = {
    "set after a reset": ("l2.reset()\nl2.keep(self.weight)\n", "", RETAINED),
    "set where a share of the cache was to be had": (
        "if l2.share(1 << 25) == 0:\n    l2.keep(self.weight)\n", "", RETAINED,
    ),
    "reset after the work": ("l2.keep(self.weight)\n", "l2.reset()\n", []),
    "reset before and after": ("l2.reset()\nl2.keep(self.weight)\n", "l2.end(self.weight)\n", []),
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_window_is_told_when_it_outlives_the_call(tmp_path: Path, variant: str) -> None:
    before, after, found = VARIANTS[variant]
    report = lint(tmp_path, HEAD + BUILT + KERNEL + model(f"{before}{WORK}{after}return y\n"))
    assert sorted((finding.rule, len(finding.shapes)) for finding in report.findings) == found
