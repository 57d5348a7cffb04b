// sm_75 sm_90a
// Sums and scans by shuffles, in a warp and then in the block.

__device__ int warp_sum(int value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
    return value;
}

extern "C" __global__ void shuffle(const int *in, int *sums, int *scans, int *most, int *groups) {
    __shared__ int partial[32];
    int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    int value = in[blockIdx.x * blockDim.x + thread];

    int sum = warp_sum(value);
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        int all = warp_sum(lane < blockDim.x / 32 ? partial[lane] : 0);
        if (lane == 0) sums[blockIdx.x] = all;
    }

    // An inclusive scan of the warp.
    int scan = value;
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(~0u, scan, step);
        if (lane >= step) scan += other;
    }
    scans[blockIdx.x * blockDim.x + thread] = scan;

    // The largest, by a butterfly, and the first value of each group of eight lanes.
    int large = value;
    for (int mask = 1; mask < 32; mask *= 2) large = max(large, __shfl_xor_sync(~0u, large, mask));
    most[blockIdx.x * blockDim.x + thread] = large;
    groups[blockIdx.x * blockDim.x + thread] = __shfl_sync(~0u, value, 0, 8);
}
