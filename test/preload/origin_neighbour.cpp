// Found only through the RUNPATH of the library that asks for it.
extern "C" __attribute__((visibility("default"))) int origin_neighbour(void) { return 1; }
