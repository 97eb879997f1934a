// Inline assembler on the CPU, where ptx.py makes CUDA_ON_CPU_PTX("...", operands) of each
// statement. The text is read when the kernel is compiled (ptx_program.h), so an unknown
// instruction is refused there, and interpreted when it runs. By the PTX ISA 9.0.
#pragma once

#include <initializer_list>

#include "barriers.h"
#include "copies.h"
#include "ptx_program.h"
#include "warp_matrices.h"

namespace cuda_on_cpu::ptx {

// ---- Running ----------------------------------------------------------------------------------

// A value of C++ that a statement reads, or writes too.
struct Operand {
    void* place;  // null for one that is only read
    size_t bytes;
    uint64_t bits;
};

template <typename Value>
__forceinline__ Operand input(const Value value)  // a template's g++ binds no &A[i] of restrict
{
    static_assert(sizeof(Value) <= 8, "a register has at most 8 bytes");
    Operand made = {nullptr, sizeof(Value), 0};
    __builtin_memcpy(&made.bits, &value, sizeof value);
    return made;
}

template <typename Value>
__forceinline__ Operand output(Value& value)
{
    Operand made = input(value);
    made.place = &value;
    return made;
}

struct Register {
    Text name;
    uint64_t bits;
};

// A statement that runs.
struct Run {
    const Program& program;
    size_t line;
    Place place;
    size_t register_count;
    Operand operands[32];
    Register registers[32];

    Run(const Program& program, size_t line, Place place)
        : program(program), line(line), place(place), register_count(0)
    {
    }

    UNWATCHED uint64_t& register_of(const Argument& argument)
    {
        for (size_t i = 0; i < register_count; ++i)
            if (registers[i].name == argument.name) return registers[i].bits;
        if (register_count == sizeof registers / sizeof *registers)
            misuse("over 32 registers in one asm", place);
        registers[register_count] = {argument.name, special(argument.name)};
        return registers[register_count++].bits;
    }

    UNWATCHED uint64_t bits_of(const Argument& argument)
    {
        if (argument.kind == Argument::Value) return argument.number;
        return argument.kind == Argument::Operand ? operands[argument.number].bits
                                                  : register_of(argument);
    }

    static uint64_t special(Text name);
};

// An instruction of it.
struct Call {
    Run& run;
    const Instruction& own;

    const Argument& argument(size_t i) const { return run.program.arguments[own.first + i]; }
    bool has(const char* modifier) const { return ptx::has(own.name, text(modifier)); }
    uint64_t bits(size_t i) const { return i < own.count ? run.bits_of(argument(i)) : 0; }

    template <typename Value>
    Value get(size_t i) const
    {
        const uint64_t found = bits(i);
        Value value;
        __builtin_memcpy(&value, &found, sizeof value);
        return value;
    }

    UNWATCHED void set_bits(size_t i, uint64_t bits) const
    {
        if (argument(i).kind != Argument::Operand) {
            run.register_of(argument(i)) = bits;
            return;
        }
        Operand& operand = run.operands[argument(i).number];
        operand.bits = bits;
        if (operand.place)
            copy(static_cast<unsigned char*>(operand.place),
                 reinterpret_cast<unsigned char*>(&bits), operand.bytes);
    }

    template <typename Value>
    void set(size_t i, Value value) const
    {
        uint64_t bits = 0;
        if constexpr (std::is_integral_v<Value>) bits = uint64_t(int64_t(value));
        else __builtin_memcpy(&bits, &value, sizeof value);
        set_bits(i, bits);
    }

    // Of so many bytes, in the space that the instruction names; it is watched.
    UNWATCHED void* memory(size_t i, size_t bytes, bool writes, bool watches = true) const
    {
        const uint64_t address = bits(i) + uint64_t(argument(i).offset);
        void* found = own.shared ? at_shared_address(address, bytes, run.place)
                                 : reinterpret_cast<void*>(address);
        if (!watches) return found;
        if (address % bytes) misaligned("vector of PTX", unsigned(bytes), run.place);
        watch(found, bytes, writes, run.place);
        return found;
    }
};

// ---- Types ------------------------------------------------------------------------------------

constexpr size_t bytes_of(Type type)
{
    constexpr size_t bytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 4, 4, 4, 4, 4};
    return bytes[size_t(type)];
}

