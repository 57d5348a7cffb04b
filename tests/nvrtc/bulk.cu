// sm_90a
// Bulk copies in a ring of two slots, and a bulk store of the result.

__device__ unsigned address(const void *shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

__device__ void wait(const unsigned long long *barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(address(barrier)), "r"(parity) : "memory");
}

__device__ void fetch(void *to, const void *from, unsigned bytes, const unsigned long long *barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(address(barrier)) : "memory");
}

extern "C" __global__ void bulk(const int *in, int *out, int rounds) {
    __shared__ alignas(128) int ring[2][256];
    __shared__ alignas(128) int result[256];
    __shared__ unsigned long long full[2];
    int i = threadIdx.x;
    if (i == 0) {
        for (int s = 0; s < 2; s++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&full[s])) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        for (int r = 0; r < 2 && r < rounds; r++) fetch(ring[r], in + r * 256, 1024, &full[r]);
    }
    __syncthreads();
    int sum[2] = {0, 0};
    for (int r = 0; r < rounds; r++) {
        int s = r & 1;
        wait(&full[s], r >> 1 & 1);
        for (int half = 0; half < 2; half++) sum[half] = sum[half] * 3 + ring[s][255 - (half * 128 + i)];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (i == 0 && r + 2 < rounds) fetch(ring[s], in + (r + 2) * 256, 1024, &full[s]);
    }
    for (int half = 0; half < 2; half++) result[half * 128 + i] = sum[half];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (i == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;"
                     ::"l"(__cvta_generic_to_global(out)), "r"(address(result)) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}
