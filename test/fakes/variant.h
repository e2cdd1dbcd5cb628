#pragma once
// The library is linked several times, once for each driver that it can pose as. This is all that differs.

namespace fake {

/// CUDA version of the driver: names that are newer do not exist in it.
extern const int variant_driver_version;
/// Further names that do not exist, although the version would have them. Null-terminated; a trailing '*' is a prefix match.
extern const char* const variant_missing[];

/// Whether this library exports a name that came with `version`.
bool variant_exports(const char* name, int version);

} // namespace fake