constexpr bool has_sign(Type type) { return Type::s8 <= type && type <= Type::s64; }

// Numbers are computed with as one of four types of C++, which keeps this quick to compile.
UNWATCHED inline void decode(Type type, uint64_t bits, float& value)
{
    value = type == Type::f32 ? __builtin_bit_cast(float, uint32_t(bits))
                              : value_of(uint16_t(bits), type == Type::f16);
}
UNWATCHED inline void decode(Type, uint64_t bits, double& value)
{
    value = __builtin_bit_cast(double, bits);
}
UNWATCHED inline void decode(Type type, uint64_t bits, int64_t& value)
{
    const size_t unused = 64 - 8 * bytes_of(type);
    value = int64_t(bits << unused) >> unused;
}
UNWATCHED inline void decode(Type type, uint64_t bits, uint64_t& value)
{
    const size_t unused = 64 - 8 * bytes_of(type);
    value = bits << unused >> unused;
}

UNWATCHED inline uint64_t encode(Type type, float value)
{
    if (type == Type::f16) return __half(value).bits;
    if (type == Type::bf16) return __nv_bfloat16(value).bits;
    return __builtin_bit_cast(uint32_t, value);
}
UNWATCHED inline uint64_t encode(Type, double value) { return __builtin_bit_cast(uint64_t, value); }
UNWATCHED inline uint64_t encode(Type, int64_t value) { return uint64_t(value); }
UNWATCHED inline uint64_t encode(Type, uint64_t value) { return value; }

// Calls `use` with a zero of the type that numbers are computed with.
template <typename Use>
UNWATCHED uint64_t with_type(Type type, const Use& use)
{
    if (type == Type::f64) return use(double());
    if (type == Type::f32 || type == Type::f16 || type == Type::bf16) return use(float());
    return has_sign(type) ? use(int64_t()) : use(uint64_t());
}

template <typename Compute>
UNWATCHED uint64_t computed(Type type, uint64_t a, uint64_t b, uint64_t c, const Compute& result)
{
    return with_type(type, [&](auto zero) UNWATCHED {
        decltype(zero) x, y, z;
        decode(type, a, x);
        decode(type, b, y);
        decode(type, c, z);
        return encode(type, decltype(zero)(result(x, y, z)));
    });
}

// ---- Instructions -----------------------------------------------------------------------------

UNWATCHED inline void nothing(const Call&) {}

UNWATCHED inline uint64_t Run::special(Text name)
{
    const auto is = [=](const char* one) UNWATCHED { return name == text(one); };
    const auto of = [=](const char* one, const auto& extents) UNWATCHED -> const unsigned* {
        const Text all = text(one);
        if (name.length != all.length + 2 || !(Text{name.begin, all.length} == all)) return nullptr;
        const char last = name.begin[all.length + 1];
        return last == 'x' ? &extents.x : last == 'y' ? &extents.y : &extents.z;
    };
    if (is("laneid")) return lane_number();
    if (is("warpid")) return thread_number() / warp_threads;
    if (is("clock") || is("clock64") || is("globaltimer")) return __builtin_ia32_rdtsc();
    for (const unsigned* found :
         {of("tid", threadIdx), of("ctaid", blockIdx), of("ntid", blockDim), of("nctaid", gridDim)})
        if (found) return *found;
    return 0;
}

