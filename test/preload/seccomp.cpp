// Look-ups in a process that may only read, write and end: any other system call kills it.

#include <cstdlib>
#include <dlfcn.h>
#include <initializer_list>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main() {
    // The C library's own needs, settled beforehand: the message of a failed look-up is allocated.
    std::free(std::malloc(100000));
    dlsym(RTLD_DEFAULT, "not_there_either");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        return 3;
    }
    int found = 0;
    for (const char* name : {"getpid", "malloc", "cuMemAlloc_v2_not_there", "cudaMalloc", "read"}) {
        found += dlsym(RTLD_DEFAULT, name) != nullptr ? 1 : 0;
        found += dlsym(RTLD_NEXT, name) != nullptr ? 1 : 0;
    }
    const char text[] = {'f', 'o', 'u', 'n', 'd', ' ', static_cast<char>('0' + found), '\n'};
    const bool written = write(1, text, sizeof text) == static_cast<ssize_t>(sizeof text);
    syscall(SYS_exit, written ? 0 : 1);
}
