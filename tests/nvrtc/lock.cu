// sm_75 sm_90a
// A critical section between blocks: a lock by compare-and-swap, plain accesses inside.

extern "C" __global__ void lock(unsigned *lock, unsigned *length, unsigned *list, unsigned long long *sum) {
    unsigned key = 1000 * blockIdx.x + 10 * (threadIdx.x / 32);
    for (unsigned turn = 0; turn < 3; turn++) {
        if (threadIdx.x % 32 == 0) {
            while (atomicCAS(lock, 0u, 1u) != 0u) __nanosleep(20);
            __threadfence();
            unsigned at = *length;
            for (int i = 0; i < 24; i++) list[i] = list[i] * 3 + 7;
            *length = at + 1;
            *sum += key + turn;
            __threadfence();
            atomicExch(lock, 0u);
        }
        __syncwarp();
    }
}
