// sm_75 sm_90a
// Atomic operations of every kind, in shared and in global memory.

__device__ void largest(float *to, float value) {
    int *bits = reinterpret_cast<int *>(to);
    // Others write it at this time: a plain read would be a race, though one that is often seen.
    int old = *static_cast<volatile int *>(bits);
    while (__int_as_float(old) < value) {
        int seen = atomicCAS(bits, old, __float_as_int(value));
        if (seen == old) break;
        old = seen;
    }
}

extern "C" __global__ void atomics(const unsigned *in, unsigned n, unsigned *counts, unsigned *words,
                                   unsigned long long *wide, float *floats, double *doubles, float *most) {
    __shared__ unsigned bins[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned value = in[i];
        atomicAdd(&bins[value % 64], 1u);
        atomicAdd(&words[0], value);
        atomicSub(&words[1], value);
        atomicMin(&words[2], value);
        atomicMax(&words[3], value);
        atomicMin(reinterpret_cast<int *>(&words[4]), static_cast<int>(value));
        atomicMax(reinterpret_cast<int *>(&words[5]), static_cast<int>(value));
        atomicAnd(&words[6], value | 0xff);
        atomicOr(&words[7], value & 0xff00);
        atomicXor(&words[8], value);
        atomicInc(&words[9], 99);
        atomicDec(&words[10], 99);
        atomicAdd(&wide[0], static_cast<unsigned long long>(value) << 20);
        atomicMax(&wide[1], static_cast<unsigned long long>(value) * value);
        atomicXor(&wide[2], static_cast<unsigned long long>(value) << 32 | i);
        atomicAdd(&floats[i % 4], static_cast<float>(value % 1024));
        atomicAdd(&doubles[i % 4], static_cast<double>(value) / 1024);
        largest(&most[i % 8], static_cast<float>(value >> 8));
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(&counts[i], bins[i]);
    // Each thread draws a ticket and a slot of its own; the sum of the tickets is known.
    unsigned ticket = atomicAdd(&words[11], 1);
    unsigned before = atomicExch(&words[16 + ticket], ticket * 3 + 1);
    atomicAdd(&words[12], before + ticket);
}
