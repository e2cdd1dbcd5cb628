#pragma once
// Runs a piece of a test in a forked child, for state that a process has once (settings, log), and collects what it wrote
// to stderr.

#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace child_process {

struct Ended {
    int status = -1;
    std::string errors;
    bool ok() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
};

inline std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;) {
        text.append(buffer, static_cast<size_t>(n));
    }
    return text;
}

/// `body` returns whether all went well. The child ends by _exit: nothing of the test frame runs twice.
template <class Body> Ended run(Body body) {
    int ends[2];
    if (::pipe(ends) != 0) {
        return {};
    }
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(ends[1], STDERR_FILENO);
        ::close(ends[0]);
        ::close(ends[1]);
        ::_exit(body() ? 0 : 1);
    }
    ::close(ends[1]);
    Ended ended;
    ended.errors = read_all(ends[0]);
    ::close(ends[0]);
    ::waitpid(child, &ended.status, 0);
    return ended;
}

} // namespace child_process
