// sm_75 sm_90a
// Floats of 16 bits: scalars, pairs, conversions, comparisons.

#include <cuda_fp16.h>

extern "C" __global__ void halves(const float *a, const float *b, unsigned short *out, unsigned *pairs, float *back) {
    int i = threadIdx.x, n = blockDim.x;
    __half x = __float2half_rn(a[i]), y = __float2half_rn(b[i]);
    auto put = [&](int at, __half value) { out[at * n + i] = __half_as_ushort(value); };
    put(0, __hadd(x, y));
    put(1, __hsub(x, y));
    put(2, __hmul(x, y));
    put(3, __hfma(x, y, x));
    put(4, __hneg(x));
    put(5, __habs(y));
    put(6, __float2half_rz(a[i]));
    put(7, __float2half_rd(a[i]));
    put(8, __float2half_ru(a[i]));
    put(9, __int2half_rn(static_cast<int>(a[i] * 100)));
    put(10, __hgt(x, y) ? x : y);
    put(11, __hadd_sat(x, y));

    __half2 two = __halves2half2(x, y), turned = __lowhigh2highlow(two);
    __half2 sum = __hfma2(two, turned, two);
    pairs[0 * n + i] = *reinterpret_cast<unsigned *>(&sum);
    __half2 scaled = __hmul2(two, __float2half2_rn(0.5f));
    pairs[1 * n + i] = *reinterpret_cast<unsigned *>(&scaled);
    back[0 * n + i] = __half2float(x) + __low2float(sum);
    back[1 * n + i] = static_cast<float>(__half2int_rd(y) + __half2ushort_rz(__habs(x)));
}