UNWATCHED inline void load(const Call& call)
{
    const Type type = call.own.types[0];
    const size_t count = call.own.vector, bytes = bytes_of(type);
    const auto* from = static_cast<const unsigned char*>(call.memory(count, count * bytes, false));
    uint64_t loaded[4] = {};
    for (size_t i = 0; i < count; ++i) {
        copy(reinterpret_cast<unsigned char*>(&loaded[i]), from + i * bytes, bytes);
        int64_t whole;
        if (has_sign(type)) decode(type, loaded[i], whole), loaded[i] = uint64_t(whole);
    }
    for (size_t i = 0; i < count; ++i) call.set_bits(i, loaded[i]);
}

UNWATCHED inline void store(const Call& call)
{
    const size_t count = call.own.vector, bytes = bytes_of(call.own.types[0]);
    auto* to = static_cast<unsigned char*>(call.memory(0, count * bytes, true));
    for (size_t i = 0; i < count; ++i) {
        const uint64_t bits = call.bits(1 + i);
        copy(to + i * bytes, reinterpret_cast<const unsigned char*>(&bits), bytes);
    }
}

UNWATCHED inline void add_atomically(const Call& call)
{
    const bool returns = word(call.own.name, 0) == text("atom");
    const Type type = call.own.types[0];
    auto* place = static_cast<unsigned char*>(call.memory(returns, bytes_of(type), true, false));
#if defined(WATCH)
    watch_atomic(place, bytes_of(type), call.run.place);
#endif
    uint64_t old = 0;
    copy(reinterpret_cast<unsigned char*>(&old), place, bytes_of(type));
    const uint64_t sum = computed(type, old, call.bits(returns + 1), 0,
                                  [](auto a, auto b, auto) UNWATCHED { return a + b; });
    copy(place, reinterpret_cast<const unsigned char*>(&sum), bytes_of(type));
    if (returns) call.set_bits(0, old);
}

UNWATCHED inline void copy_asynchronously(const Call& call)
{
    const unsigned bytes = unsigned(call.bits(2));
    const bool sized = call.own.count > 3u + call.has("L2::cache_hint");
    const unsigned valid = sized ? unsigned(call.bits(3)) : bytes;
    if (bytes != 4 && bytes != 8 && bytes != 16)
        misuse("cp.async of other than 4, 8 or 16 bytes", call.run.place);
    if (call.has("cg") && bytes != 16) misuse("cp.async.cg of other than 16 bytes", call.run.place);
    void* to =
        at_shared_address(call.bits(0) + uint64_t(call.argument(0).offset), bytes, call.run.place);
    copy_async(to, reinterpret_cast<const void*>(call.bits(1) + uint64_t(call.argument(1).offset)),
               bytes, valid, call.run.place);
}

UNWATCHED inline void commit(const Call&) { commit_copies(); }
UNWATCHED inline void wait_group(const Call& call) { wait_for_copies(call.bits(0)); }
UNWATCHED inline void wait_all(const Call&)
{
    commit_copies();
    wait_for_copies(0);
}

UNWATCHED inline void load_matrix(const Call& call)
{
    const int count = call.has("x4") ? 4 : call.has("x2") ? 2 : 1;
    uint32_t fragments[4];
    // Only the lanes that give a row of a matrix need an address.
    const bool gives = lane_number() < 8u * unsigned(count);
    const void* row = gives ? call.memory(size_t(count), 16, false, false) : nullptr;
    load_matrices(fragments, count, row, call.has("trans"), call.run.line, call.run.place);
    for (int i = 0; i < count; ++i) call.set(size_t(i), fragments[i]);
}

UNWATCHED inline void store_matrix(const Call& call)
{
    const int count = call.has("x4") ? 4 : call.has("x2") ? 2 : 1;
    uint32_t fragments[4];
    for (int i = 0; i < count; ++i) fragments[i] = call.get<uint32_t>(size_t(i) + 1);
    const bool gives = lane_number() < 8u * unsigned(count);
    void* row = gives ? call.memory(0, 16, true, false) : nullptr;
    store_matrices(fragments, count, row, call.has("trans"), call.run.line, call.run.place);
}

