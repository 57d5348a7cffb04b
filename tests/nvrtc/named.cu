// sm_75 sm_90a
// Named barriers: one warp produces for two, and goes on while they consume.

__device__ void sync(int barrier, int threads) { asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }
__device__ void arrive(int barrier, int threads) { asm volatile("barrier.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }

extern "C" __global__ void named(const int *in, int *out, int rounds) {
    __shared__ int slot[2][64];
    int i = threadIdx.x;
    if (i < 32) {
        for (int r = 0; r < rounds; r++) {
            if (r >= 2) sync(3 + (r & 1), 96);
            slot[r & 1][i] = in[r * 64 + i] + 1;
            slot[r & 1][i + 32] = in[r * 64 + i + 32] - 1;
            __threadfence_block();
            arrive(1 + (r & 1), 96);
        }
    } else {
        int sum = 0;
        for (int r = 0; r < rounds; r++) {
            sync(1 + (r & 1), 96);
            sum = sum * 7 + slot[r & 1][95 - i];
            if (r + 2 < rounds) arrive(3 + (r & 1), 96);
        }
        out[i - 32] = sum;
    }
}
