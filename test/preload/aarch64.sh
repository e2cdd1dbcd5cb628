#!/bin/sh
# Builds the object for aarch64 with the cross compiler and runs the look-up tests under the user-mode emulator.
# use: aarch64.sh SOURCE_FOLDER BUILD_FOLDER CUDA_INCLUDE_FOLDER
set -eu

source=$1
build=$2
cuda=$3
cross=aarch64-linux-gnu
sysroot=/usr/$cross

missing=
command -v $cross-g++ > /dev/null || missing="$missing g++-aarch64-linux-gnu"
command -v qemu-aarch64 > /dev/null || missing="$missing qemu-user"
if [ -n "$missing" ]; then
    echo "aarch64: not installed:$missing"
    echo "aarch64: apt-get install$missing   (scripts/setup.sh does it)"
    exit 1
fi

mkdir -p "$build/include"
# Header-only libraries without the rest of /usr/include, which belongs to another architecture.
for library in spdlog fmt; do
    if [ -d /usr/include/$library ]; then ln -sfn /usr/include/$library "$build/include/$library"; fi
done

cmake -G Ninja -S "$source" -B "$build/object" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_C_COMPILER=$cross-gcc -DCMAKE_CXX_COMPILER=$cross-g++ -DCMAKE_FIND_ROOT_PATH=$sysroot \
    -DCISTERN_CUDA_INCLUDE_DIR="$cuda" -DCISTERN_SPDLOG_INCLUDE_DIR="$build/include" \
    -DCISTERN_FMT_INCLUDE_DIR="$build/include" -DCISTERN_BUILD_TESTING=OFF > "$build/configure.log" 2>&1 ||
    { cat "$build/configure.log"; exit 1; }
ninja -C "$build/object" cistern > "$build/build.log" 2>&1 || { tail -50 "$build/build.log"; exit 1; }
object=$build/object/libcistern.so

tests=$source/test/preload
compile() {
    $cross-g++ -std=c++20 -O1 -I"$source" "$@"
}
driver() {
    mkdir -p "$build/$1"
    out=$build/$1/$2
    shift 2
    compile -fPIC -shared -Wl,-Bsymbolic -Wl,-soname,"$(basename "$out")" "$@" "$tests/door_driver.cpp" -o "$out"
}
driver door_full libcuda.so.1
driver door_v1 libcuda.so.1 -DDOOR_OLD -DDOOR_NO_V2
driver door_copy libdriver_copy.so
compile -fPIC -shared -DCHAIN_LEVEL=2 "$tests/chain.cpp" -o "$build/libinner.so"
compile -fPIC -shared -DCHAIN_LEVEL=1 "$tests/chain.cpp" -o "$build/libouter.so" -L"$build" -linner -Wl,-rpath,"$build"
compile -fPIC -shared -DCHAIN_LEVEL=3 "$tests/chain.cpp" -o "$build/libplugin.so" -L"$build" -linner -Wl,-rpath,"$build"
compile "$tests/lookups.cpp" -o "$build/lookups"
compile "$tests/shim.cpp" -o "$build/shim"
compile "$tests/next.cpp" -o "$build/next" -Wl,--no-as-needed -L"$build" -louter -Wl,-rpath,"$build"
compile "$tests/linked.cpp" -o "$build/linked" -Wl,-z,now -Wl,--no-as-needed "$build/door_full/libcuda.so.1" \
    -L"$build" -louter -Wl,-rpath,"$build"

compare() {
    driver=$1
    shift
    echo "aarch64: $*"
    python3 "$tests/compare.py" --preload "$object" --emulator "qemu-aarch64 -L $sysroot" \
        --env "LD_LIBRARY_PATH=$build/$driver" -- "$@"
}
for kind in handle procaddress anonymous default dlvsym; do
    compare door_full "$build/lookups" $kind
done
compare door_v1 "$build/lookups" procaddress
compare door_full "$build/lookups" shim "$build/door_copy/libdriver_copy.so"
compare door_full "$build/shim" "$build/door_copy/libdriver_copy.so"
compare door_full "$build/linked"
compare door_full "$build/next" "$build/libplugin.so"

if $cross-readelf -d "$object" | grep NEEDED | grep -v -e 'libc\.so\.6' -e 'ld-linux-aarch64\.so\.1'; then
    echo "aarch64: a library too many is NEEDED"
    exit 1
fi
echo "aarch64: all look-ups the same natively and preloaded"