// D = A·B + C with words of A and B, and of C and D. The shape is m16n8k8, for instance.
template <typename Sum, typename Word, typename Value>
UNWATCHED void multiply(const Call& call, size_t rows, size_t depth, size_t packed,
                        const Value& value)
{
    const size_t of_b = depth / packed / 4, of_a = rows / 8 * of_b, sums = rows / 4;
    const bool short_sums = call.own.types[0] == Type::f16;
    const size_t of_d = short_sums ? sums / 2 : sums, first_c = of_d + of_a + of_b;
    Word a[8], b[4];
    for (size_t i = 0; i < of_a; ++i) a[i] = call.get<Word>(of_d + i);
    for (size_t i = 0; i < of_b; ++i) b[i] = call.get<Word>(of_d + of_a + i);
    Sum own[4];
    for (size_t i = 0; i < sums; ++i)
        if (short_sums)
            own[i] = Sum(value_of(uint16_t(call.bits(first_c + i / 2) >> 16 * (i % 2)), true));
        else own[i] = call.get<Sum>(first_c + i);
    multiply_warp(own, a, b, rows, depth, packed, value, call.run.line);
    for (size_t i = 0; i < of_d; ++i)
        if (short_sums)
            call.set(i, uint32_t(__half(float(own[2 * i])).bits | __half(float(own[2 * i + 1])).bits
                                                                      << 16));
        else call.set(i, own[i]);
}

UNWATCHED inline void multiply_matrices(const Call& call)
{
    const Type of_a = call.own.types[1];
    const size_t rows = call.has("m8n8k4") ? 8 : 16;
    const size_t depth = call.has("m8n8k4") || call.has("m16n8k4") ? 4 : call.has("m16n8k8") ? 8
                         : call.has("m16n8k16") ? 16 : 32;
    if (of_a == Type::f64)
        return multiply<double, double>(call, rows, depth, 1,
                                        [](double word, size_t) UNWATCHED { return word; });
    if (of_a == Type::tf32)  // of which the lower 13 bits do not count
        return multiply<float, uint32_t>(call, rows, depth, 1, [](uint32_t word, size_t) UNWATCHED {
            return __builtin_bit_cast(float, word & ~0x1FFFu);
        });
    if (of_a == Type::s8 || of_a == Type::u8) {
        const bool own = of_a == Type::s8;
        if (call.own.types[2] != of_a) misuse("mma of s8 and u8 together", call.run.place);
        return multiply<int32_t, uint32_t>(
            call, rows, depth, 4, [=](uint32_t word, size_t i) UNWATCHED {
                return own ? int32_t(int8_t(word >> 8 * i)) : int32_t(uint8_t(word >> 8 * i));
            });
    }
    const bool half = of_a == Type::f16;
    multiply<float, uint32_t>(call, rows, depth, 2, [=](uint32_t word, size_t i) UNWATCHED {
        return value_of(uint16_t(word >> 16 * i), half);
    });
}

UNWATCHED inline void meet_at_barrier(const Call& call)
{
    if (call.has("warp")) exchange(unsigned(call.bits(0)), 0, call.run.line);
    else if (call.own.count < 2 && call.bits(0) == 0) wait_for_block(call.run.line);
    else {
        Barrier& barrier = current->block->named[call.bits(0) % 16];
        const size_t threads = call.own.count < 2 ? thread_count : call.bits(1);
        const size_t number = arrive(barrier, threads);
        if (!call.has("arrive")) wait_at(barrier, number, "a named barrier", call.run.line);
    }
}

UNWATCHED inline void move_value(const Call& call) { call.set_bits(0, call.bits(1)); }
UNWATCHED inline void to_shared(const Call& call)
{
    call.set_bits(0, call.has("to") && call.has("shared")
                         ? shared_address(reinterpret_cast<void*>(call.bits(1)))
                     : call.has("shared") ? call.bits(1) + shared_base()
                                          : call.bits(1));
}

