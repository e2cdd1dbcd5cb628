#pragma once
// One address range of a pool: which parts have memory behind them, and how that memory is cut into blocks.
//
//   | used | ready |  hole  | ready | pending | used |            hole (never used yet)            |
//   |<- chunk 1 -->|        |<-- chunk 2 --->|<- chunk 3 ->|
//
// A chunk is one physical handle, mapped whole; blocks may cross chunk borders. Adjacent ready blocks are always merged.
// Bookkeeping only, no driver calls. Not thread-safe: the caller holds the pool's lock.

#include "pool/address_index.h"
#include "pool/free_index.h"

#include <cuda.h>
#include <map>
#include <memory>
#include <vector>

namespace cistern::pool {

struct Chunk {
    Address start = 0;
    size_t bytes = 0;
    CUmemGenericAllocationHandle handle = 0;
};

/// A hole, or part of one, that is about to get memory: first `moved` chunks in order, then `create` bytes of new ones.
struct Growth {
    Address start = 0;
    size_t bytes = 0;
    size_t create = 0;
    std::vector<Chunk> moved; ///< still mapped at their old addresses
    Block* left = nullptr;    ///< ready neighbours held back until the growth ends
    Block* right = nullptr;
};

/// Which wholly free chunks a growth may use instead of new memory.
enum class Moves : unsigned char {
    none,      ///< the driver refuses to unmap
    if_enough, ///< only if they suffice, so that few are moved
    all,       ///< memory is short: also if the rest has to be created
};

class Arena {
public:
    /// `unit`: block sizes and starts are multiples of it. `granularity`: the same for chunks; a multiple of `unit`.
    Arena(Address base, size_t bytes, size_t unit, size_t granularity);

    /// Best-fitting ready block, cut to size, now used; null if no ready block is large enough.
    Block* take(size_t bytes);
    /// Back to ready; merges with ready neighbours, so `block` may be gone afterwards.
    void put(Block* block) noexcept;

    Block* at(Address start) const noexcept { return index_.at(start); }
    /// The block that contains the address, whatever its state; null inside holes.
    Block* containing(Address address) const noexcept;

    /// Chooses where memory for a block of `need` bytes is added so that the least is missing, takes the place out of
    /// the holes and the neighbours out of circulation. Chunks that are wholly free are moved there as `moves` allows.
    /// Otherwise at least `step` bytes are created where the place has room.
    /// False if no hole is large enough. To be ended by commit or cancel.
    bool plan_growth(size_t need, size_t step, Moves moves, Growth& growth);
    /// The growth's range is mapped by `chunks`.
    void commit(const Growth& growth, const std::vector<Chunk>& chunks);
    /// The growth's range is not mapped. The old ranges of `moved` are the caller's to give back by `unmapped`.
    void cancel(const Growth& growth) noexcept;

    /// Takes every chunk that is covered by ready memory out of the arena. They are still mapped; the caller unmaps them
    /// and then calls `unmapped` for each.
    std::vector<Chunk> detach_free_chunks();
    void unmapped(const Chunk& chunk);
    /// A detached or moved chunk that could not be unmapped: ready memory again, as before.
    void restore(const Chunk& chunk);

    const std::map<Address, Chunk>& chunks() const noexcept { return chunks_; }
    size_t mapped_bytes() const noexcept { return mapped_; }
    /// Bytes of chunks that detach_free_chunks would take now.
    size_t free_chunk_bytes() const noexcept;

private:
    struct Place;
    Block* new_block(Address start, size_t bytes, BlockState state);
    void delete_block(Block* block) noexcept;
    bool wholly_free(const Chunk& chunk) const noexcept;
    void carve(const Chunk& chunk);
    void add_hole(Address start, size_t bytes);
    void cut_hole(Address start, size_t bytes);
    void consider(Address hole, size_t bytes, size_t need, Place& best) const noexcept;
    void hold_back(Block* block) noexcept;
    void choose_moves(const Place& place, Moves moves, Growth& growth);

    size_t granularity_;
    size_t unit_;
    AddressIndex index_;
    FreeIndex free_;
    std::map<Address, Chunk> chunks_;
    std::map<Address, size_t> holes_;
    size_t mapped_ = 0;
    std::vector<std::unique_ptr<Block[]>> storage_;
    Block* spare_ = nullptr; ///< unused Block objects, linked by next_in_bin
};

} // namespace cistern::pool
