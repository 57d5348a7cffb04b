// sm_75 sm_90a
// 16-bit floats: scalars, pairs, conversions, comparisons.

#include <cuda_bf16.h>
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

    __nv_bfloat16 u = __float2bfloat16(a[i]), v = __float2bfloat16_rn(b[i]);
    auto put_b = [&](int at, __nv_bfloat16 value) { out[at * n + i] = __bfloat16_as_ushort(value); };
    put_b(12, u);
    put_b(13, __hmul(u, v));
    put_b(14, __hadd(u, v));
    put_b(15, __hfma(u, v, u));
    back[2 * n + i] = __bfloat162float(u) - __bfloat162float(v);
    __nv_bfloat162 both = __floats2bfloat162_rn(a[i], b[i]);
    pairs[2 * n + i] = *reinterpret_cast<unsigned *>(&both);
}
