/* C = A·B by three loops, the definition written down: the documents' CPU program.
 *
 * Idea        One running sum per element of C; row i of A meets column j of B.
 * Picture     A is read along its rows (stride 1), B down its columns (stride n):
 *             every step of the inner loop touches another cache line of B.
 * Traffic     2 reads per multiply-add, 8 bytes for 2 operations; once a column of B
 *             no longer fits the cache, each read of B costs a whole line of 64 bytes.
 * What limits The inner loop is a chain of dependent additions in float32, which the
 *             compiler may not reorder without -ffast-math: one addition per latency.
 */
#include <stddef.h>

void triple_loop(const float *restrict A, const float *restrict B, float *restrict C,
                 int m, int n, int k)
{
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int p = 0; p < k; p++)
                sum += A[(size_t)i * k + p] * B[(size_t)p * n + j];
            C[(size_t)i * n + j] = sum;
        }
    }
}
