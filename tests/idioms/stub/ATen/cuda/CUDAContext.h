// The current stream, as torch's header of this name offers it.
#pragma once
#include <cuda_runtime.h>

namespace at::cuda {
struct CUDAStream {
    operator cudaStream_t() const;
    cudaStream_t stream() const;
};
CUDAStream getCurrentCUDAStream();
}  // namespace at::cuda
