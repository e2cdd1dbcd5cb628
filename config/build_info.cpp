#include "config/build_info.h"

#include <cistern_build_info.h>

namespace cistern::config {

const char* build_info() noexcept {
    return "cistern build: version=" CISTERN_VERSION " commit=" CISTERN_COMMIT " sources=" CISTERN_SOURCES_HASH
           " config=" CISTERN_CONFIG_HASH;
}

} // namespace cistern::config
