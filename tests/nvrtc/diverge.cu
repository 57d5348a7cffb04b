// sm_75 sm_90a
// Branches that threads of a warp take differently: nested loops, break, continue, goto, switch, and a loop of unequal trips.

__device__ unsigned route(unsigned x, unsigned thread) {
    switch (x % 11) {
        case 0: return x + thread;
        case 1: x ^= 0x5555; break;
        case 2: x *= 3;
        case 3: return x - thread;
        case 4: return thread % 3 ? x | 1 : x & ~1u;
        case 5: while (x > 1000) x /= 3; break;
        case 6: return ~x;
        case 7: return x << (thread & 7);
        case 8: return x >> (thread & 7);
        default: x += 17;
    }
    return x ^ thread;
}

extern "C" __global__ void diverge(unsigned *steps, unsigned *routes, unsigned *pairs) {
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    // Steps of the Collatz sequence.
    unsigned long long value = thread + 1;
    unsigned count = 0;
    while (value != 1) {
        value = value & 1 ? 3 * value + 1 : value / 2;
        count++;
    }
    steps[thread] = count;

    routes[thread] = route(thread * 2654435761u, thread);

    unsigned found = 0;
    for (unsigned i = 1; i < 40; i++) {
        if (i % 5 == thread % 5) continue;
        for (unsigned j = i; j < 40; j++) {
            if (i * j > thread + 100) break;
            if ((i ^ j) % 7 == 3) continue;
            found = found * 31 + i * j;
            if (found % 64 == thread % 64) goto done;
        }
        if (thread % 2 && i > 20) break;
    }
    found += 1000;
done:
    pairs[thread] = found;
}
