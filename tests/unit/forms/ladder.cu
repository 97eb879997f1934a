// Right at multiples of its tiles, which are arguments of its template: a ladder's fifth step.
template <const int BM, const int BN, const int BK, const int TM, const int TN>
__global__ void f(int M, int N, int K, float alpha, const float* A, const float* B, float beta,
                  float* C)
{
    __shared__ float As[BM * BK], Bs[BK * BN];
    const unsigned tc = threadIdx.x % (BN / TN), tr = threadIdx.x / (BN / TN);
    const unsigned threads = BM * BN / (TM * TN);
    A += blockIdx.y * BM * K; B += blockIdx.x * BN; C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sums[TM * TN] = {0};
    for (int t = 0; t < K; t += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += threads) As[i] = A[i / BK * K + i % BK];
        for (int i = threadIdx.x; i < BK * BN; i += threads) Bs[i] = B[i / BN * N + i % BN];
        __syncthreads();
        A += BK; B += BK * N;
        for (int p = 0; p < BK; p++) for (int i = 0; i < TM; i++) for (int j = 0; j < TN; j++)
            sums[i * TN + j] += As[(tr * TM + i) * BK + p] * Bs[p * BN + tc * TN + j];
        __syncthreads();
    }
    for (int i = 0; i < TM; i++) for (int j = 0; j < TN; j++)
        {
        float* c = C + (tr * TM + i) * N + tc * TN + j; *c = alpha * sums[i * TN + j] + beta * *c; }
}
