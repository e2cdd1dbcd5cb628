// A library that is opened late and whose static object's destructor calls back into the program.

#define PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
struct AtUnload {
    void (*call)() = nullptr;
    ~AtUnload() {
        if (call != nullptr) call();
    }
};
AtUnload at_unload;
} // namespace

PLUGIN_EXPORT void call_at_unload(void (*function)()) { at_unload.call = function; }
