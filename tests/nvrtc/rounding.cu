// sm_75 sm_90a
// Single precision in every rounding, saturated, and converted.

extern "C" __global__ void rounding(const float *a, const float *b, float *out, int *integers, long long *longs) {
    int i = threadIdx.x, n = blockDim.x;
    float x = a[i], y = b[i];
    out[0 * n + i] = __fadd_rn(x, y);
    out[1 * n + i] = __fadd_rz(x, y);
    out[2 * n + i] = __fadd_rd(x, y);
    out[3 * n + i] = __fadd_ru(x, y);
    out[4 * n + i] = __fmul_rn(x, y);
    out[5 * n + i] = __fmul_rz(x, y);
    out[6 * n + i] = __fmul_rd(x, y);
    out[7 * n + i] = __fmul_ru(x, y);
    out[8 * n + i] = __fmaf_rn(x, y, x);
    out[9 * n + i] = __fmaf_rz(x, y, x);
    out[10 * n + i] = __fmaf_rd(x, y, x);
    out[11 * n + i] = __fmaf_ru(x, y, x);
    out[12 * n + i] = __fdiv_rn(x, y);
    out[13 * n + i] = __fdiv_rz(x, y);
    out[14 * n + i] = __fdiv_rd(x, y);
    out[15 * n + i] = __fdiv_ru(x, y);
    out[16 * n + i] = __fsqrt_rn(fabsf(x));
    out[17 * n + i] = __fsqrt_rz(fabsf(x));
    out[18 * n + i] = __fsqrt_rd(fabsf(x));
    out[19 * n + i] = __fsqrt_ru(fabsf(x));
    out[20 * n + i] = __frcp_rn(y);
    out[21 * n + i] = __frcp_ru(y);
    out[22 * n + i] = __saturatef(x);
    out[23 * n + i] = truncf(x) + floorf(y);
    out[24 * n + i] = rintf(x) - ceilf(y);
    out[25 * n + i] = roundf(x);
    out[26 * n + i] = __double2float_rz(static_cast<double>(x) * y);
    out[27 * n + i] = __double2float_ru(static_cast<double>(x) * y);
    out[28 * n + i] = __int2float_rn(__float_as_int(x)) + __uint2float_rz(__float_as_uint(y));
    out[29 * n + i] = __ll2float_rd(static_cast<long long>(__float_as_int(x)) * 12345);
    out[30 * n + i] = fminf(x, y) * 2 + fmaxf(x, -y);
    integers[0 * n + i] = __float2int_rn(x);
    integers[1 * n + i] = __float2int_rz(x);
    integers[2 * n + i] = __float2int_rd(x);
    integers[3 * n + i] = __float2int_ru(x);
    integers[4 * n + i] = static_cast<int>(__float2uint_rn(y));
    integers[5 * n + i] = static_cast<signed char>(static_cast<int>(x));
    longs[0 * n + i] = __float2ll_rn(x * 1e10f);
    longs[1 * n + i] = static_cast<long long>(__float2ull_rd(fabsf(y) * 1e12f));
}
