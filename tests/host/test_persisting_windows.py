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


def test_a_window_may_be_set_through_references_to_fields(tmp_path: Path) -> None:
    through = BUILT.replace(
        "  value.accessPolicyWindow.base_ptr", "  auto& window = value.accessPolicyWindow;\n  window.base_ptr"
    ).replace("  value.accessPolicyWindow.", "  window.")
    report = lint(tmp_path, HEAD + through + KERNEL + model(f"l2.reset()\nl2.keep(self.weight)\n{WORK}return y\n"))
    assert sorted((finding.rule, len(finding.shapes)) for finding in report.findings) == RETAINED


LAUNCH = """
__global__ void touch(const uint8_t* weight, const uint8_t* x, float* out) {
  if (weight[0] == x[0]) out[0] = 1;
}
void keep(torch::Tensor t, torch::Tensor x, torch::Tensor out) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeAccessPolicyWindow;
  auto& window = attribute.val.accessPolicyWindow;
  window.base_ptr = t.data_ptr();
  window.num_bytes = t.numel();
  window.hitRatio = 1.0f;
  window.hitProp = cudaAccessPropertyPersisting;
  window.missProp = cudaAccessPropertyStreaming;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, touch, (const uint8_t*)t.data_ptr(), (const uint8_t*)x.data_ptr(), out.data_ptr<float>());
}
"""


def test_the_window_of_a_launch_covers_what_it_begins_with_alone(tmp_path: Path) -> None:
    """What else the launch is given is not kept."""
    names = "(torch::Tensor t)", "(torch::Tensor t, torch::Tensor x, torch::Tensor out)"
    built = BUILT.replace("void keep(torch::Tensor t) { set(t, cudaAccessPropertyPersisting); }", LAUNCH.strip())
    built = built.replace('"void keep' + names[0], '"void keep' + names[1])
    work = f"{WORK}l2.keep(self.weight, x, torch.empty(1, device=x.device))\nreturn y\n"
    report = lint(tmp_path, HEAD + built + KERNEL + model(work))
    assert sorted((finding.rule, len(finding.shapes)) for finding in report.findings) == RETAINED
    said = sorted(finding.message.partition(":")[0] for finding in report.findings)
    assert said == [
        "the L2 cache is asked to keep weight beyond the call (window), which reads it once",
        "window on weight",
    ]
