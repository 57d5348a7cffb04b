// sm_75 sm_90a --use_fast_math
// Without subnormals of single precision, and with the fastest division and root.

extern "C" __global__ void fast(const float *a, const float *b, float *exact, float *near, int *flags, double *wide) {
    int i = threadIdx.x, n = blockDim.x;
    float x = a[i], y = b[i];
    exact[0 * n + i] = x + y;
    exact[1 * n + i] = x * y;
    exact[2 * n + i] = fmaf(x, y, y);
    exact[3 * n + i] = fminf(x, y);
    exact[4 * n + i] = fabsf(x) - y;
    exact[5 * n + i] = __saturatef(x * 3.0f);
    near[0 * n + i] = x / y;
    near[1 * n + i] = sqrtf(fabsf(y));
    near[2 * n + i] = expf(x);
    near[3 * n + i] = 1.0f / y;
    flags[i] = (x < y) | (x == 0.0f) << 1 | (x <= 0.0f) << 2;
    wide[i] = x;
}
