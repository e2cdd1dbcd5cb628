#pragma once
// Logging for the whole project. The only file that includes spdlog is config/log.cpp.
// Nothing is printed unless CISTERN_LOG asks for it, except lines about unusable settings.

namespace cistern::log {

enum class Level : int { off, error, warn, info, debug, trace };

/// Whether a line of this level would be written; cheap. False before settings were read.
bool enabled(Level level) noexcept;

/// printf-style; one line, no trailing newline, prefix "[cistern PID LEVEL]" is added. Never throws. Not for the hot path.
void write(Level level, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));

/// Straight to stderr with one write call and no allocation: for what must be said before settings are read.
void boot(const char* text) noexcept;

} // namespace cistern::log
