/* C = Aᵀ·A by three loops, float64: the upper triangle row by row, then mirrored.
 *
 * Idea        Row p of A adds the products of its elements to C: the sum over p is the
 *             outer loop but one, so that A and C are both read along their rows.
 * Picture     C[i][i..n-1] += A[p][i] · A[p][i..n-1] for every p: one row of the triangle
 *             stays in the cache while A passes by.
 * Traffic     A passes by n times, half of it on average: 4mn² bytes; two loads and a
 *             store per multiply-add, in vectors, because no sum depends on the next.
 * What limits The loads: once A is larger than the cache, the memory behind it.
 */
#include <stddef.h>

void gram_loop(const double *restrict A, double *restrict C, int m, int n)
{
    for (int i = 0; i < n; i++) {
        double *row = C + (size_t)i * n;
        for (int j = i; j < n; j++)
            row[j] = 0.0;
        for (int p = 0; p < m; p++) {
            const double *a = A + (size_t)p * n;
            for (int j = i; j < n; j++)
                row[j] += a[i] * a[j];
        }
        for (int j = i + 1; j < n; j++)
            C[(size_t)j * n + i] = row[j];
    }
}
