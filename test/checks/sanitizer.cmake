# Under a sanitizer: it reports a planted fault, and the libraries under test are really instrumented.

add_executable(planted_fault "${bad}/planted_fault.cpp")
cistern_target(planted_fault)
target_link_libraries(planted_fault PRIVATE Threads::Threads)
set(report_address "heap-use-after-free")
set(report_thread "data race")
set(report_undefined "signed integer overflow")
cistern_check("negative: ${CISTERN_SANITIZE} sanitizer finds a planted fault"
    COMMAND "${CMAKE_COMMAND}" -E env TSAN_OPTIONS=exitcode=1 ASAN_OPTIONS=exitcode=1
        $<TARGET_FILE:planted_fault> ${CISTERN_SANITIZE}
    MUST_FAIL "${report_${CISTERN_SANITIZE}}")

set(call_address "__asan_report")
set(call_thread "__tsan_read")
set(call_undefined "__ubsan_handle")
foreach(library cistern_config cistern_pool)
    cistern_check("check: ${library} is instrumented"
        COMMAND ${python} "${here}/instrumented.py" $<TARGET_FILE:${library}> ${call_${CISTERN_SANITIZE}})
endforeach()
add_library(not_instrumented STATIC "${bad}/future_libc.c")
cistern_check("negative: a library that is not instrumented"
    COMMAND ${python} "${here}/instrumented.py" $<TARGET_FILE:not_instrumented> ${call_${CISTERN_SANITIZE}}
    MUST_FAIL "is not instrumented")
