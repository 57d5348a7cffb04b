// sm_75 sm_90a
// Vectors of every width, loaded, taken apart and stored; dynamic shared memory as two arrays.

extern __shared__ float4 dynamic[];

extern "C" __global__ void vectors(const float4 *in, float4 *reversed, uchar4 *bytes, short2 *shorts, double2 *doubles,
                                   longlong2 *wide) {
    int i = threadIdx.x, n = blockDim.x;
    float2 *second = reinterpret_cast<float2 *>(dynamic + n);
    float4 v = in[i];
    dynamic[i] = v;
    second[i] = make_float2(v.x + v.y, v.z - v.w);
    __syncthreads();
    float4 other = dynamic[n - 1 - i];
    float2 two = second[i ^ 1];
    reversed[i] = make_float4(other.w, other.z, two.x, two.y);
    bytes[i] = make_uchar4(v.x, v.y, v.z, i);
    shorts[i] = make_short2(-v.x, bytes[i].y * 2);
    doubles[i] = make_double2(v.x * 0.1, v.y / 3.0);
    wide[i] = make_longlong2(static_cast<long long>(v.z) << 33, -i);
}
