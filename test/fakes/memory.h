#pragma once
// Device memory. Addresses are reserved host addresses, physical memory is a sparse memory file per device.

#include "test/fakes/objects.h"

#include <map>
#include <set>

namespace fake {

constexpr size_t page_bytes = size_t{2} << 20;
constexpr int max_devices = 16;
constexpr int host_location = -1;

/// A piece of a device's memory file. 4 KiB in front of it describe it to other processes.
struct Extent {
    int device = host_location;
    uint64_t offset = 0;
    size_t bytes = 0;
};

struct Physical {
    CUmemGenericAllocationHandle id = 0;
    Extent extent;
    CUmemAllocationProp properties{};
    unsigned references = 0;
    unsigned maps = 0;
    bool exported = false;
    int imported_file = -1; ///< file of another process, else our own
};

struct Mapping {
    uintptr_t start = 0;
    size_t bytes = 0;
    Physical* physical = nullptr;
    unsigned char access[max_devices] = {}; ///< CU_MEM_ACCESS_FLAGS_PROT_* by device
    bool host_access = false;
    uint64_t buffer_id = 0;
};

enum class Kind : unsigned char { device, async, managed, pinned, registered, ipc };

/// Memory that the driver allocated by itself (not VMM), and registered host memory.
struct Allocation {
    uintptr_t start = 0;
    size_t bytes = 0; ///< as requested
    Kind kind = Kind::device;
    Context* context = nullptr;
    int device = 0;
    unsigned flags = 0;
    uint64_t buffer_id = 0;
    uintptr_t page = 0; ///< first byte of its own pages, or of the shared page it lies in
};

class Memory {
public:
    // --- virtual memory management. Arguments are checked as the driver does.
    CUresult reserve(uintptr_t* out, size_t bytes, size_t alignment, uintptr_t hint);
    CUresult unreserve(uintptr_t start, size_t bytes);
    CUresult create(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp& properties);
    CUresult release(CUmemGenericAllocationHandle id);
    CUresult retain(CUmemGenericAllocationHandle* out, uintptr_t address);
    CUresult map(uintptr_t start, size_t bytes, CUmemGenericAllocationHandle id);
    CUresult unmap(uintptr_t start, size_t bytes);
    CUresult set_access(uintptr_t start, size_t bytes, const CUmemAccessDesc* entries, size_t count);
    CUresult export_fd(int* out, CUmemGenericAllocationHandle id);
    CUresult import_fd(CUmemGenericAllocationHandle* out, int fd);
    Physical* physical(CUmemGenericAllocationHandle id);
    const Mapping* mapping(uintptr_t address) const;
    /// Start and size of the reservation that holds an address; size 0: none.
    std::pair<uintptr_t, size_t> reservation(uintptr_t address) const;
    const std::map<uintptr_t, Mapping>& mappings() const { return mappings_; }

    // --- native memory
    CUresult allocate(uintptr_t* out, size_t bytes, Context& context, Kind kind, unsigned flags);
    CUresult register_host(uintptr_t start, size_t bytes, Context& context, unsigned flags);
    const Allocation* allocation(uintptr_t address) const; ///< holds it, or null
    CUresult free(uintptr_t start);
    void free_all(Context& context);
    CUresult ipc_handle(CUipcMemHandle* out, uintptr_t address);
    CUresult ipc_open(uintptr_t* out, const CUipcMemHandle& handle, Context& context);
    CUresult ipc_close(uintptr_t address);

    // --- what a device may touch
    /// Whether [start, start+bytes) lies in memory of the driver that `device` may use; `peer_copy` skips access entries.
    bool accessible(uintptr_t start, size_t bytes, int device, bool peer_copy = false) const;
    bool is_driver_memory(uintptr_t address) const;
    /// Whether the host can really read and write those bytes.
    bool touchable(uintptr_t start, size_t bytes) const;

    void count(SimBalance& out) const;
    void reset();

private:
    struct SharedPage {
        Extent extent;
        Context* context = nullptr;
        std::map<size_t, size_t> gaps; ///< offset, bytes
    };
    int file(int location);
    bool take_extent(Extent& extent);
    void drop_extent(const Extent& extent);
    bool covered(uintptr_t start, size_t bytes) const;
    void release_if_unused(Physical& physical);
    CUresult check_properties(size_t bytes, const CUmemAllocationProp& properties) const;
    CUresult allocate_small(Allocation& a, size_t rounded);
    CUresult allocate_pages(Allocation& a, size_t rounded);
    CUresult allocate_host(Allocation& a);
    void release_allocation(const Allocation& a);

    std::map<uintptr_t, size_t> reservations_;
    std::map<uintptr_t, Mapping> mappings_;
    std::map<CUmemGenericAllocationHandle, Physical> physicals_;
    std::map<uintptr_t, Allocation> allocations_;
    std::map<uintptr_t, SharedPage> shared_pages_;
    std::map<uintptr_t, Extent> own_pages_;
    std::map<int, int> files_;
    std::map<int, uint64_t> file_ends_;
    uint64_t next_id_ = 0x1000;
    unsigned long references_ = 0;
};

} // namespace fake
