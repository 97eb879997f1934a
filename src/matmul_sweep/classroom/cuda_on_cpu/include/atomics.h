// CUDA's atomic functions on the CPU, where no thread interrupts another one: plain arithmetic that
// the sanitizers do not watch. Each returns the old value.
#pragma once

namespace cuda_on_cpu {

#if defined(WATCH)
void watch_atomic(const void* address, size_t bytes, const void* place);
#endif

template <typename Value, typename Change>
UNWATCHED inline Value exchanged(Value* address, const Change& change)
{
#if defined(WATCH)
    watch_atomic(address, sizeof(Value), __builtin_return_address(0));
#endif
    const Value old = *address;
    *address = change(old);
    return old;
}

// The type of an argument that takes no part in finding out the type of the array.
template <typename Value>
struct Exactly { using type = Value; };
template <typename Value>
using Same = typename Exactly<Value>::type;

}  // namespace cuda_on_cpu

#define ATOMIC(name, new_value)                                                                    \
    template <typename Value>                                                                      \
    __attribute__((always_inline)) inline Value name(Value* address, cuda_on_cpu::Same<Value> own) \
    {                                                                                              \
        const auto change = [&](Value old) UNWATCHED { return Value(new_value); };                 \
        return cuda_on_cpu::exchanged(address, change);                                            \
    }
ATOMIC(atomicAdd, old + own)
ATOMIC(atomicSub, old - own)
ATOMIC(atomicExch, own)
ATOMIC(atomicMin, old < own ? old : own)
ATOMIC(atomicMax, old > own ? old : own)
ATOMIC(atomicAnd, old & own)
ATOMIC(atomicOr, old | own)
ATOMIC(atomicXor, old ^ own)
ATOMIC(atomicInc, old >= own ? 0 : old + 1)
ATOMIC(atomicDec, old == 0 || old > own ? own : old - 1)
#undef ATOMIC

template <typename Value>
__attribute__((always_inline)) inline Value
atomicCAS(Value* address, cuda_on_cpu::Same<Value> compare, cuda_on_cpu::Same<Value> own)
{
    return cuda_on_cpu::exchanged(
        address, [&](Value old) UNWATCHED { return old == compare ? own : old; });
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
