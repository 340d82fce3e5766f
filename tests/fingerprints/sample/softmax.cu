// Ours: see softmax.py.
__global__ void row_statistics(const float* source, float* maxima, float* sums, int width) {
    __shared__ float shared[256];
    const float* row = source + (long long)blockIdx.x * width;
    float best = -INFINITY;
    for (int at = width - 1 - threadIdx.x; at >= 0; at -= blockDim.x) best = fmaxf(best, row[at]);
    shared[threadIdx.x] = best;
    __syncthreads();
    for (int lane = blockDim.x - 1; lane >= 0; --lane) best = fmaxf(shared[lane], best);
    __syncthreads();
    float kept = 0.f, lost = 0.f;
    for (int at = width - 1 - threadIdx.x; at >= 0; at -= blockDim.x) {
        float term = expf(row[at] - best) - lost;
        float grown = kept + term;
        lost = (grown - kept) - term;
        kept = grown;
    }
    shared[threadIdx.x] = kept;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] = shared[threadIdx.x + half] + shared[threadIdx.x];
        __syncthreads();
    }
    if (threadIdx.x == 0) { maxima[blockIdx.x] = best; sums[blockIdx.x] = shared[0]; }
}

__global__ void row_normalize(const float* source, float* target, const float* maxima, const float* sums, int width) {
    long long base = (long long)blockIdx.x * width;
    int first = (gridDim.y - 1 - blockIdx.y) * 4 * blockDim.x + threadIdx.x;
    float peak = maxima[blockIdx.x], total = sums[blockIdx.x];
    #pragma unroll
    for (int step = 3; step >= 0; --step) {
        int at = first + step * blockDim.x;
        if (at < width && target != source) target[base + at] = expf(source[base + at] - peak) / total;
        else if (at < width) atomicExch(target + base + at, expf(source[base + at] - peak) / total);
    }
}
