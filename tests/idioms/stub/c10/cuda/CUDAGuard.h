// The device guard, as torch's header of this name offers it.
#pragma once
#include <torch/extension.h>

namespace c10::cuda {
struct CUDAGuard { explicit CUDAGuard(c10::Device); };
}  // namespace c10::cuda
namespace at::cuda { using c10::cuda::CUDAGuard; }
