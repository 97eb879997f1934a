// The text of inline PTX as data, read when a kernel is compiled.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace cuda_on_cpu::ptx {

struct Text {
    const char* begin;
    size_t length;

    constexpr bool operator==(Text other) const
    {
        if (length != other.length) return false;
        for (size_t i = 0; i < length; ++i)
            if (begin[i] != other.begin[i]) return false;
        return true;
    }
};

constexpr Text text(const char* begin)
{
    Text found = {begin, 0};
    while (begin[found.length]) ++found.length;
    return found;
}

// The word of this number between dots or blanks; empty behind the last one.
constexpr Text word(Text of, size_t number)
{
    size_t at = 0;
    for (; at < of.length && number; ++at)
        if (of.begin[at] == '.' || of.begin[at] == ' ') --number;
    size_t end = at;
    while (end < of.length && of.begin[end] != '.' && of.begin[end] != ' ') ++end;
    return {of.begin + at, end - at};
}

constexpr bool has(Text of, Text wanted)
{
    for (size_t at = 0; at <= of.length; ++at) {
        const Text found = word({of.begin + at, of.length - at}, 0);
        if (found == wanted) return true;
        at += found.length;
    }
    return false;
}

// `number`: of an operand, or a value. offset: of an address in brackets.
struct Argument {
    enum Kind { Register, Operand, Value } kind = Value;
    Text name = {nullptr, 0};  // of a register
    uint64_t number = 0;
    int64_t offset = 0;
};

// Of numbers; the names of PTX, one after the other.
enum class Type : char {
    b8,
    b16,
    b32,
    b64,
    u8,
    u16,
    u32,
    u64,
    s8,
    s16,
    s32,
    s64,
    f16,
    bf16,
    f32,
    f64,
    f16x2,
    bf16x2,
    tf32,
    pred,
    none
};
#define TYPES " b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64 f16x2 bf16x2 tf32 pred"

constexpr Type type_of(Text name)
{
    for (size_t i = 1; i <= size_t(Type::none); ++i)
        if (word(text(TYPES), i) == name) return Type(i - 1);
    return Type::none;
}

struct Instruction {
    Text name = {nullptr, 0};
    Type types[4] = {Type::none, Type::none, Type::none,
                     Type::none};  // that the name has, in their order
    size_t vector = 1;             // elements of a load or store
    bool shared = false;                                               // its memory
    size_t first = 0, count = 0;  // arguments
    bool guarded = false, negated = false;
    Argument guard = {};
    size_t handler = 0;
};

struct Label {
    Text name = {nullptr, 0};
    size_t target = 0;
};

constexpr size_t handler_of(Text name);  // of an instruction in the table below, or its size

constexpr bool is_letter(char c)
{
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '_' || c == '$';
}
constexpr bool is_digit(char c) { return '0' <= c && c <= '9'; }

struct Program {
    static constexpr size_t most = 24, most_arguments = 96, most_letters = 48;
    Instruction instructions[most] = {};
    Argument arguments[most_arguments] = {};
    Label labels[8] = {};
    size_t count = 0, argument_count = 0, label_count = 0;
    char unknown[most_letters] = {};  // the name of an instruction that is not in the table

    constexpr explicit Program(const char* source) : at(source)
    {
        for (skip(); *at && count < most; skip()) read_statement();
        if (*at) note_unknown(text("beyond the 24th of one asm"));
        at = nullptr;
    }

private:
    const char* at;

    constexpr void skip()
    {
        for (;; ++at) {
            if (at[0] == '/' && at[1] == '/') {
                while (at[1] && at[1] != '\n') ++at;
            } else if (at[0] == '/' && at[1] == '*') {
                for (at += 2; at[1] && !(at[0] == '*' && at[1] == '/');) ++at;
                ++at;
            } else if (*at != ' ' && *at != '\t' && *at != '\n' && *at != '\r') {
                return;
            }
        }
    }

