#include "interposer/attachments.h"

#include <atomic>

namespace cistern::interposer::attachments {
namespace {

struct Entry {
    std::atomic<CUcontext> context{nullptr};
    std::atomic<int> count{0};
};
constinit Entry entries[32];

Entry* find(CUcontext context) noexcept {
    for (Entry& e : entries) {
        if (e.context.load(std::memory_order_acquire) == context) {
            return &e;
        }
    }
    return nullptr;
}

} // namespace

void add(CUcontext context) noexcept {
    Entry* entry = find(context);
    for (Entry& e : entries) {
        CUcontext none = nullptr;
        if (entry == nullptr && e.context.compare_exchange_strong(none, context)) {
            entry = &e;
        }
    }
    if (entry != nullptr) {
        entry->count.fetch_add(1);
    }
}

bool held(CUcontext context) noexcept {
    const Entry* entry = context == nullptr ? nullptr : find(context);
    return entry != nullptr && entry->count.load() > 0;
}

void drop(CUcontext context) noexcept {
    if (Entry* entry = find(context)) {
        entry->count.fetch_sub(1);
    }
}

void forget(CUcontext context) noexcept {
    if (Entry* entry = context == nullptr ? nullptr : find(context)) {
        entry->count.store(0);
        entry->context.store(nullptr, std::memory_order_release);
    }
}

} // namespace cistern::interposer::attachments
