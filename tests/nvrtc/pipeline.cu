// sm_80 sm_90a
// Asynchronous copies of 16 bytes in a ring of three slots, by the pipeline primitives.

#include <cuda_pipeline_primitives.h>

extern "C" __global__ void pipeline(const float4 *in, float4 *out, int tiles) {
    constexpr int slots = 3;
    __shared__ float4 ring[slots][64];
    int i = threadIdx.x;
    const float4 *from = in + blockIdx.x * tiles * 64;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int t = 0; t < slots - 1; t++) {
        if (t < tiles) __pipeline_memcpy_async(&ring[t][i], &from[t * 64 + i], 16, t == tiles - 1 ? 8 : 0);
        __pipeline_commit();
    }
    for (int t = 0; t < tiles; t++) {
        __pipeline_wait_prior(slots - 2);
        __syncthreads();
        int next = t + slots - 1;
        if (next < tiles) {
            // The last tile of each column is half there; the rest of its bytes become zeros.
            __pipeline_memcpy_async(&ring[next % slots][i], &from[next * 64 + i], 16, next == tiles - 1 ? 8 : 0);
        }
        __pipeline_commit();
        float4 v = ring[t % slots][(i + 1) % 64];
        sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
    }
    out[blockIdx.x * 64 + i] = sum;
}
