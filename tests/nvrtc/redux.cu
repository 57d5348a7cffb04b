// sm_80 sm_90a
// Reductions of a warp in one instruction.

extern "C" __global__ void redux(const int *in, int *out) {
    unsigned i = threadIdx.x, n = blockDim.x;
    int x = in[i];
    out[0 * n + i] = __reduce_add_sync(~0u, x);
    out[1 * n + i] = __reduce_min_sync(~0u, x);
    out[2 * n + i] = __reduce_max_sync(~0u, static_cast<unsigned>(x));
    out[3 * n + i] = static_cast<int>(__reduce_xor_sync(~0u, static_cast<unsigned>(x)));
    if (i % 32 % 3 == 0) out[4 * n + i] = static_cast<int>(__reduce_or_sync(0x49249249, static_cast<unsigned>(x)));
    else out[4 * n + i] = static_cast<int>(__reduce_and_sync(~0x49249249u, static_cast<unsigned>(x)));
}
