#pragma once
// Between config.cpp, which knows the setting, and log.cpp, which is the only file that includes spdlog.

#include "config/log.h"

#include <string>

namespace cistern::log {

/// Switches the log on as CISTERN_LOG says ("" : stays off). Called once, while the settings are read. The file is
/// opened by the first line, which at level info is the one that names the build.
void start(const std::string& specification) noexcept;

} // namespace cistern::log
