// sm_75 sm_90a
// The classic: a product by tiles of 16 x 16 in shared memory, and the same by vector loads.

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float as[16][16], bs[16][17];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        as[y][x] = row < n && k + x < n ? a[row * n + k + x] : 0;
        bs[y][x] = col < n && k + y < n ? b[(k + y) * n + col] : 0;
        __syncthreads();
#pragma unroll 4
        for (int i = 0; i < 16; i++) sum = __fmaf_rn(as[y][i], bs[i][x], sum);
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}
