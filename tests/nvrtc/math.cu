// sm_75 sm_90a
// Functions that are approximate, fast and accurate forms: compared within their errors.

extern "C" __global__ void math(const float *in, float *out) {
    int i = threadIdx.x, n = blockDim.x;
    float x = in[i], y = fabsf(x) + 0.125f;
    out[0 * n + i] = __expf(x);
    out[1 * n + i] = __logf(y);
    out[2 * n + i] = __fdividef(x, y);
    out[3 * n + i] = rsqrtf(y);
    out[4 * n + i] = __sinf(x);
    out[5 * n + i] = __cosf(x);
    out[6 * n + i] = exp2f(x);
    out[7 * n + i] = expf(x);
    out[8 * n + i] = tanhf(x);
    out[9 * n + i] = logf(y);
    out[10 * n + i] = __powf(y, x);
    out[11 * n + i] = 1 / (1 + __expf(-x));
    out[12 * n + i] = cbrtf(x);
    out[13 * n + i] = erff(x);
    float t;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(y));
    out[14 * n + i] = t;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(y));
    out[15 * n + i] = t;
}
