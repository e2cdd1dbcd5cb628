#pragma once
// Address space and memory files, by bare system calls: a sanitizer's interceptors would otherwise touch shadow memory for
// reservations of a tebibyte.

#include <cstddef>
#include <cstdint>

namespace fake::raw {

/// Reserves inaccessible address space; 0 if there is none where a sanitizer allows application memory.
uintptr_t reserve(size_t bytes, size_t alignment, uintptr_t hint);
void unmap(uintptr_t start, size_t bytes);
/// Makes part of a reservation inaccessible again and drops what was mapped there.
bool forbid(uintptr_t start, size_t bytes);
bool map_file(uintptr_t start, size_t bytes, int file, uint64_t offset);
/// Private memory of the process (pinned, managed); 0: none.
uintptr_t map_anonymous(size_t bytes);

int make_file();
void close_file(int file);
/// Returns the bytes to the host; they read as zeros afterwards.
void punch(int file, uint64_t offset, size_t bytes);

/// What another process has to know about a shared extent.
struct Note {
    size_t bytes = 0;
    int device = 0;
};
constexpr uint64_t note_bytes = 4096; ///< in front of every extent

/// A descriptor whose file position tells the extent (positions travel with descriptors sent over a socket).
int share(int file, uint64_t offset, const Note& note);
/// The reverse; the result is a descriptor of our own, or -1.
int open_shared(int descriptor, uint64_t& offset, Note& note);
/// Opens the memory file `file` of another process; -1 if that is not possible.
int open_of_process(int process, int file);

} // namespace fake::raw
