#pragma once
// Large, lazily touched host arrays for metadata: zero-filled, taken from the kernel, so that their size costs nothing
// until a part is used and the program's own allocator never sees them.

#include <cstddef>
#include <new>
#include <sys/mman.h>

namespace cistern::pool {

/// Fixed array of trivially constructible T, all bytes zero at first. Throws std::bad_alloc if the kernel refuses.
template <class T> class LazyArray {
public:
    explicit LazyArray(size_t count) : bytes_(count * sizeof(T)) {
        void* memory =
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        data_ = static_cast<T*>(memory);
    }
    ~LazyArray() { munmap(data_, bytes_); }
    LazyArray(const LazyArray&) = delete;
    LazyArray& operator=(const LazyArray&) = delete;

    T& operator[](size_t i) noexcept { return data_[i]; }
    const T& operator[](size_t i) const noexcept { return data_[i]; }

private:
    size_t bytes_;
    T* data_ = nullptr;
};

} // namespace cistern::pool
