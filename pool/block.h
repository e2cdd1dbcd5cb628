#pragma once
// A contiguous range of mapped pool memory with one state. Metadata lives on the host, never in the memory described.

#include <cstddef>
#include <cstdint>

namespace cistern::pool {

using Address = unsigned long long; ///< CUdeviceptr

enum class BlockState : unsigned char {
    ready,    ///< free, earlier work is over: may be handed out, moved, unmapped
    used,     ///< held by the program or cut into a slab
    pending,  ///< freed, earlier work may still touch it
    reserved, ///< ready memory next to a growth in progress, held back for it
};

struct Block {
    Address start = 0;
    size_t bytes = 0;
    size_t requested = 0; ///< what the program asked for; 0 unless used by it
    BlockState state = BlockState::ready;
    Block* next_in_bin = nullptr; ///< free list links, ready blocks only
    Block* previous_in_bin = nullptr;

    Address end() const noexcept { return start + bytes; }
};

} // namespace cistern::pool
