// Becomes a program that somebody else wrote: within limits, out of reach of all files but those of
// the current folder, and with no way to another process, from before its first instruction on.
//
//     contain SECONDS FILE... -- PROGRAM ARGUMENT...
//
// FILE: what PROGRAM's loader reads, PROGRAM too; without any it is only limited.

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// linux/landlock.h of its third version, which the headers of older systems lack.
enum { CREATE_RULESET = 444, ADD_RULE, RESTRICT_SELF };
enum { EXECUTE = 1 << 0, WRITE_FILE = 1 << 1, READ_FILE = 1 << 2, TRUNCATE = 1 << 14 };
enum { EVERY_RIGHT = 0x7FFF, PATH_BENEATH = 1 };
struct path_beneath {
    uint64_t allowed;
    int32_t path;
} __attribute__((packed));

static void need(int done, const char* what)
{
    if (done) return;
    perror(what);
    _exit(NOT_STARTED);
}

static void limit(int resource, rlim_t most)
{
    struct rlimit limits;
    need(!getrlimit(resource, &limits), "getrlimit");
    if (most > limits.rlim_max) most = limits.rlim_max;  // a machine may allow less
    limits.rlim_cur = limits.rlim_max = most;
    need(!setrlimit(resource, &limits), "setrlimit");
}

static void allow(int rules, const char* path, uint64_t rights)
{
    const struct path_beneath rule = {rights, open(path, O_PATH | O_CLOEXEC)};
    need(!syscall(ADD_RULE, rules, PATH_BENEATH, &rule, 0), path);
    close(rule.path);
}

#ifdef __x86_64__
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(test, value, steps) BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, steps)
#define SKIP BPF_STMT(BPF_JMP | BPF_JA, 1)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1)  // EPERM
#define CALL(name) UNLESS(BPF_JEQ, SYS_##name, 1), ALLOW

// Leaves the system calls that a program makes which computes, and reads and writes files that have
// a name, and signals to itself. A list of what is refused would miss what Linux is to learn.
static void filter_calls(void)
{
    struct sock_filter steps[] = {
        LOAD(arch), UNLESS(BPF_JEQ, AUDIT_ARCH_X86_64, 1), SKIP, REFUSE, LOAD(nr),
        CALL(read), CALL(write), CALL(close), CALL(stat), CALL(fstat), CALL(lseek), CALL(mmap),
        CALL(mprotect), CALL(munmap), CALL(brk), CALL(rt_sigaction), CALL(rt_sigprocmask),
        CALL(rt_sigreturn), CALL(pread64), CALL(writev), CALL(access), CALL(sched_yield),
        CALL(mremap), CALL(madvise), CALL(nanosleep), CALL(setitimer), CALL(getpid), CALL(execve),
        CALL(exit), CALL(uname), CALL(getcwd), CALL(readlink), CALL(gettimeofday), CALL(getuid),
        CALL(getgid), CALL(geteuid), CALL(getegid), CALL(sigaltstack), CALL(arch_prctl),
        CALL(gettid), CALL(futex), CALL(set_tid_address), CALL(restart_syscall),
        CALL(clock_gettime), CALL(clock_nanosleep), CALL(exit_group), CALL(newfstatat),
        CALL(set_robust_list), CALL(getrandom), CALL(statx), CALL(rseq), CALL(faccessat2),
        UNLESS(BPF_JEQ, SYS_openat, 4), LOAD(args[2]),
        UNLESS(BPF_JSET, O_TMPFILE & ~O_DIRECTORY, 1), REFUSE, ALLOW,  // Landlock lets it pass
        UNLESS(BPF_JEQ, SYS_tgkill, 3), LOAD(args[0]), UNLESS(BPF_JEQ, getpid(), 1), ALLOW, REFUSE,
    };
    const struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    need(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
}
#else
static void filter_calls(void)
{
    need(0, "x86-64");
}
#endif

int main(int count, char** words)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    limit(RLIMIT_FSIZE, MOST_BYTES);
    limit(RLIMIT_AS, MOST_MEMORY);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, atoi(words[1]) + 2);
    char** word = words + 2;
    if (strcmp(*word, "--")) {
        const uint64_t handled = EVERY_RIGHT;
        const int rules = syscall(CREATE_RULESET, &handled, sizeof handled, 0);
        allow(rules, ".", READ_FILE | WRITE_FILE | TRUNCATE);
        for (; strcmp(*word, "--"); ++word) allow(rules, *word, READ_FILE | EXECUTE);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        need(!syscall(RESTRICT_SELF, rules, 0), "Landlock");
        filter_calls();
    }
    execv(word[1], word + 1);
    need(0, word[1]);
}
