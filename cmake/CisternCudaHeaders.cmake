# cistern_cuda_headers: interface target with the folder of cuda.h, 12.0 or newer. Only headers are used: nothing of CUDA
# is linked. Order: CISTERN_CUDA_INCLUDE_DIR, a toolkit, build/cuda-headers (filled by scripts/setup.sh), and the wheel
# nvidia-cuda-runtime of the Python environment.

set(CISTERN_CUDA_INCLUDE_DIR "" CACHE PATH "Folder of cuda.h (empty: search toolkit, then Python wheels)")

function(_cistern_cuda_version folder out)
    set(${out} "" PARENT_SCOPE)
    if(EXISTS "${folder}/cuda.h")
        file(STRINGS "${folder}/cuda.h" line REGEX "^#define CUDA_VERSION +[0-9]+" LIMIT_COUNT 1)
        if(line MATCHES "([0-9]+)$")
            set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
        endif()
    endif()
endfunction()

function(_cistern_cuda_candidates out)
    set(folders)
    foreach(root IN ITEMS "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" /usr/local/cuda /opt/cuda)
        if(root)
            list(APPEND folders "${root}/include" "${root}/targets/x86_64-linux/include")
        endif()
    endforeach()
    find_program(nvcc nvcc NO_CACHE)
    if(nvcc)
        cmake_path(GET nvcc PARENT_PATH bin)
        list(APPEND folders "${bin}/../include")
    endif()
    list(APPEND folders /usr/include)
    execute_process(
        COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/wheel_headers.py"
            "${PROJECT_SOURCE_DIR}/build/cuda-headers"
        OUTPUT_VARIABLE wheels OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    string(REPLACE "\n" ";" wheels "${wheels}")
    list(APPEND folders ${wheels})
    set(${out} "${folders}" PARENT_SCOPE)
endfunction()

function(_cistern_find_cuda_headers out)
    if(CISTERN_CUDA_INCLUDE_DIR)
        set(folders "${CISTERN_CUDA_INCLUDE_DIR}")
    else()
        _cistern_cuda_candidates(folders)
    endif()
    set(seen)
    foreach(folder IN LISTS folders)
        _cistern_cuda_version("${folder}" version)
        if(version AND version GREATER_EQUAL 12000)
            message(STATUS "CUDA headers: ${folder} (${version})")
            set(${out} "${folder}" PARENT_SCOPE)
            return()
        elseif(version)
            list(APPEND seen "${folder} is ${version}, too old")
        endif()
    endforeach()
    list(JOIN seen "\n  " seen)
    message(FATAL_ERROR
        "cistern: no cuda.h of CUDA 12.0 or newer was found. ${seen}\n"
        "One of these helps:\n"
        "  - install the CUDA toolkit, or point to it: -DCISTERN_CUDA_INCLUDE_DIR=/path/to/include\n"
        "  - scripts/setup.sh, which puts the headers into build/cuda-headers\n"
        "  - python3 -m pip install nvidia-cuda-runtime   (headers only; no GPU and no toolkit needed)")
endfunction()

_cistern_find_cuda_headers(_cistern_cuda_folder)
add_library(cistern_cuda_headers INTERFACE)
target_include_directories(cistern_cuda_headers SYSTEM INTERFACE "${_cistern_cuda_folder}")
