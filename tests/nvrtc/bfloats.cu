// sm_80 sm_90a
// Floats of 16 bits with the exponent of single precision.

#include <cuda_bf16.h>

extern "C" __global__ void bfloats(const float *a, const float *b, unsigned short *out, unsigned *pairs, float *back) {
    int i = threadIdx.x, n = blockDim.x;
    __nv_bfloat16 x = __float2bfloat16(a[i]), y = __float2bfloat16_rn(b[i]);
    auto put = [&](int at, __nv_bfloat16 value) { out[at * n + i] = __bfloat16_as_ushort(value); };
    put(0, x);
    put(1, __float2bfloat16_rz(a[i]));
    put(2, __hmul(x, y));
    put(3, __hadd(x, y));
    put(4, __hsub(x, y));
    put(5, __hfma(x, y, x));
    put(6, __hmax(x, y));
    put(7, __hneg(__habs(x)));
    back[0 * n + i] = __bfloat162float(x) - __bfloat162float(y);
    __nv_bfloat162 both = __floats2bfloat162_rn(a[i], b[i]);
    pairs[0 * n + i] = *reinterpret_cast<unsigned *>(&both);
    __nv_bfloat162 sum = __hfma2(both, both, both);
    pairs[1 * n + i] = *reinterpret_cast<unsigned *>(&sum);
}
