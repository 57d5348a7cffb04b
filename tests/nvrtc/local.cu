// sm_75 sm_90a
// Arrays in local memory, tables in constant memory, a variable of the module, functions that are not inlined.

__constant__ int weights[5] = {7, -2, 3, 11, -5};
__constant__ float scale = 0.25f;
__device__ int table[8] = {1, 2, 4, 8, 16, 32, 64, 128};
__device__ short narrow[4] = {-1, 2, -3, 4};

struct Pair {
    int key;
    float value;
};

__device__ __noinline__ void sort(Pair *pairs, int n) {
    for (int i = 1; i < n; i++) {
        Pair one = pairs[i];
        int j = i;
        for (; j > 0 && pairs[j - 1].key > one.key; j--) pairs[j] = pairs[j - 1];
        pairs[j] = one;
    }
}

__device__ __noinline__ int dot(const int *values, int at) {
    int sum = 0;
    for (int i = 0; i < 5; i++) sum += weights[i] * values[(at + i) % 16];
    return sum;
}

extern "C" __global__ void local(const int *in, int *keys, float *values, int *dots) {
    int thread = threadIdx.x;
    Pair pairs[12];
    int copy[16];
    for (int i = 0; i < 12; i++) pairs[i] = {in[(thread * 7 + i * 5) % 64] % 1000, i * scale};
    sort(pairs, 12);
    for (int i = 0; i < 12; i++) {
        keys[thread * 12 + i] = pairs[i].key;
        values[thread * 12 + i] = pairs[i].value;
    }
    for (int i = 0; i < 16; i++) copy[(i * 3 + thread) % 16] = in[(thread + i) % 64];
    dots[thread] = dot(copy, copy[thread % 16] & 15) + table[thread % 8] + narrow[thread % 4];
}
