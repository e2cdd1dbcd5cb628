#pragma once

namespace cistern::config {

/// "cistern build: version=... commit=... sources=... config=...". `sources` is the hash of pool/ and interposer/, by which
/// results are matched with a tree; `config` that of config/. Can be read from the object with strings(1).
const char* build_info() noexcept;

} // namespace cistern::config
