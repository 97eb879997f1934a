// Barriers of some threads, to which they come and which they wait for, on the CPU.
#pragma once

namespace cuda_on_cpu {

// Returns the number of the barrier's meeting before this arrival.
UNWATCHED inline size_t arrive(Barrier& barrier, size_t threads)
{
    const size_t number = barrier.number;
    if (barrier.arrived && barrier.expected != threads) misuse("a barrier with two numbers of threads", HERE);
    barrier.expected = threads;
    released(reinterpret_cast<char*>(&barrier) + number % 2);
    if (++barrier.arrived == threads) {
        barrier.arrived = 0;
        ++barrier.number;
    }
    return number;
}

UNWATCHED inline bool passed(const void* counter, size_t number)
{
    return *static_cast<const size_t*>(counter) > number;
}

UNWATCHED inline void wait_at(const Barrier& barrier, size_t number, const char* words, size_t line)
{
    if (barrier.number <= number) wait_for({line, words, passed, &barrier.number, number});
    acquired(reinterpret_cast<const char*>(&barrier) + number % 2);
}

}  // namespace cuda_on_cpu