    // With the dots and double colons of instructions and registers.
    constexpr Text read_name()
    {
        Text found = {at, 0};
        while (is_letter(*at) || is_digit(*at) || *at == '.' || (at[0] == ':' && at[1] == ':'))
            at += *at == ':' ? 2 : 1;
        found.length = size_t(at - found.begin);
        return found;
    }

    constexpr uint64_t read_number()
    {
        uint64_t value = 0;
        const bool bits = at[0] == '0' && (at[1] == 'x' || at[1] == 'X' || at[1] == 'f' ||
                                           at[1] == 'F' || at[1] == 'd');
        if (bits) at += 2;
        for (;; ++at) {
            const char c = *at | 0x20;
            if (is_digit(*at)) value = value * (bits ? 16 : 10) + uint64_t(*at - '0');
            else if (bits && 'a' <= c && c <= 'f') value = value * 16 + uint64_t(c - 'a' + 10);
            else break;
        }
        while (is_letter(*at) || is_digit(*at) || *at == '.')
            ++at;  // 16U; the fraction of a decimal
        return value;
    }

    constexpr Argument read_argument()
    {
        Argument found;
        const bool minus = *at == '-';
        if (minus) ++at;
        if (at[0] == '%' && is_digit(at[1])) {
            ++at;
            found.kind = Argument::Operand;
            found.number = read_number();
        } else if (is_digit(*at)) {
            found.number = minus ? -read_number() : read_number();
        } else {
            while (*at == '%' || *at == '!') ++at;
            found.kind = Argument::Register;
            found.name = read_name();
            if (!found.name.length) ++at;  // what is no PTX
        }
        return found;
    }

    constexpr void read_arguments(Instruction& made)
    {
        made.first = argument_count;
        for (skip(); *at && *at != ';'; skip()) {
            if (*at == ',' || *at == '{' || *at == '}' || *at == '[' || *at == ']' || *at == '|') {
                ++at;
            } else if (*at == '+') {
                ++at;
                skip();
                const bool minus = *at == '-';
                at += minus;
                arguments[argument_count - 1].offset += int64_t(read_number()) * (minus ? -1 : 1);
            } else {
                arguments[argument_count++] = read_argument();
            }
        }
        made.count = argument_count - made.first;
    }

    constexpr void read_modifiers(Instruction& made)
    {
        made.shared = has(made.name, text("shared")) || has(made.name, text("shared::cta"));
        made.vector = has(made.name, text("v4")) ? 4 : has(made.name, text("v2")) ? 2 : 1;
        for (size_t i = 1, found = 0; word(made.name, i).length && found < 4; ++i)
            if (const Type type = type_of(word(made.name, i)); type != Type::none)
                made.types[found++] = type;
    }

    constexpr void read_statement()
    {
        if (*at == '{' || *at == '}' || *at == ';') {
            ++at;
            return;
        }
        Instruction made;
        if (*at == '@') {
            ++at;
            made.guarded = true;
            made.negated = *at == '!';
            made.guard = read_argument();
            skip();
        }
        made.name = read_name();
        if (*at == ':') {
            labels[label_count++] = {made.name, count};
            ++at;
        } else if (made.name.length && made.name.begin[0] == '.') {  // .reg: names are enough
            while (*at && *at != ';') ++at;
        } else {
            made.handler = handler_of(made.name);
            read_modifiers(made);
            read_arguments(made);
            if (made.handler == handler_of({"", 0})) note_unknown(made.name);
            instructions[count++] = made;
        }
    }

    constexpr void note_unknown(Text name)
    {
        if (unknown[0]) return;
        for (size_t i = 0; i < most_letters && i < name.length; ++i) unknown[i] = name.begin[i];
        if (!name.length) unknown[0] = '?';
    }
};

// Which letters are those of an instruction that is not known; ptx.py reads them from g++'s
// message.
template <char... letters>
struct Refused {
    static_assert(sizeof...(letters) == 0, "not runnable on the CPU: an instruction of PTX");
};
template <char... rest>
struct Refused<'\0', rest...> {};

}  // namespace cuda_on_cpu::ptx
