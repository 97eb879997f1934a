// A kernel that somebody else wrote starts no process, which could outlive its limit.
#pragma once

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace cuda_on_cpu {

// From here on, calls that start a process or another program fail with EPERM.
inline void stay_alone()
{
    constexpr unsigned calls[] = {SYS_clone, SYS_fork, SYS_vfork, SYS_clone3, SYS_execve, SYS_execveat};
    constexpr unsigned char count = sizeof calls / sizeof *calls;
    constexpr unsigned other_abi = 0x40000000;  // the numbers of x32 begin there
    sock_filter program[count + 4] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, other_abi, count + 1, 0),
    };
    for (unsigned char i = 0; i < count; ++i)
        program[2 + i] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], (unsigned char)(count - i), 0);
    program[2 + count] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program[3 + count] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    const sock_fprog filter = {count + 4, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

}  // namespace cuda_on_cpu
