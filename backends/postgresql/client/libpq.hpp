// SPDX-License-Identifier: Apache-2.0
// The client library: linked (no_gss_ldap.cpp), or loaded when it is first needed
// (libpq_loaded.cpp, which defines the functions of libpq that are called here).
#pragma once
#include <libpq-fe.h>
#include <memory>
#include <string>
#include "core/error.hpp"

namespace dlock::postgresql {

// Before any call of the library. Errc::config: it is not installed.
Result<void> libpq_ready();
std::string libpq_version();  // "15.20", or that it is loaded when it is needed

using ResultHandle = std::unique_ptr<PGresult, decltype(&PQclear)>;

}  // namespace dlock::postgresql
