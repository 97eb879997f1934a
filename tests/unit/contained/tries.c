#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/keyctl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
static void* nothing(void* x) { return x; }
static long getpid_of_32_bits(void)
{
    long result = 20;
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
    return result;
}
static int early;
__attribute__((constructor)) static void before_main(void) { early = fork(); }
int main(int count, char** arguments)
{
    pthread_t thread;
    siginfo_t info = {0};
    char environment[64], *outside = arguments[1], *inside = "inside";
    sprintf(environment, "/proc/%d/environ", getppid());
    printf("before main: %d\n", early);
    TRIES
    printf("\033[2J");
    for (;;) if (count == 3) printf("again and again\n");
}
