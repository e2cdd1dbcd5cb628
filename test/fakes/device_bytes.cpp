// What "the GPU" does to memory. Plain loops that a sanitizer does not watch and the compiler does not turn into memset or
// memcpy (whose interceptors it would watch).

#include "test/fakes/referee.h"

#include <cstring>

#if defined(__clang__)
#define SIM_UNWATCHED __attribute__((no_sanitize("thread", "address", "undefined"), noinline))
#elif defined(__GNUC__)
#define SIM_UNWATCHED                                                                                                  \
    __attribute__((no_sanitize("thread"), no_sanitize("address"), no_sanitize("undefined"), noinline,                  \
                   optimize("no-tree-loop-distribute-patterns")))
#endif

namespace fake {
namespace {

using Word = uint64_t __attribute__((may_alias, aligned(1)));
using Byte = unsigned char;

} // namespace

SIM_UNWATCHED void device_fill(uintptr_t start, size_t bytes, unsigned char pattern) {
    uint64_t wide = 0x0101010101010101u * pattern;
    size_t words = bytes / 8;
    for (size_t i = 0; i < words; ++i) {
        reinterpret_cast<Word*>(start)[i] = wide;
        __asm__ volatile("" ::: "memory");
    }
    for (size_t i = words * 8; i < bytes; ++i) reinterpret_cast<volatile Byte*>(start)[i] = pattern;
}

SIM_UNWATCHED bool device_equals(uintptr_t start, size_t bytes, unsigned char pattern) {
    uint64_t wide = 0x0101010101010101u * pattern;
    size_t words = bytes / 8;
    for (size_t i = 0; i < words; ++i)
        if (reinterpret_cast<const Word*>(start)[i] != wide) return false;
    for (size_t i = words * 8; i < bytes; ++i)
        if (reinterpret_cast<const volatile Byte*>(start)[i] != pattern) return false;
    return true;
}

SIM_UNWATCHED void device_copy(uintptr_t to, uintptr_t from, size_t bytes) {
    size_t words = bytes / 8;
    for (size_t i = 0; i < words; ++i) {
        reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
        __asm__ volatile("" ::: "memory");
    }
    for (size_t i = words * 8; i < bytes; ++i)
        reinterpret_cast<volatile Byte*>(to)[i] = reinterpret_cast<const volatile Byte*>(from)[i];
}

} // namespace fake