UNWATCHED inline void convert(const Call& call)
{
    if (call.own.count == 3) {  // two floats to a pair, the second one below
        const bool half = call.has("f16x2");
        const auto bits = [&](size_t i) UNWATCHED {
            const float value = call.get<float>(i);
            return uint32_t(half ? __half(value).bits : __nv_bfloat16(value).bits);
        };
        return call.set(0, bits(1) << 16 | bits(2));
    }
    if (call.own.types[0] == Type::tf32) {  // to nearest, ties away from zero
        return call.set(0, (call.get<uint32_t>(1) + 0x1000u) & ~0x1FFFu);
    }
    const Type from = call.own.types[1], to = call.own.types[0];
    call.set_bits(0, with_type(from, [&](auto zero) UNWATCHED {
        decltype(zero) value;
        decode(from, call.bits(1), value);
        return with_type(to, [&](auto made) UNWATCHED {
            if constexpr (std::is_floating_point_v<decltype(zero)> &&
                          !std::is_floating_point_v<decltype(made)>)
                return encode(to, decltype(made)(call.has("rzi")   ? trunc(value)
                                                 : call.has("rmi") ? floor(value)
                                                 : call.has("rpi") ? ceil(value)
                                                                   : nearbyint(value)));
            else
                return encode(to, decltype(made)(value));
        });
    }));
}

// Of values of one type; of pairs of short floats for each.
template <typename Compute>
UNWATCHED void compute(const Call& call, const Compute& result)
{
    const Type type = call.own.types[0];
    if (type != Type::f16x2 && type != Type::bf16x2)
        return call.set_bits(0, computed(type, call.bits(1), call.bits(2), call.bits(3), result));
    const Type half = type == Type::f16x2 ? Type::f16 : Type::bf16;
    uint64_t pair = 0;
    for (int by : {0, 16})
        pair |= computed(half, call.bits(1) >> by, call.bits(2) >> by, call.bits(3) >> by, result)
                << by;
    call.set_bits(0, pair);
}

#define COMPUTE(name, expression)                                                                   \
    UNWATCHED inline void name(const Call& call)                                                    \
    {                                                                                               \
        compute(call, [&](auto a, [[maybe_unused]] auto b, [[maybe_unused]] auto c) UNWATCHED {     \
            using Value [[maybe_unused]] = decltype(a);                                             \
            return expression;                                                                      \
        });                                                                                         \
    }
#define COMPUTE_BITS(name, expression)                                                              \
    UNWATCHED inline void name(const Call& call)                                                    \
    {                                                                                               \
        const uint64_t a = call.bits(1), b [[maybe_unused]] = call.bits(2);                         \
        call.set_bits(0, expression);                                                               \
    }
COMPUTE(add, Value(a + b))
COMPUTE(subtract, Value(a - b))
COMPUTE(multiply_values, Value(a * b))
COMPUTE(multiply_add, Value(a * b + c))
COMPUTE(divide, Value(a / b))
COMPUTE(smaller, b < a ? b : a)
COMPUTE(larger, a < b ? b : a)
COMPUTE(negate, Value(-a))
COMPUTE(magnitude, a < Value(0) ? Value(-a) : a)
COMPUTE(reciprocal, Value(1 / a))
COMPUTE(square_root, Value(sqrt(a)))
COMPUTE(reciprocal_root, Value(1 / sqrt(a)))
COMPUTE(power_of_two, Value(exp2(a)))
COMPUTE(binary_logarithm, Value(log2(a)))
COMPUTE(hyperbolic_tangent, Value(tanh(a)))
COMPUTE(fused_multiply_add, Value(fma(a, b, c)))
COMPUTE_BITS(both, a & b)
COMPUTE_BITS(either, a | b)
COMPUTE_BITS(either_or, a ^ b)
COMPUTE_BITS(inverse, ~a)
COMPUTE_BITS(left, b < 64 ? a << b : 0)
#undef COMPUTE
#undef COMPUTE_BITS

