// What stands around a kernel of namespaces: a launch, and what is for the host alone.
struct Timer { cudaEvent_t begin; void start() { cudaEventRecord(begin); } };
inline cudaError_t check(cudaError_t e) { cudaDeviceProp p; return e; }
void launch(float* A, float* B, float* C, int n, cudaStream_t s) {
    dim3 block(8, 4), grid((n + 7) / 8, (n + 3) / 4);
    lab::inner::f<<<grid, block, 0, s>>>(A, B, C, n);
}
