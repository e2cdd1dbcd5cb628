# The CUDA programs. Stripped, since they travel.

function(cistern_gpu_program target runtime)
    add_executable(${target} ${ARGN})
    target_compile_features(${target} PRIVATE cxx_std_20)
    # The standard is given by hand: CMake 3.25 does not know the features of newer nvcc.
    target_compile_options(${target} PRIVATE
        "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-Xcompiler=-Wall,-Wextra>" "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>")
    target_link_options(${target} PRIVATE -s)
    target_link_libraries(${target} PRIVATE Threads::Threads)
    set_target_properties(${target} PROPERTIES
        CUDA_RUNTIME_LIBRARY ${runtime}
        RUNTIME_OUTPUT_DIRECTORY "${CISTERN_GPU_BIN}"
        BUILD_RPATH_USE_ORIGIN ON
        BUILD_RPATH "$ORIGIN")
endfunction()

cistern_gpu_program(gpu_tests Static
    gpu_tests.cpp reuse.cu order.cu capture.cu codes.cu sizes.cu life.cu peers.cu)
cistern_gpu_program(alloc_mix Static alloc_mix.cu)
cistern_gpu_program(thrust_sort Static thrust_sort.cu)
cistern_gpu_program(thrust_sort_shared Shared thrust_sort.cu)

# The shared runtime travels with the program that needs it.
find_library(CISTERN_CUDART_SHARED libcudart.so HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} NO_CACHE)
file(REAL_PATH "${CISTERN_CUDART_SHARED}" cudart_file)
string(REGEX REPLACE "^([0-9]+).*" "\\1" cudart_major "${CMAKE_CUDA_COMPILER_VERSION}")
add_custom_command(TARGET thrust_sort_shared POST_BUILD
    COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${cudart_file}" "${CISTERN_GPU_BIN}/libcudart.so.${cudart_major}"
    VERBATIM)
