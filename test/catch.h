#pragma once
// The one place that knows which Catch2 is installed: 2.13 has one header, 3.x another.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#elif __has_include(<catch2/catch.hpp>)
#include <catch2/catch.hpp>
#elif __has_include(<catch.hpp>)
#include <catch.hpp>
#else
#error "Catch2 2.13 or 3.x is needed (Debian and Ubuntu: package catch2)"
#endif
