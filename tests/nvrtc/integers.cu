// sm_75 sm_90a
// Integer arithmetic: quotients, remainders, high halves of products, carries, saturation, 8 and 16 bits.

extern "C" __global__ void integers(const int *a, const int *b, const long long *c, const long long *d, int *s32,
                                    unsigned *u32, long long *s64, unsigned long long *u64) {
    int i = threadIdx.x;
    int x = a[i], y = b[i];
    unsigned ux = x, uy = y;
    long long v = c[i], w = d[i];
    unsigned long long uv = v, uw = w;
    int n = blockDim.x;

    s32[0 * n + i] = x / y;
    s32[1 * n + i] = x % y;
    s32[2 * n + i] = __mulhi(x, y);
    s32[3 * n + i] = __mul24(x, y);
    s32[4 * n + i] = abs(x) - max(x, y) + min(x, y);
    s32[5 * n + i] = __hadd(x, y) ^ __rhadd(x, y);
    s32[6 * n + i] = static_cast<short>(x) * static_cast<short>(y) + static_cast<signed char>(x);
    s32[7 * n + i] = static_cast<short>(static_cast<short>(x) / static_cast<short>(y | 1));
    s32[8 * n + i] = x >> (y & 31);
    s32[9 * n + i] = x / 7 + x % 10 + y / -13;

    u32[0 * n + i] = ux / uy;
    u32[1 * n + i] = ux % uy;
    u32[2 * n + i] = __umulhi(ux, uy);
    u32[3 * n + i] = __usad(ux, uy, 5);
    u32[4 * n + i] = static_cast<unsigned short>(ux) * static_cast<unsigned char>(uy);
    u32[5 * n + i] = ux / 1000003 + uy % 641;
    u32[6 * n + i] = __sad(x, y, 9);
    u32[7 * n + i] = __umul24(ux, uy);
    u32[8 * n + i] = static_cast<unsigned>(__dp4a(x, y, 77));

    s64[0 * n + i] = v / w;
    s64[1 * n + i] = v % w;
    s64[2 * n + i] = __mul64hi(v, w);
    s64[3 * n + i] = v * w - static_cast<long long>(x) * y;
    s64[4 * n + i] = v >> (y & 63);
    s64[5 * n + i] = llabs(v) + (v < w ? v : w);

    u64[0 * n + i] = uv / uw;
    u64[1 * n + i] = uv % uw;
    u64[2 * n + i] = __umul64hi(uv, uw);
    u64[3 * n + i] = uv << (uy & 63);
    // 96 bits with carries.
    unsigned low, middle, high;
    asm("add.cc.u32 %0, %3, %4; addc.cc.u32 %1, %4, %3; addc.u32 %2, 0, 0;" : "=r"(low), "=r"(middle), "=r"(high) : "r"(ux), "r"(uy));
    u64[4 * n + i] = (static_cast<unsigned long long>(middle) << 32 | low) + high;
    unsigned long long less, borrow;
    asm("sub.cc.u64 %0, %2, %3; subc.u64 %1, 0, 0;" : "=l"(less), "=l"(borrow) : "l"(uv), "l"(uw));
    u64[5 * n + i] = less ^ borrow;
    unsigned product, carry;
    asm("mad.lo.cc.u32 %0, %2, %3, %2; madc.hi.u32 %1, %2, %3, 0;" : "=r"(product), "=r"(carry) : "r"(ux), "r"(uy));
    u64[6 * n + i] = static_cast<unsigned long long>(carry) << 32 | product;
    int more, less_sat;
    asm("add.sat.s32 %0, %2, %3; sub.sat.s32 %1, %2, %3;" : "=r"(more), "=r"(less_sat) : "r"(x), "r"(y));
    u64[7 * n + i] = static_cast<unsigned long long>(static_cast<unsigned>(more)) << 32 | static_cast<unsigned>(less_sat);
}
