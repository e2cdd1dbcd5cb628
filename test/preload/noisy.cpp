// An object that is not quiet, for the negative controls of children.py.

#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void at_load() {
    static const char text[] = "loaded\n";
    if (write(2, text, sizeof text - 1) < 0) {
        return;
    }
    close(open("/dev/null", O_WRONLY));
}
