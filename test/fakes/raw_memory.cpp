#include "test/fakes/raw_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

#if defined(__SANITIZE_THREAD__)
#define SIM_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIM_THREAD_SANITIZER 1
#endif
#endif

namespace fake::raw {
namespace {

constexpr uint64_t magic = 0x73696d6d656d3031;
constexpr off_t file_bytes = off_t{1} << 46;

struct NotePage {
    uint64_t magic;
    Note note;
};

uintptr_t map(uintptr_t where, size_t bytes, int protection, int flags, int file, uint64_t offset) {
    long result = ::syscall(SYS_mmap, where, bytes, protection, flags, file, offset);
    return result == -1 ? 0 : static_cast<uintptr_t>(result);
}

// ThreadSanitizer (x86-64) has shadow memory for these addresses only.
bool application_memory([[maybe_unused]] uintptr_t start, [[maybe_unused]] size_t bytes) {
#if defined(SIM_THREAD_SANITIZER) && defined(__x86_64__)
    constexpr uintptr_t ranges[][2] = {
        {0x7e8000000000, 0x800000000000}, {0x550000000000, 0x568000000000}, {0x000000001000, 0x008000000000}};
    for (const uintptr_t(&range)[2] : ranges)
        if (start >= range[0] && start + bytes <= range[1]) return true;
    return false;
#else
    return true;
#endif
}

uintptr_t reserve_at(size_t bytes, size_t alignment, uintptr_t hint) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uintptr_t wide = map(hint, bytes + alignment, PROT_NONE, flags, -1, 0);
    if (wide == 0) return 0;
    uintptr_t start = (wide + alignment - 1) / alignment * alignment;
    if (start > wide) unmap(wide, start - wide);
    uintptr_t rest = wide + alignment - start;
    if (rest > 0) unmap(start + bytes, rest);
    if (application_memory(start, bytes)) return start;
    unmap(start, bytes);
    return 0;
}

} // namespace

uintptr_t reserve(size_t bytes, size_t alignment, uintptr_t hint) {
    const uintptr_t hints[] = {hint, 0, 0x7e9000000000, 0x551000000000, 0x002000000000, 0x004000000000};
    for (uintptr_t one : hints)
        if (uintptr_t start = reserve_at(bytes, alignment, one)) return start;
    return 0;
}

void unmap(uintptr_t start, size_t bytes) { ::syscall(SYS_munmap, start, bytes); }

bool forbid(uintptr_t start, size_t bytes) {
    return map(start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != 0;
}

bool map_file(uintptr_t start, size_t bytes, int file, uint64_t offset) {
    return map(start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, offset) != 0;
}

uintptr_t map_anonymous(size_t bytes) {
    return map(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int make_file() {
    int file = ::memfd_create("sim-gpu", MFD_CLOEXEC);
    // Sparse: offsets are never used twice, and only touched pages cost memory.
    if (file >= 0 && ::ftruncate(file, file_bytes) != 0) {
        ::close(file);
        return -1;
    }
    return file;
}

void close_file(int file) { ::close(file); }

void punch(int file, uint64_t offset, size_t bytes) {
    if (::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(bytes)) != 0)
        std::perror("sim: cannot give memory back to the host");
}

int share(int file, uint64_t offset, const Note& note) {
    NotePage page{magic, note};
    off_t at = static_cast<off_t>(offset - note_bytes);
    if (::pwrite(file, &page, sizeof page, at) != static_cast<ssize_t>(sizeof page)) return -1;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int copy = ::open(path, O_RDWR | O_CLOEXEC); // not dup: it needs a position of its own
    if (copy >= 0) ::lseek(copy, at, SEEK_SET);
    return copy;
}

int open_shared(int descriptor, uint64_t& offset, Note& note) {
    off_t at = ::lseek(descriptor, 0, SEEK_CUR);
    NotePage page{};
    if (at < 0 || ::pread(descriptor, &page, sizeof page, at) != static_cast<ssize_t>(sizeof page)) return -1;
    if (page.magic != magic) return -1;
    note = page.note;
    offset = static_cast<uint64_t>(at) + note_bytes;
    return ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

int open_of_process(int process, int file) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", process, file);
    return ::open(path, O_RDWR | O_CLOEXEC);
}

} // namespace fake::raw
