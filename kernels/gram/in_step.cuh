// Blocks that stay, in step along k.
//
// Tiles that are computed at the same time have most of their slabs in common, and load them from the L2, if they are at
// the same place along k. Where k is long blocks drift apart, from tile to tile, until the L2 would have to hold all of
// their rows and columns: then slabs come from memory again. So they begin each wave of tiles together.
//
//     block 0    ── tile 0 ── wait ─┐── tile 3 ─────── ...
//     block 1    ── tile 1 ─────────┤── tile 4 ── wait ─┐
//     block 2    ── tile 2 ─ wait ──┘── tile 5 ─ wait ──┘
//
// Only who loads waits, and what the ring holds is multiplied meanwhile. Nothing but time depends on it: after some looks
// at the count a block goes on without the others, because nobody promises that all run at once.
#pragma once

constexpr int looks = 64;  // at the count, some 0.7 µs each

// Tell that one of `all` tiles begins, and wait until those of this wave and of the waves before it have begun, or for
// so many looks. begun: their count, which is 0 before the first one and after the last one.
__device__ __forceinline__ void begin_in_step(unsigned& begun, unsigned with_wave, unsigned all)
{
    const unsigned before = atomicInc(&begun, all - 1);
    for (int look = 0; look < looks; look++) {
        const unsigned now = *(volatile unsigned*)&begun;
        if (now >= with_wave || now <= before) return;  // or the last wave has begun, and the count is 0 again
    }
}
