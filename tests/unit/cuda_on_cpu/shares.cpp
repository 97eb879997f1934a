// Reads cases of stream_k.cuh's Schedule, "heavy light slabs" a line. For each it walks through the shares of
// all blocks in their order, and prints "whole_tiles stretches faults": faults are slabs that are not
// multiplied once, sums that are wanted and not left before, or left and not wanted.
#include <algorithm>
#include <iostream>
#include <vector>

using std::max;
using std::min;
#define __CUDACC__  // launches do not overlap
#define __device__
#define __forceinline__ inline
#define __shared__ static
struct { int x; } threadIdx, blockIdx;
void __syncthreads() {}

#include "stream_k.cuh"

struct Shares : EachBlock {
    static constexpr int blocks = 132, threads = 1, least = 2, heavy_cost = 4, light_cost = 3;
};

using Stream = StreamK<Shares>;

int main()
{
    int heavy, light, slabs;
    while (std::cin >> heavy >> light >> slabs) {
        std::vector<int> multiplied((heavy + light) * (size_t)slabs), left(Shares::blocks);
        Stream::Schedule schedule;
        long long faults = 0;
        for (blockIdx.x = 0; blockIdx.x < Shares::blocks; blockIdx.x++) {
            schedule = Stream::Schedule::of(heavy, light, slabs);
            for (Stream::Part part = schedule.next(); !part.empty(); part = schedule.next()) {
                for (int slab = part.begin; slab < part.end; slab++)
                    multiplied[part.tile * (size_t)slabs + slab]++;
                if (schedule.leaves(part))
                    left[schedule.stretch]++;
                else
                    for (int other = schedule.first_stretch(part); other < schedule.stretch; other++)
                        faults += left[other]-- != 1;
            }
        }
        for (int count : multiplied) faults += count != 1;
        for (int count : left) faults += count != 0;
        std::cout << schedule.whole_tiles << ' ' << schedule.stretches << ' ' << faults << '\n';
    }
}
