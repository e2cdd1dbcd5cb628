#include "pool/driver.h"

#include "pool/counters.h"
#include "pool/nap.h"

#include <atomic>
#include <cstring>

namespace cistern::pool::driver {
namespace {

// Exported name, then whether a pool is impossible without it. The exported names carry the ABI that the headers give
// to the plain names, except where the comment says otherwise.
#define CISTERN_DRIVER_FUNCTIONS(X)                                                                                    \
    X(cuCtxGetCurrent, required)                                                                                       \
    X(cuCtxPushCurrent_v2, required)                                                                                   \
    X(cuCtxPopCurrent_v2, required)                                                                                    \
    X(cuDeviceGetAttribute, required)                                                                                  \
    X(cuDeviceTotalMem_v2, required)                                                                                   \
    X(cuDeviceCanAccessPeer, optional)                                                                                 \
    X(cuDevicePrimaryCtxGetState, required)                                                                            \
    X(cuDevicePrimaryCtxRetain, required)                                                                              \
    X(cuStreamGetCtx, optional)                                                                                        \
    X(cuStreamIsCapturing, optional)                                                                                   \
    X(cuThreadExchangeStreamCaptureMode, optional)                                                                     \
    X(cuEventCreate, required)                                                                                         \
    X(cuEventRecord, required)                                                                                         \
    X(cuEventQuery, required)                                                                                          \
    X(cuMemAlloc_v2, required)                                                                                         \
    X(cuMemFree_v2, required)                                                                                          \
    X(cuMemGetInfo_v2, required)                                                                                       \
    X(cuMemAddressReserve, optional)                                                                                   \
    X(cuMemAddressFree, optional)                                                                                      \
    X(cuMemCreate, optional)                                                                                           \
    X(cuMemRelease, optional)                                                                                          \
    X(cuMemMap, optional)                                                                                              \
    X(cuMemUnmap, optional)                                                                                            \
    X(cuMemSetAccess, optional)                                                                                        \
    X(cuMemGetAllocationGranularity, optional)

struct Table {
#define X(name, need) decltype(&::name) name = nullptr;
    CISTERN_DRIVER_FUNCTIONS(X)
#undef X
    // Plain export since 2.0: takes the output only (the 13.0 header maps the name to a form with a context).
    CUresult (*cuCtxGetDevice)(CUdevice*) = nullptr;
    CUresult (*cuDevicePrimaryCtxRelease_v2)(CUdevice) = nullptr;
    CUresult (*cuCtxRecordEvent)(CUcontext, CUevent) = nullptr;
    CUresult (*cuCtxGetId)(CUcontext, unsigned long long*) = nullptr;
} table;

/// Wishes for new physical memory that a device refused once, by device bit.
std::atomic<DeviceMask> refused_rdma{0};
std::atomic<DeviceMask> refused_export{0};

constexpr DeviceMask bit(CUdevice device) { return device < 64 ? DeviceMask{1} << device : 0; }

void called() noexcept { count(counters().driver_calls); }

/// Relaxed capture mode for a scope: calls that are unsafe during captures then leave every capture alive.
class Relaxed {
public:
    Relaxed() noexcept { exchange(); }
    ~Relaxed() { exchange(); }
    Relaxed(const Relaxed&) = delete;
    Relaxed& operator=(const Relaxed&) = delete;

private:
    void exchange() noexcept {
        if (table.cuThreadExchangeStreamCaptureMode) table.cuThreadExchangeStreamCaptureMode(&mode_);
    }
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

int attribute(CUdevice_attribute which, CUdevice device) noexcept {
    int value = 0;
    return table.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

CUmemAllocationProp device_memory(CUdevice device) noexcept {
    CUmemAllocationProp prop;
    std::memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
}

bool wish(std::atomic<DeviceMask>& refused, CUdevice_attribute supported, CUdevice device) noexcept {
    return !(refused.load(std::memory_order_relaxed) & bit(device)) && attribute(supported, device) != 0;
}

} // namespace

bool bind(Lookup lookup) noexcept {
    // Looked up into a table of this thread's own, without any lock: each look-up takes the loader's lock, and the thread
    // that holds that may be on its way here (a constructor that allocates).
    Table found;
    bool complete = true;
#define CISTERN_MISSING_required complete = false
#define CISTERN_MISSING_optional (void)0
#define X(name, need)                                                                                                  \
    found.name = reinterpret_cast<decltype(found.name)>(lookup(#name));                                                \
    if (!found.name) CISTERN_MISSING_##need;
    CISTERN_DRIVER_FUNCTIONS(X)
#undef X
    found.cuCtxGetDevice = reinterpret_cast<decltype(found.cuCtxGetDevice)>(lookup("cuCtxGetDevice"));
    found.cuCtxRecordEvent = reinterpret_cast<decltype(found.cuCtxRecordEvent)>(lookup("cuCtxRecordEvent"));
    found.cuCtxGetId = reinterpret_cast<decltype(found.cuCtxGetId)>(lookup("cuCtxGetId"));
    void* release = lookup("cuDevicePrimaryCtxRelease_v2");
    if (!release) release = lookup("cuDevicePrimaryCtxRelease");
    found.cuDevicePrimaryCtxRelease_v2 = reinterpret_cast<decltype(found.cuDevicePrimaryCtxRelease_v2)>(release);
    if (!complete || !found.cuCtxGetDevice || !release) return false;
    static std::atomic<bool> published{false};
    if (!published.exchange(true)) table = found;
    return true;
}

CUresult current_context(CUcontext* context) noexcept { return table.cuCtxGetCurrent(context); }

CUresult current_device(CUdevice* device) noexcept {
    called();
    return table.cuCtxGetDevice(device);
}

CUcontext primary_context(CUdevice device) noexcept {
    called();
    unsigned flags = 0;
    int active = 0;
    if (table.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active) return nullptr;
    CUcontext context = nullptr;
    if (table.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) return nullptr;
    table.cuDevicePrimaryCtxRelease_v2(device);
    // Another thread may have released its own reference meanwhile, so that ours was the last.
    const bool asked = table.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS;
    return asked && active ? context : nullptr;
}

unsigned long long context_id(CUcontext context) noexcept {
    called();
    unsigned long long id = 0;
    return table.cuCtxGetId && table.cuCtxGetId(context, &id) == CUDA_SUCCESS ? id : 0;
}

CUresult stream_context(CUstream stream, CUcontext* context) noexcept {
    const bool special = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    if (special || !table.cuStreamGetCtx) return table.cuCtxGetCurrent(context);
    called();
    return table.cuStreamGetCtx(stream, context);
}

bool can_access_peer(CUdevice device, CUdevice owner) noexcept {
    called();
    int can = 0;
    return table.cuDeviceCanAccessPeer && table.cuDeviceCanAccessPeer(&can, device, owner) == CUDA_SUCCESS && can != 0;
}

size_t total_memory(CUdevice device) noexcept {
    called();
    size_t bytes = 0;
    return table.cuDeviceTotalMem_v2(&bytes, device) == CUDA_SUCCESS ? bytes : 0;
}

Current::Current(CUcontext context) noexcept {
    CUcontext now = nullptr;
    if (table.cuCtxGetCurrent(&now) != CUDA_SUCCESS) return;
    usable_ = now == context;
    if (usable_) return;
    called();
    pushed_ = usable_ = table.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

Current::~Current() {
    CUcontext popped = nullptr;
    if (pushed_) table.cuCtxPopCurrent_v2(&popped);
}

bool has_context_events() noexcept { return table.cuCtxRecordEvent != nullptr; }

CUresult create_event(CUevent* event) noexcept {
    called();
    const Relaxed relaxed;
    return table.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
}

CUresult record_context(CUcontext context, CUevent event) noexcept {
    called();
    count(counters().epochs_closed);
    return table.cuCtxRecordEvent(context, event);
}

CUresult record_stream(CUevent event, CUstream stream) noexcept {
    called();
    return table.cuEventRecord(event, stream);
}

CUresult query_event(CUevent event) noexcept {
    called();
    count(counters().epochs_queried);
    const Relaxed relaxed;
    return table.cuEventQuery(event);
}

bool capture_refuses() noexcept {
    called();
    return table.cuMemFree_v2(0) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

bool is_capturing(CUstream stream) noexcept {
    called();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return table.cuStreamIsCapturing && table.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

size_t granularity(CUdevice device) noexcept {
    if (!table.cuMemAddressReserve || !table.cuMemAddressFree || !table.cuMemCreate || !table.cuMemRelease ||
        !table.cuMemMap || !table.cuMemUnmap || !table.cuMemSetAccess || !table.cuMemGetAllocationGranularity)
        return 0;
    called();
    if (!attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device)) return 0;
    const CUmemAllocationProp prop = device_memory(device);
    size_t bytes = 0;
    const auto minimum = CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    return table.cuMemGetAllocationGranularity(&bytes, &prop, minimum) == CUDA_SUCCESS ? bytes : 0;
}

CUresult reserve(CUdeviceptr* start, size_t bytes, size_t alignment) noexcept {
    called();
    return table.cuMemAddressReserve(start, bytes, alignment, 0, 0);
}

CUresult free_reservation(CUdeviceptr start, size_t bytes) noexcept {
    called();
    return table.cuMemAddressFree(start, bytes);
}

CUresult create(CUmemGenericAllocationHandle* handle, CUdevice device, size_t bytes) noexcept {
    called();
    CUmemAllocationProp prop = device_memory(device);
    const bool rdma = wish(refused_rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device);
    const bool fd = wish(refused_export, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device);
    prop.allocFlags.gpuDirectRDMACapable = rdma ? 1 : 0;
    prop.requestedHandleTypes = fd ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
    CUresult result = table.cuMemCreate(handle, bytes, &prop, 0);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) return result;
    if (rdma) {
        prop.allocFlags.gpuDirectRDMACapable = 0;
        result = table.cuMemCreate(handle, bytes, &prop, 0);
        if (result == CUDA_SUCCESS) refused_rdma.fetch_or(bit(device));
    }
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY && fd) {
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
        result = table.cuMemCreate(handle, bytes, &prop, 0);
        if (result == CUDA_SUCCESS) refused_export.fetch_or(bit(device));
    }
    return result;
}

CUresult release(CUmemGenericAllocationHandle handle) noexcept {
    called();
    return table.cuMemRelease(handle);
}

CUresult map(CUdeviceptr start, size_t bytes, CUmemGenericAllocationHandle handle) noexcept {
    called();
    return table.cuMemMap(start, bytes, 0, handle, 0);
}

CUresult unmap(CUdeviceptr start, size_t bytes) noexcept {
    called();
    return table.cuMemUnmap(start, bytes);
}

CUresult set_access(CUdeviceptr start, size_t bytes, DeviceMask devices) noexcept {
    called();
    CUmemAccessDesc entries[64];
    size_t n = 0;
    for (int device = 0; device < 64; ++device) {
        if (!(devices & bit(device))) continue;
        entries[n].location = device_memory(device).location;
        entries[n++].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return table.cuMemSetAccess(start, bytes, entries, n);
}

CUresult native_allocate(CUdeviceptr* ptr, size_t bytes) noexcept {
    called();
    const Relaxed relaxed;
    return table.cuMemAlloc_v2(ptr, bytes);
}

CUresult native_free(CUdeviceptr ptr) noexcept {
    called();
    const Uncancellable waiting;
    const Relaxed relaxed;
    return table.cuMemFree_v2(ptr);
}

CUresult free_memory(size_t* bytes) noexcept {
    called();
    size_t total = 0;
    return table.cuMemGetInfo_v2(bytes, &total);
}

} // namespace cistern::pool::driver
