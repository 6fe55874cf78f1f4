// SPDX-License-Identifier: Apache-2.0
// Catch2 as all tests need it, for scripts/cmake/precompiled.cmake. No source includes this file.
#pragma once
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>