UNWATCHED inline void right(const Call& call)
{
    const uint64_t by = call.bits(2) < 63 ? call.bits(2) : 63;
    int64_t whole;
    uint64_t natural;
    decode(call.own.types[0], call.bits(1), whole);
    decode(call.own.types[0], call.bits(1), natural);
    call.set_bits(0, has_sign(call.own.types[0]) ? uint64_t(whole >> by) : natural >> by);
}

UNWATCHED inline void wide_product(const Call& call)
{
    const bool sign = call.own.types[0] == Type::s32, adds = word(call.own.name, 0) == text("mad");
    const uint64_t product = sign ? uint64_t(int64_t(call.get<int32_t>(1)) * call.get<int32_t>(2))
                                  : uint64_t(call.get<uint32_t>(1)) * call.get<uint32_t>(2);
    call.set_bits(0,
                  call.has("hi") ? uint32_t(product >> 32) : product + (adds ? call.bits(3) : 0));
}

UNWATCHED inline void compare(const Call& call)
{
    const Type type = call.own.types[0];
    call.set_bits(0, with_type(type, [&](auto zero) UNWATCHED {
        decltype(zero) a, b;
        decode(type, call.bits(1), a);
        decode(type, call.bits(2), b);
        return uint64_t(call.has("eq")                     ? a == b
                        : call.has("ne")                   ? a != b
                        : call.has("lt") || call.has("lo") ? a < b
                        : call.has("le") || call.has("ls") ? a <= b
                        : call.has("gt") || call.has("hi") ? a > b
                                                           : a >= b);
    }));
}

UNWATCHED inline void select(const Call& call)
{
    call.set_bits(0, call.bits(call.bits(3) ? 1 : 2));
}

struct Handler {
    const char *name, *modifiers;  // "*" for any
    void (*run)(const Call&);
};

#define MEMORY                                                                                    \
    " global shared shared::cta const local param volatile relaxed acquire release weak gpu cta " \
    "sys nc ca cg cs cv lu wb wt v2 v4"                                                           \
    " L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate"        \
    " L2::64B L2::128B L2::256B L2::evict_first L2::evict_last L2::evict_normal "                 \
    "L2::cache_hint" TYPES
#define ARITHMETIC " rn rz rm rp ftz sat approx full lo" TYPES

