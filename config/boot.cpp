// The writer for what must be said before there is a log. No allocation, no stdio, one system call.

#include "config/log.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace cistern::log {

namespace {

/// Appends what fits; the last byte is kept for the newline.
struct Line {
    char text[512];
    size_t length = 0;

    void add(const char* more, size_t n) noexcept {
        const size_t room = sizeof text - 1 - length;
        n = n < room ? n : room;
        std::memcpy(text + length, more, n);
        length += n;
    }
    void add(const char* more) noexcept { add(more, std::strlen(more)); }
    void add_number(unsigned number) noexcept {
        char digits[12];
        size_t at = sizeof digits;
        do {
            digits[--at] = static_cast<char>('0' + number % 10);
            number /= 10;
        } while (number != 0);
        add(digits + at, sizeof digits - at);
    }
};

} // namespace

void boot(const char* text) noexcept {
    const int saved_errno = errno;
    Line line;
    line.add("[cistern ");
    line.add_number(static_cast<unsigned>(getpid()));
    line.add(" warn] ");
    line.add(text);
    line.text[line.length++] = '\n';
    // A closed or full stderr is the program's business; there is nobody left to tell.
    const ssize_t ignored = ::write(STDERR_FILENO, line.text, line.length);
    static_cast<void>(ignored);
    errno = saved_errno;
}

} // namespace cistern::log
