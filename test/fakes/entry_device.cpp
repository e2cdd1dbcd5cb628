// Entry points: initialisation, devices, errors, look-up of names.

#include "test/fakes/calls.h"

#include "test/fakes/lifecycle.h"
#include "test/fakes/log.h"
#include "test/fakes/variant.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace fake;

FAKE(cuInit, unsigned flags) {
    lifecycle::ensure_configured();
    CUresult result = before_call(Fn::cuInit);
    if (result == CUDA_SUCCESS) result = lifecycle::initialise(flags);
    after_call(Fn::cuInit, result);
    return result;
}

static int driver_version() {
    lifecycle::ensure_configured();
    int configured = state().config.driver_version;
    return configured ? configured : variant_driver_version;
}

FAKE(cuDriverGetVersion, int* version) {
    int known = driver_version();
    return call(
        Fn::cuDriverGetVersion,
        [&](Frame&) -> CUresult {
            if (!version) return CUDA_ERROR_INVALID_VALUE;
            *version = known;
            return CUDA_SUCCESS;
        },
        version);
}

FAKE(cuDeviceGetCount, int* count) {
    return call(
        Fn::cuDeviceGetCount,
        [&](Frame& f) -> CUresult {
            if (!count) return CUDA_ERROR_INVALID_VALUE;
            *count = static_cast<int>(f.s.devices.size());
            return CUDA_SUCCESS;
        },
        count);
}

FAKE(cuDeviceGet, CUdevice* device, int ordinal) {
    return call(
        Fn::cuDeviceGet,
        [&](Frame& f) -> CUresult {
            if (!device) return CUDA_ERROR_INVALID_VALUE;
            if (!f.s.device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
            *device = ordinal;
            return CUDA_SUCCESS;
        },
        device);
}

FAKE(cuDeviceGetName, char* name, int length, CUdevice device) {
    return call(Fn::cuDeviceGetName, [&](Frame& f) -> CUresult {
        if (!f.s.device(device)) return CUDA_ERROR_INVALID_DEVICE;
        if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
        std::snprintf(name, static_cast<size_t>(length), "Simulated GPU %d", device);
        return CUDA_SUCCESS;
    });
}

FAKE(cuDeviceGetAttribute, int* value, CUdevice_attribute attribute, CUdevice device) {
    return call(
        Fn::cuDeviceGetAttribute,
        [&](Frame& f) -> CUresult {
            Device* d = f.s.device(device);
            if (!d) return CUDA_ERROR_INVALID_DEVICE;
            if (!value || static_cast<int>(attribute) <= 0 || static_cast<int>(attribute) > 200)
                return CUDA_ERROR_INVALID_VALUE;
            auto found = d->attributes.find(static_cast<int>(attribute));
            *value = found == d->attributes.end() ? 0 : found->second;
            return CUDA_SUCCESS;
        },
        value);
}

FAKE(cuDeviceTotalMem_v2, size_t* bytes, CUdevice device) {
    return call(
        Fn::cuDeviceTotalMem_v2,
        [&](Frame& f) -> CUresult {
            Device* d = f.s.device(device);
            if (!d) return CUDA_ERROR_INVALID_DEVICE;
            if (!bytes) return CUDA_ERROR_INVALID_VALUE;
            *bytes = d->total;
            return CUDA_SUCCESS;
        },
        bytes);
}

FAKE(cuDeviceTotalMem, unsigned* bytes, CUdevice device) {
    return call(
        Fn::cuDeviceTotalMem,
        [&](Frame& f) -> CUresult {
            f.s.referee.report(Violation::wrong_abi, "cuDeviceTotalMem");
            Device* d = f.s.device(device);
            if (!d) return CUDA_ERROR_INVALID_DEVICE;
            if (!bytes) return CUDA_ERROR_INVALID_VALUE;
            *bytes = static_cast<unsigned>(std::min<size_t>(d->total, 0xffffffffu));
            return CUDA_SUCCESS;
        },
        bytes);
}

FAKE(cuDeviceCanAccessPeer, int* can, CUdevice from, CUdevice to) {
    return call(
        Fn::cuDeviceCanAccessPeer,
        [&](Frame& f) -> CUresult {
            if (!f.s.device(from) || !f.s.device(to)) return CUDA_ERROR_INVALID_DEVICE;
            if (!can) return CUDA_ERROR_INVALID_VALUE;
            *can = from != to && f.s.can_access(from, to) ? 1 : 0;
            return CUDA_SUCCESS;
        },
        can);
}

FAKE(cuDeviceGetP2PAttribute, int* value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
    return call(
        Fn::cuDeviceGetP2PAttribute,
        [&](Frame& f) -> CUresult {
            if (!f.s.device(from) || !f.s.device(to) || from == to) return CUDA_ERROR_INVALID_DEVICE;
            if (!value) return CUDA_ERROR_INVALID_VALUE;
            *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED && f.s.can_access(from, to) ? 1 : 0;
            return CUDA_SUCCESS;
        },
        value);
}

static CUresult device_uuid(Fn fn, CUuuid* uuid, CUdevice device) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            if (!f.s.device(device)) return CUDA_ERROR_INVALID_DEVICE;
            if (!uuid) return CUDA_ERROR_INVALID_VALUE;
            for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(0x10 * device + i);
            return CUDA_SUCCESS;
        },
        uuid);
}
FAKE(cuDeviceGetUuid, CUuuid* uuid, CUdevice device) { return device_uuid(Fn::cuDeviceGetUuid, uuid, device); }
FAKE(cuDeviceGetUuid_v2, CUuuid* uuid, CUdevice device) { return device_uuid(Fn::cuDeviceGetUuid_v2, uuid, device); }

FAKE(cuDeviceGetPCIBusId, char* id, int length, CUdevice device) {
    return call(Fn::cuDeviceGetPCIBusId, [&](Frame& f) -> CUresult {
        if (!f.s.device(device)) return CUDA_ERROR_INVALID_DEVICE;
        if (!id || length <= 0) return CUDA_ERROR_INVALID_VALUE;
        std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", device + 1);
        return CUDA_SUCCESS;
    });
}

FAKE(cuDeviceComputeCapability, int* major, int* minor, CUdevice device) {
    return call(
        Fn::cuDeviceComputeCapability,
        [&](Frame& f) -> CUresult {
            Device* d = f.s.device(device);
            if (!d) return CUDA_ERROR_INVALID_DEVICE;
            if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
            *major = d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
            *minor = d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
            return CUDA_SUCCESS;
        },
        major, minor);
}
