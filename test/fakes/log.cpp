#include "test/fakes/fake_cuda.h"

#include "test/fakes/log.h"
#include "test/fakes/state.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern char** environ;

namespace fake::log {
namespace {

constexpr size_t functions = static_cast<size_t>(Fn::count_);

const char* const names[functions] = {
#define X(name, base, version, variant) #name,
    SIM_ALL_ENTRIES(X)
#undef X
};

struct Rule {
    int left = -1; ///< calls until it strikes; 0: always; -1: no rule
    CUresult code = CUDA_SUCCESS;
};

struct Book {
    std::atomic<unsigned long> counts[functions] = {};
    std::atomic<unsigned long> total{0};
    std::atomic<bool> armed{false};
    std::mutex mutex;
    Rule rules[functions];
    std::map<std::string, std::string> environment;
    bool environment_known = false;
    int file = -2; ///< -2: not looked up yet
};

Book& book() {
    static Book* const one = new Book;
    return *one;
}

int log_file() {
    Book& b = book();
    std::lock_guard<std::mutex> guard(b.mutex);
    if (b.file == -2) {
        const char* path = std::getenv("SIM_LOG");
        b.file = path && *path ? ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    }
    return b.file;
}

} // namespace

CUresult count(Fn fn) {
    Book& b = book();
    size_t index = static_cast<size_t>(fn);
    b.counts[index].fetch_add(1, std::memory_order_relaxed);
    b.total.fetch_add(1, std::memory_order_relaxed);
    if (!b.armed.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
    std::lock_guard<std::mutex> guard(b.mutex);
    Rule& rule = b.rules[index];
    if (rule.left < 0) return CUDA_SUCCESS;
    if (rule.left == 0) return rule.code;
    if (--rule.left > 0) return CUDA_SUCCESS;
    rule.left = -1;
    return rule.code;
}

void result(Fn fn, CUresult code) {
    static const int file = log_file();
    if (file < 0) return;
    char line[160];
    int length = std::snprintf(line, sizeof line, "%d %d %s %d\n", static_cast<int>(::getpid()), this_thread().id,
                               name(fn), static_cast<int>(code));
    if (length > 0 && ::write(file, line, static_cast<size_t>(length)) < 0) return;
}

void add_failure(const char* function, int nth, CUresult code) {
    Fn fn = find(function);
    if (fn == Fn::count_) {
        std::fprintf(stderr, "sim: unknown function '%s' in a failure rule\n", function);
        return;
    }
    Book& b = book();
    std::lock_guard<std::mutex> guard(b.mutex);
    b.rules[static_cast<size_t>(fn)] = {nth, code};
    b.armed.store(true, std::memory_order_relaxed);
}

void clear_failures() {
    Book& b = book();
    std::lock_guard<std::mutex> guard(b.mutex);
    for (Rule& rule : b.rules) rule = {};
    b.armed.store(false, std::memory_order_relaxed);
}

unsigned long calls(const char* function) {
    Fn fn = find(function);
    return fn == Fn::count_ ? 0 : book().counts[static_cast<size_t>(fn)].load(std::memory_order_relaxed);
}

unsigned long total() { return book().total.load(std::memory_order_relaxed); }

void clear_calls() {
    for (std::atomic<unsigned long>& one : book().counts) one.store(0, std::memory_order_relaxed);
    book().total.store(0, std::memory_order_relaxed);
}

void remember_environment() {
    Book& b = book();
    std::lock_guard<std::mutex> guard(b.mutex);
    if (b.environment_known) return;
    b.environment_known = true;
    for (char** entry = environ; entry && *entry; ++entry) {
        const char* equals = std::strchr(*entry, '=');
        if (equals) b.environment[std::string(*entry, static_cast<size_t>(equals - *entry))] = equals + 1;
    }
}

const char* environment(const char* name) {
    Book& b = book();
    std::lock_guard<std::mutex> guard(b.mutex);
    auto found = b.environment.find(name);
    return found == b.environment.end() ? nullptr : found->second.c_str();
}

void forget_environment() {
    Book& b = book();
    std::lock_guard<std::mutex> guard(b.mutex);
    b.environment.clear();
    b.environment_known = false;
}

void write_summary(const char* more) {
    const char* path = std::getenv("SIM_SUMMARY");
    if (!path || !*path) return;
    std::FILE* file = std::fopen(path, "we");
    if (!file) return;
    std::fprintf(file, "total %lu\n", total());
    for (size_t i = 0; i < functions; ++i)
        if (unsigned long n = book().counts[i].load(std::memory_order_relaxed))
            std::fprintf(file, "%s %lu\n", names[i], n);
    std::fputs(more, file);
    std::fclose(file);
}

const char* name(Fn fn) { return names[static_cast<size_t>(fn)]; }

Fn find(const char* exported_name) {
    static const auto* const index = [] {
        auto* map = new std::unordered_map<std::string, Fn>;
        for (size_t i = 0; i < functions; ++i) (*map)[names[i]] = static_cast<Fn>(i);
        return map;
    }();
    auto found = index->find(exported_name);
    return found == index->end() ? Fn::count_ : found->second;
}

} // namespace fake::log
