// sm_75 sm_90a
// Arithmetic of doubles in every rounding.

extern "C" __global__ void doubles(const double *a, const double *b, double *out, int *integers, long long *longs) {
    int i = threadIdx.x, n = blockDim.x;
    double x = a[i], y = b[i];
    out[0 * n + i] = x + y;
    out[1 * n + i] = x * y;
    out[2 * n + i] = fma(x, y, -x * y);
    out[3 * n + i] = x / y;
    out[4 * n + i] = sqrt(fabs(x));
    out[5 * n + i] = floor(x) + ceil(y) + trunc(x) + rint(y);
    out[6 * n + i] = fmin(x, y) - fmax(-x, y);
    out[7 * n + i] = __dadd_ru(x, y) - __dadd_rd(x, y);
    out[8 * n + i] = __dmul_rz(x, y);
    out[9 * n + i] = copysign(x, y) + static_cast<double>(static_cast<float>(y));
    out[10 * n + i] = 1.0 / x;
    out[11 * n + i] = __longlong_as_double(__double_as_longlong(x) + 1);
    out[12 * n + i] = __drcp_ru(x) - __drcp_rd(x);
    integers[0 * n + i] = __double2int_rn(x);
    integers[1 * n + i] = __double2int_rz(y);
    integers[2 * n + i] = __double2hiint(x) ^ __double2loint(y);
    longs[0 * n + i] = __double2ll_ru(x);
    longs[1 * n + i] = __double2ull_rd(fabs(y));
    longs[2 * n + i] = isnan(x) | isinf(y) << 1 | signbit(x) << 2 | (x < y) << 3 | !(x >= y) << 4;
}
