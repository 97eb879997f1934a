// cooperative_groups::reduce on the CPU, of a tile.
#pragma once

namespace cooperative_groups {

template <typename Value>
struct plus { Value operator()(Value a, Value b) const { return a + b; } };
template <typename Value>
struct less { Value operator()(Value a, Value b) const { return b < a ? b : a; } };
template <typename Value>
struct greater { Value operator()(Value a, Value b) const { return a < b ? b : a; } };

template <typename Tile, typename Value, typename Operator>
inline Value reduce(const Tile& tile, Value value, const Operator& combine)
{
    for (unsigned by = tile.size() / 2; by; by /= 2)
        value = combine(value, tile.shfl_xor(value, by));
    return value;
}

}  // namespace cooperative_groups
