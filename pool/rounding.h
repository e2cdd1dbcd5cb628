#pragma once

#include <cstddef>

namespace cistern::pool {

/// The smallest multiple of `unit` that is not below `n`.
constexpr size_t round_up(size_t n, size_t unit) noexcept { return (n + unit - 1) / unit * unit; }

} // namespace cistern::pool
