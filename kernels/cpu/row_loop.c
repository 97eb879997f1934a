/* C = A·B by the same three loops in another order: i, p, j instead of i, j, p.
 *
 * Idea        Element A[i][p] multiplies row p of B, and the result is added to row i of C.
 * Picture     C[i][0..n-1] += A[i][p] · B[p][0..n-1] for every p: B and C are both read
 *             along their rows (stride 1), and one row of C stays in the cache.
 * Traffic     2 reads and a write per multiply-add, but each line of B serves 16 of them;
 *             B passes by m times: 4mnk bytes.
 * What limits The loads: once B is larger than the cache, the memory behind it. No sum
 *             depends on the next, so the compiler may use vectors.
 */
#include <stddef.h>

void row_loop(const float *restrict A, const float *restrict B, float *restrict C,
              int m, int n, int k)
{
    for (int i = 0; i < m; i++) {
        float *row = C + (size_t)i * n;
        for (int j = 0; j < n; j++)
            row[j] = 0.0f;
        for (int p = 0; p < k; p++) {
            const float a = A[(size_t)i * k + p], *b = B + (size_t)p * n;
            for (int j = 0; j < n; j++)
                row[j] += a * b[j];
        }
    }
}