// The longer of two names that begin alike comes first.
constexpr Handler handlers[] = {
    {"cp.async.commit_group", "", commit},
    {"cp.async.wait_group", "", wait_group},
    {"cp.async.wait_all", "", wait_all},
    {"cp.async", "ca cg shared shared::cta global L2::64B L2::128B L2::256B L2::cache_hint",
     copy_asynchronously},
    {"createpolicy", "*", nothing},
    {"ldmatrix", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16", load_matrix},
    {"stmatrix", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16", store_matrix},
    {"mma",
     "sync aligned row col satfinite m16n8k4 m16n8k8 m16n8k16 m16n8k32 f16 bf16 tf32 f32 s8 u8 s32",
     multiply_matrices},
    {"mma", "sync aligned row col m8n8k4 m16n8k4 m16n8k8 rn f64", multiply_matrices},
    {"ld", MEMORY, load},
    {"ldu", MEMORY, load},
    {"st", MEMORY, store},
    {"red", "global shared shared::cta relaxed gpu cta add noftz" TYPES, add_atomically},
    {"atom", "global shared shared::cta relaxed gpu cta add noftz" TYPES, add_atomically},
    {"cvta", "to shared global u32 u64", to_shared},
    {"cvt", "rn rna rz rzi rni rmi rpi sat satfinite ftz" TYPES, convert},
    {"mov", TYPES, move_value},
    {"add", ARITHMETIC, add},
    {"sub", ARITHMETIC, subtract},
    {"mul.wide", TYPES, wide_product},
    {"mul.hi", " u32 s32", wide_product},
    {"mad.wide", TYPES, wide_product},
    {"mul", ARITHMETIC, multiply_values},
    {"mad", ARITHMETIC, multiply_add},
    {"fma", ARITHMETIC, fused_multiply_add},
    {"div", ARITHMETIC, divide},
    {"min", ARITHMETIC, smaller},
    {"max", ARITHMETIC, larger},
    {"neg", ARITHMETIC, negate},
    {"abs", ARITHMETIC, magnitude},
    {"rcp", ARITHMETIC, reciprocal},
    {"sqrt", ARITHMETIC, square_root},
    {"rsqrt", ARITHMETIC, reciprocal_root},
    {"ex2", ARITHMETIC, power_of_two},
    {"lg2", ARITHMETIC, binary_logarithm},
    {"tanh", ARITHMETIC, hyperbolic_tangent},
    {"and", TYPES, both},
    {"or", TYPES, either},
    {"xor", TYPES, either_or},
    {"not", TYPES, inverse},
    {"shl", TYPES, left},
    {"shr", TYPES, right},
    {"setp", "eq ne lt le gt ge lo ls hi hs" TYPES, compare},
    {"selp", TYPES, select},
    {"bar", "sync arrive warp cta aligned", meet_at_barrier},
    {"barrier", "sync arrive cta aligned", meet_at_barrier},
    {"membar", "*", nothing},
    {"fence", "acq_rel sc cta gpu sys cluster", nothing},
    {"prefetch", "*", nothing},
    {"prefetchu", "*", nothing},
    {"nanosleep", "u32", nothing},
    {"bra", "uni", nullptr},
};
constexpr size_t handler_count = sizeof handlers / sizeof *handlers;

constexpr bool fits(Text name, const Handler& handler)
{
    const Text own = text(handler.name);
    if (name.length < own.length || !(Text{name.begin, own.length} == own)) return false;
    const Text rest = {name.begin + own.length, name.length - own.length};
    if (rest.length && rest.begin[0] != '.') return false;
    for (size_t i = 1; word(rest, i).length; ++i)
        if (handler.modifiers[0] != '*' && !has(text(handler.modifiers), word(rest, i)))
            return false;
    return true;
}

constexpr size_t handler_of(Text name)
{
    size_t found = 0;
    while (found < handler_count && !fits(name, handlers[found])) ++found;
    return found;
}

UNWATCHED inline void run(const Program& program, std::initializer_list<Operand> operands,
                          size_t line = __builtin_LINE())
{
    Run own(program, line, HERE);
    for (size_t i = 0; i < operands.size(); ++i) own.operands[i] = operands.begin()[i];
    for (size_t i = 0; i < program.count; ++i) {
        const Instruction& instruction = program.instructions[i];
        if (instruction.guarded && bool(own.bits_of(instruction.guard)) == instruction.negated)
            continue;
        const Call call = {own, instruction};
        if (handlers[instruction.handler].run) handlers[instruction.handler].run(call);
        else
            for (const Label& label : program.labels)
                if (label.name == call.argument(0).name) i = label.target - 1;
    }
}

}  // namespace cuda_on_cpu::ptx

#define LETTERS_OF_8(from, i)                                                              \
    from[i], from[i + 1], from[i + 2], from[i + 3], from[i + 4], from[i + 5], from[i + 6], \
        from[i + 7]
#define LETTERS_OF(from)                                                                                    \
    LETTERS_OF_8(from, 0), LETTERS_OF_8(from, 8), LETTERS_OF_8(from, 16), LETTERS_OF_8(from, 24),           \
    LETTERS_OF_8(from, 32), LETTERS_OF_8(from, 40)
#define CUDA_ON_CPU_PTX(text, ...)                                                        \
    do {                                                                                  \
        static constexpr ::cuda_on_cpu::ptx::Program program_of_ptx(text);                \
        (void)::cuda_on_cpu::ptx::Refused<LETTERS_OF(program_of_ptx.unknown)>();          \
        ::cuda_on_cpu::ptx::run(program_of_ptx, {__VA_ARGS__});                           \
    } while (0)
