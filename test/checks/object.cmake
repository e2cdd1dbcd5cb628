# Checks of libcistern.so, and the object that has every fault.

set(object_check ${python} "${here}/shared_object.py")

add_library(future_libc SHARED "${bad}/future_libc.c")
target_link_options(future_libc PRIVATE "-Wl,--version-script=${bad}/future_libc.map")
add_library(bad_object SHARED "${bad}/bad_object.cpp")
target_compile_features(bad_object PRIVATE cxx_std_20)
target_link_libraries(bad_object PRIVATE future_libc m)
target_link_options(bad_object PRIVATE -Wl,--no-as-needed)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(bad_object PRIVATE -fgnu-unique)
endif()

set(export_list "${CMAKE_CURRENT_BINARY_DIR}/exports.txt")
add_custom_command(OUTPUT "${export_list}"
    COMMAND ${python} "${here}/exports.py" "${CMAKE_CXX_COMPILER}" "${PROJECT_SOURCE_DIR}" "${export_list}"
    DEPENDS "${here}/exports.py" "${PROJECT_SOURCE_DIR}/interposer/table.h"
    COMMENT "" VERBATIM)
add_custom_target(cistern_expected_exports ALL DEPENDS "${export_list}")

function(object_case check expected)
    cistern_check("check: ${check} of libcistern.so" COMMAND ${object_check} ${check} $<TARGET_FILE:cistern> "${expected}")
endfunction()
function(bad_object_case check expected planted)
    cistern_check("negative: ${check}: ${planted}"
        COMMAND ${object_check} ${check} $<TARGET_FILE:bad_object> "${expected}" MUST_FAIL "${planted}")
endfunction()

object_case(exports "${export_list}")
bad_object_case(exports "${export_list}" "not expected: planted_export")
bad_object_case(exports "${export_list}" "missing: dlsym")
object_case(needed "${golden}/needed.txt")
bad_object_case(needed "${golden}/needed.txt" "not expected: libm.so.6")
bad_object_case(needed "${golden}/needed.txt" "not expected: libfuture_libc.so")
object_case(glibc 2.35)
bad_object_case(glibc 2.35 "newer than glibc 2.35: from_the_future")
bad_object_case(glibc 2.35 "private symbol of glibc: from_the_inside")
object_case(unique -)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    bad_object_case(unique - "UNIQUE")
endif()
object_case(initialisers "${golden}/initialisers.txt")
bad_object_case(initialisers "${golden}/initialisers.txt" "runs at load or unload: _GLOBAL__sub_I_.*planted_initialiser|runs at load or unload: _GLOBAL__sub_I_bad_object")

cistern_check("check: installed tree is complete and relocatable"
    COMMAND ${python} "${here}/install.py" "${CMAKE_COMMAND}" "${PROJECT_BINARY_DIR}" "${golden}/install.txt")
cistern_check("negative: installed tree"
    COMMAND ${python} "${here}/install.py" "${CMAKE_COMMAND}" "${PROJECT_BINARY_DIR}" "${golden}/needed.txt"
    MUST_FAIL "missing: libc.so.6")

# --- The command
add_library(empty_object SHARED "${bad}/future_libc.c")
set(command_check ${python} "${here}/command.py")
set(command_rest $<TARGET_FILE:cistern> $<TARGET_FILE:empty_object> $<TARGET_FILE:cistern_config_tool>)
cistern_check("check: the command cistern" COMMAND ${command_check} "${PROJECT_SOURCE_DIR}/scripts/cistern" ${command_rest})
foreach(planted IN ITEMS "arguments: arguments arrive" "existing_preload: " "same_process: " "refusals: ")
    cistern_check("negative: the command cistern: ${planted}"
        COMMAND ${command_check} "${bad}/bad_launcher" ${command_rest} MUST_FAIL "${planted}")
endforeach()
