#include "test/fakes/variant.h"

#include <cstring>

#ifndef SIM_DRIVER_VERSION
#define SIM_DRIVER_VERSION 13000
#endif

namespace fake {

const int variant_driver_version = SIM_DRIVER_VERSION;

const char* const variant_missing[] = {
#ifdef SIM_NO_VMM
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap*",
    "cuMemUnmap",
    "cuMemAddress*",
    "cuMemSetAccess",
    "cuMemGetAccess",
    "cuMemGetAllocation*",
    "cuMemRetainAllocationHandle",
    "cuMemExportToShareableHandle",
    "cuMemImportFromShareableHandle",
    "cuMemGetHandleForAddressRange",
#endif
    nullptr};

bool variant_exports(const char* name, int version) {
    if (version > variant_driver_version) return false;
    for (const char* const* missing = variant_missing; *missing; ++missing) {
        size_t length = std::strlen(*missing);
        bool prefix = (*missing)[length - 1] == '*';
        if (prefix ? std::strncmp(name, *missing, length - 1) == 0 : std::strcmp(name, *missing) == 0) return false;
    }
    return true;
}

} // namespace fake
