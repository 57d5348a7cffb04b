// sm_75 sm_90a
// Counting, reversing, permuting and shifting bits.

extern "C" __global__ void bits(const unsigned *a, const unsigned *b, const unsigned long long *c, unsigned *words,
                                unsigned long long *wide) {
    int i = threadIdx.x, n = blockDim.x;
    unsigned x = a[i], y = b[i];
    unsigned long long v = c[i];
    words[0 * n + i] = __popc(x) | __popcll(v) << 8;
    words[1 * n + i] = __clz(x) | __clzll(v) << 8;
    words[2 * n + i] = __ffs(x) | __ffsll(v) << 8;
    words[3 * n + i] = __brev(x);
    words[4 * n + i] = __byte_perm(x, y, 0x6140);
    words[5 * n + i] = __byte_perm(x, y, y);
    words[6 * n + i] = __funnelshift_l(x, y, y);
    words[7 * n + i] = __funnelshift_r(x, y, x);
    words[8 * n + i] = __funnelshift_lc(x, y, i);
    words[9 * n + i] = __funnelshift_rc(x, y, i);
    words[10 * n + i] = (x & y) | (~x & i) ^ (y | i);
    unsigned field, placed, mode, shown;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(field) : "r"(x), "r"(y & 31), "r"(i & 15));
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(shown) : "r"(x), "r"(y & 31), "r"(i & 15));
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(placed) : "r"(x), "r"(y), "r"(y >> 5 & 31), "r"(i & 15));
    asm("prmt.b32.rc8 %0, %1, %2, %3;" : "=r"(mode) : "r"(x), "r"(y), "r"(i & 3));
    words[11 * n + i] = field;
    words[12 * n + i] = shown;
    words[13 * n + i] = placed;
    words[14 * n + i] = mode;
    unsigned table;
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(table) : "r"(x), "r"(y), "r"(i));
    words[15 * n + i] = table;
    unsigned highest;
    asm("bfind.u32 %0, %1;" : "=r"(highest) : "r"(x));
    words[16 * n + i] = highest;
    wide[0 * n + i] = __brevll(v);
    wide[1 * n + i] = v << (i & 63) | v >> (64 - i & 63);
    asm("bfe.u64 %0, %1, %2, %3;" : "=l"(wide[2 * n + i]) : "l"(v), "r"(y & 63), "r"(i & 31));
    asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(wide[3 * n + i]) : "l"(v), "l"(~v), "r"(y & 63), "r"(i & 31));
}
