# cistern_build_info: interface target with <cistern_build_info.h>, which holds version, commit and a hash of the sources.
# The header is looked at in every build and rewritten only when its text changes.

set(CISTERN_GENERATED_DIR "${PROJECT_BINARY_DIR}/generated")
set(_cistern_build_header "${CISTERN_GENERATED_DIR}/cistern_build_info.h")
set(_cistern_build_command
    "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/build_info.py"
    "${PROJECT_SOURCE_DIR}" "${PROJECT_VERSION}" "${_cistern_build_header}")

execute_process(COMMAND ${_cistern_build_command} COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(cistern_build_stamp
    COMMAND ${_cistern_build_command}
    BYPRODUCTS "${_cistern_build_header}"
    COMMENT ""
    VERBATIM)

add_library(cistern_build_info INTERFACE)
target_include_directories(cistern_build_info INTERFACE "${CISTERN_GENERATED_DIR}")
add_dependencies(cistern_build_info cistern_build_stamp)
