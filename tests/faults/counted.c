// Each call writes a line with its m to the file that CALLS names, and takes some milliseconds.
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void counted(const float* A, const float* B, float* C, int m, int n, int k)
{
    const int calls = open(getenv("CALLS"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    dprintf(calls, "%d\n", m);
    close(calls);
    nanosleep(&(struct timespec){0, 4000000}, NULL);
    // mistake
    for (size_t i = 0; i < (size_t)m; i++)
        for (size_t j = 0; j < (size_t)n; j++) {
            float sum = 0;
            for (size_t p = 0; p < (size_t)k; p++) sum += A[i * k + p] * B[p * n + j];
            C[i * n + j] = sum;
        }
}
