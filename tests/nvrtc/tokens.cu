// sm_80 sm_90a
// A barrier in shared memory instead of the block's, arriving and waiting apart, with the state of the arrival.

#include <cuda_awbarrier_primitives.h>

extern "C" __global__ void tokens(const int *in, int *out, int rounds) {
    __shared__ __mbarrier_t barrier;
    __shared__ int left[2][128];
    int i = threadIdx.x;
    if (i == 0) __mbarrier_init(&barrier, 128);
    __syncthreads();
    int value = in[i];
    for (int r = 0; r < rounds; r++) {
        left[r & 1][i] = value;
        __mbarrier_token_t token = __mbarrier_arrive(&barrier);
        int own = value * 5 + r;
        while (!__mbarrier_test_wait(&barrier, token)) {}
        value = own ^ left[r & 1][(i * 3 + r) % 128];
    }
    out[i] = value;
    __syncthreads();
    if (i == 0) __mbarrier_inval(&barrier);
}
