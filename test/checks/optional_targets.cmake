# Not part of any build. Needs a folder configured with clang++, whose options clang-tidy reads:
#   cmake --preset dev -DCMAKE_CXX_COMPILER=clang++ -B build/clang && cmake --build build/clang --target tidy
find_program(CISTERN_CLANG_TIDY NAMES clang-tidy-14 clang-tidy)
if(CISTERN_CLANG_TIDY AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_custom_target(tidy
        COMMAND ${python} "${here}/tidy.py" "${CISTERN_CLANG_TIDY}" "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}" VERBATIM)
endif()
