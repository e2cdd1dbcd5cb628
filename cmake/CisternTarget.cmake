# cistern_target(<target>): what every target of this project has in common. Everything is private to the target;
# nothing is set for a directory or for dependents.

set(CISTERN_WARNINGS
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Wformat=2
    -Wcast-align -Wmissing-declarations -Wvla)
set(CISTERN_WARNINGS_CXX -Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual)
set(CISTERN_WARNINGS_CLANG_CXX -Wthread-safety)
# Catch2's registration consists of global objects, so these two are for the product alone.
set(CISTERN_WARNINGS_CLANG_PRODUCT -Wglobal-constructors -Wexit-time-destructors)

if(CISTERN_SANITIZE)
    if(NOT CISTERN_SANITIZE MATCHES "^(address|thread|undefined)$")
        message(FATAL_ERROR "CISTERN_SANITIZE is '${CISTERN_SANITIZE}'; known: address, thread, undefined")
    endif()
    if(CISTERN_BUILD_PRELOAD)
        message(FATAL_ERROR "CISTERN_SANITIZE needs CISTERN_BUILD_PRELOAD=OFF: a sanitizer must be the first library "
                            "of a process, and the preloaded object would be in front of it")
    endif()
    set(CISTERN_SANITIZE_FLAGS -fsanitize=${CISTERN_SANITIZE} -fno-omit-frame-pointer)
    if(CISTERN_SANITIZE STREQUAL "undefined")
        # Without this a report would be a line in a log and the test would still pass.
        list(APPEND CISTERN_SANITIZE_FLAGS -fno-sanitize-recover=all)
    endif()
endif()

function(cistern_warnings target)
    set(clang "$<COMPILE_LANG_AND_ID:CXX,Clang>")
    target_compile_options(${target} PRIVATE
        "$<$<COMPILE_LANGUAGE:C,CXX>:${CISTERN_WARNINGS}>"
        "$<$<COMPILE_LANGUAGE:CXX>:${CISTERN_WARNINGS_CXX}>"
        "$<${clang}:${CISTERN_WARNINGS_CLANG_CXX}>")
    if(CISTERN_WERROR)
        target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:-Werror>")
    endif()
endfunction()

function(cistern_target target)
    cistern_warnings(${target})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
    target_compile_features(${target} PRIVATE cxx_std_20 c_std_11)
    set_target_properties(${target} PROPERTIES
        CXX_EXTENSIONS OFF
        POSITION_INDEPENDENT_CODE ON
        C_VISIBILITY_PRESET hidden
        CXX_VISIBILITY_PRESET hidden
        VISIBILITY_INLINES_HIDDEN ON)
    target_compile_options(${target} PRIVATE
        "$<$<COMPILE_LANGUAGE:C,CXX>:-ffunction-sections;-fdata-sections>"
        "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>"
        # Neither a core dump nor an assert text may depend on where the tree was checked out.
        "$<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>"
        ${CISTERN_SANITIZE_FLAGS})
    target_link_options(${target} PRIVATE ${CISTERN_SANITIZE_FLAGS})
    cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${CMAKE_CURRENT_SOURCE_DIR}" inside)
    cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE folder)
    if(inside AND NOT folder MATCHES "^test(/|$)")
        target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:${CISTERN_WARNINGS_CLANG_PRODUCT}>")
        if(NOT CISTERN_ASSERTS)
            # The object never ends the program that it is loaded into, so its asserts are for our own builds.
            target_compile_definitions(${target} PRIVATE NDEBUG)
        endif()
    endif()
endfunction()
