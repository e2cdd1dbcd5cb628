"""Makes a known number of allocation calls through every door: names looked up with dlsym, entry points asked for in both
ABIs, the per-thread variant. Used by test_count.py on the simulated GPU."""

import ctypes
import os
import sys

POINTER, SIZE = ctypes.c_uint64, ctypes.c_size_t
cuda = ctypes.CDLL("libcuda.so.1")


def check(code):
    if code:
        sys.exit(f"driver call gave {code}")


def entry_v2(name, version, flags=0):
    found, status = ctypes.c_void_p(), ctypes.c_int()
    check(cuda.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), version, ctypes.c_uint64(flags), ctypes.byref(status)))
    return found.value


def entry_v1(name, version):
    """Through the four-argument ABI, which is itself asked for as an entry point."""
    get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)(
        entry_v2("cuGetProcAddress", 11030))
    found = ctypes.c_void_p()
    check(get(name.encode(), ctypes.byref(found), version, 0))
    return found.value


ALLOC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(POINTER), SIZE)
FREE = ctypes.CFUNCTYPE(ctypes.c_int, POINTER)
FREE_ASYNC = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.c_void_p)


def main():
    check(cuda.cuInit(0))
    context = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
    by_name = ALLOC(("cuMemAlloc_v2", cuda)), FREE(("cuMemFree_v2", cuda))
    by_entry = ALLOC(entry_v2("cuMemAlloc", 3020)), FREE(entry_v2("cuMemFree", 3020))
    by_old_entry = ALLOC(entry_v1("cuMemAlloc", 3020)), FREE(entry_v1("cuMemFree", 3020))
    p = POINTER()
    for alloc, free in (by_name, by_entry, by_old_entry):
        for _ in range(5):
            check(alloc(ctypes.byref(p), 1 << 16))
            check(free(p))
    for flags in (0, 2):  # 2: the per-thread variant
        check(by_entry[0](ctypes.byref(p), 1 << 16))
        check(FREE_ASYNC(entry_v2("cuMemFreeAsync", 11020, flags))(p, None))
    pitch = SIZE()
    check(cuda.cuMemAllocPitch_v2(ctypes.byref(p), ctypes.byref(pitch), SIZE(100), SIZE(10), 4))
    check(by_name[1](p))
    if by_name[1](p) == 0:  # the second free goes to the driver, which refuses it
        sys.exit("a second free succeeded")
    sys.stdout.flush()
    if len(sys.argv) > 1:  # a child without CUDA of its own ends through the usual exit handlers
        child = os.fork()
        if child:
            os.waitpid(child, 0)


main()
