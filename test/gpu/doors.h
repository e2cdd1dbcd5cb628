#pragma once
// The doors of a minimal by-name interposer, for test objects that stand in front of whatever is preloaded after them.
// It shares nothing with the product, so that it can serve as an independent witness. x86-64, drivers with
// cuGetProcAddress (11.3 and later).

#include <cuda.h>

#include <atomic>

namespace doors {

/// One hooked driver function.
struct Slot {
    const char* exported; ///< name for dlsym
    const char* base;     ///< name for cuGetProcAddress
    int from_version;     ///< lowest version that asks for this ABI
    int needs_flags;      ///< flags that the query must carry (CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM or 0)
    void* hook;
    std::atomic<void*> next; ///< what the hook calls
};

/// The object's table, ended by a slot with a null name.
extern Slot slots[];

/// The slot's next function; looked up behind this object when the hook was reached by direct linking.
void* next_of(Slot& slot);

/// Called once, when the first hooked function was handed out or called.
void first_use();

} // namespace doors
