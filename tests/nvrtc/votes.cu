// sm_75 sm_90a
// Votes, ballots, matches, and writes of one lane that others read after a barrier of the warp.

extern "C" __global__ void votes(const unsigned *in, unsigned *out, unsigned *packed, unsigned *count) {
    __shared__ unsigned staged[64];
    unsigned i = threadIdx.x, lane = i % 32, n = blockDim.x;
    unsigned x = in[i];
    out[0 * n + i] = __ballot_sync(~0u, x & 1);
    out[1 * n + i] = __all_sync(~0u, x < 0xf0000000) | __any_sync(~0u, x % 50 == 0) << 1;
    unsigned mask = __ballot_sync(~0u, x & 2);
    out[2 * n + i] = mask;
    if (x & 2) {
        if (!(__activemask() >> lane & 1)) out[2 * n + i] = 0;
        // One lane adds for all that are here.
        unsigned leader = __ffs(mask) - 1, base = 0;
        if (lane == leader) base = atomicAdd(count, __popc(mask));
        base = __shfl_sync(mask, base, leader);
        packed[base + __popc(mask & ((1u << lane) - 1))] = x;
    }
    __syncwarp();
    // Neighbours in shared memory, warp by warp.
    staged[i] = x;
    __syncwarp();
    unsigned next = staged[i ^ 1];
    __syncwarp();
    staged[i] = next * 3;
    __syncwarp();
    out[3 * n + i] = staged[(i & ~31) | (31 - lane)];
    __syncwarp();
    if (lane < 16) {
        staged[i] = lane;
        __syncwarp(0xffff);
        out[4 * n + i] = staged[(i & ~15) | (15 - lane)];
    } else {
        out[4 * n + i] = __shfl_xor_sync(0xffff0000, x, 3);
    }
    out[5 * n + i] = __match_any_sync(~0u, x % 5);
    int same;
    out[6 * n + i] = __match_all_sync(~0u, i / 32, &same) + same;
}
