// Catch2's main function, compiled once. With version 3 it comes from the library, and this file is empty.
#if CISTERN_CATCH_MAJOR < 3
#define CATCH_CONFIG_MAIN
#endif
#include "test/catch.h"
