#pragma once
// The door driver: a libcuda.so.1 that does nothing but answer look-ups as the real one does and remember which of its
// functions was reached with which arguments. Look-up tests compare what a program reaches with and without the
// preload. Its table is written down independently of the object's own.

#ifdef __cplusplus
extern "C" {
#endif

/// Exported name of the driver function that was called last by this thread ("" if none), and forgets it.
const char* door_reached(void);
/// Its arguments, the low 32 bits of each; arguments beyond its signature read as 0.
unsigned door_argument(int index);
/// What every function but cuInit answers from now on; default 0.
void door_answer(int result);

/// Which pointers cuGetProcAddress hands out.
enum DoorPointers {
    DOOR_EXPORTED,  ///< the exported functions
    DOOR_ANONYMOUS, ///< twins without a symbol, as code that was made at run time
    DOOR_OTHER      ///< the exported functions of another library (the shape of a profiler's shim beside the driver)
};
void door_pointers(int which);
/// The library for DOOR_OTHER, an open handle.
void door_other_library(void* handle);

/// Address of a function of this library, past every hook of dlsym.
void* door_address(const char* exported);

/// Calls the exported function as a shim would: looks it up in `handle` by dlsym on each call and goes on to it.
void door_forward_to(void* handle);

/// Names and since-versions of the driver's table; null past the end.
const char* door_exported(int row);
const char* door_base(int row);
int door_since(int row);

#ifdef __cplusplus
}
#endif
