#pragma once
// Size classes of small blocks: multiples of 512 bytes up to 4 KiB, then four per doubling up to 1 MiB (waste <= 20 %).

#include <bit>
#include <cstddef>

namespace cistern::pool::size_class {

inline constexpr size_t alignment = 512; ///< native: small allocations are 512-byte aligned, textures need it
inline constexpr size_t largest = size_t{1} << 20;
inline constexpr size_t fine = 4096; ///< up to here one class per 512 bytes
inline constexpr int count = 8 + 8 * 4;

/// Class of a request of 1 .. largest bytes.
constexpr int of(size_t bytes) noexcept {
    if (bytes <= fine) return static_cast<int>((bytes + alignment - 1) / alignment) - 1;
    const int order = static_cast<int>(std::bit_width(bytes - 1)) - 1; // 2^order < bytes <= 2^(order+1), order >= 12
    const auto quarter = static_cast<int>(((bytes - 1) >> (order - 2)) & 3);
    return 8 + (order - 12) * 4 + quarter;
}

/// Bytes of a block of the class.
constexpr size_t bytes(int size_class) noexcept {
    if (size_class < 8) return (static_cast<size_t>(size_class) + 1) * alignment;
    const int order = 12 + (size_class - 8) / 4;
    return (size_t{1} << order) + (static_cast<size_t>((size_class - 8) % 4) + 1) * (size_t{1} << (order - 2));
}

/// Bytes of a slab of the class: large classes get larger slabs so that the tail stays below 7 %.
constexpr size_t slab_bytes(int size_class) noexcept {
    return bytes(size_class) <= (size_t{256} << 10) ? size_t{2} << 20 : size_t{8} << 20;
}

static_assert(of(1) == 0 && of(512) == 0 && of(513) == 1 && of(4096) == 7 && of(4097) == 8 && of(largest) == count - 1);
static_assert(bytes(8) == 5120 && bytes(count - 1) == largest);

} // namespace cistern::pool::size_class
