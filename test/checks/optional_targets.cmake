# Not part of any build: cmake --build build/dev --target tidy
find_program(CISTERN_CLANG_TIDY NAMES clang-tidy-14 clang-tidy)
if(CISTERN_CLANG_TIDY)
    add_custom_target(tidy
        COMMAND ${python} "${here}/tidy.py" "${CISTERN_CLANG_TIDY}" "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}" VERBATIM)
endif()
