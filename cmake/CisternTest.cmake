# Helpers for tests. Every ctest case carries one label at least: cpu (runs anywhere), negative (a checker on a fixture
# that must fail), gpu or gpu2 (needs that many devices; run by scripts/gpu.sh).

find_package(Catch2 REQUIRED)
if(Catch2_VERSION VERSION_GREATER_EQUAL 3)
    set(CISTERN_CATCH_MAJOR 3)
else()
    set(CISTERN_CATCH_MAJOR 2)
endif()
include(Catch)

# The one translation unit with Catch2's main function: slow to compile, so it is compiled once for all test programs.
add_library(cistern_catch STATIC "${PROJECT_SOURCE_DIR}/test/catch_main.cpp")
target_include_directories(cistern_catch PRIVATE "${PROJECT_SOURCE_DIR}")
target_compile_features(cistern_catch PRIVATE cxx_std_20)
target_compile_definitions(cistern_catch PUBLIC CISTERN_CATCH_MAJOR=${CISTERN_CATCH_MAJOR})
target_compile_options(cistern_catch PRIVATE ${CISTERN_SANITIZE_FLAGS})
if(CISTERN_CATCH_MAJOR EQUAL 3)
    target_link_libraries(cistern_catch PUBLIC Catch2::Catch2WithMain)
else()
    target_link_libraries(cistern_catch PUBLIC Catch2::Catch2)
endif()
target_link_libraries(cistern_catch PUBLIC Threads::Threads)

# cistern_catch_test(<target> SOURCES <file>... [LIBS <target>...] [LABELS <label>...] [PROPERTIES <name> <value>...]
#                    [PREFIX <text>])
# One Catch2 program; every TEST_CASE becomes one ctest case, run in a process of its own. Label cpu unless told.
function(cistern_catch_test target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "PREFIX" "SOURCES;LIBS;LABELS;PROPERTIES")
    if(NOT arg_LABELS)
        set(arg_LABELS cpu)
    endif()
    add_executable(${target} ${arg_SOURCES})
    cistern_target(${target})
    target_link_libraries(${target} PRIVATE cistern_catch ${arg_LIBS})
    catch_discover_tests(${target}
        TEST_PREFIX "${arg_PREFIX}"
        PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 120 ${arg_PROPERTIES})
endfunction()

# cistern_check(<name> COMMAND <command>... [MUST_FAIL <regular expression>] [LABELS <label>...])
# A checker as a ctest case. With MUST_FAIL the case is the negative control: the command has to exit with exactly 1 and
# its output has to match the expression, so that a checker which breaks down does not pass for one that found something.
function(cistern_check name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "MUST_FAIL" "COMMAND;LABELS")
    if(DEFINED arg_MUST_FAIL)
        set(arg_COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/test/checks/must_fail.py" "${arg_MUST_FAIL}"
            ${arg_COMMAND})
        list(APPEND arg_LABELS negative)
    endif()
    if(NOT arg_LABELS)
        set(arg_LABELS cpu)
    endif()
    add_test(NAME "${name}" COMMAND ${arg_COMMAND} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties("${name}" PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 120)
endfunction()
