// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "cli/options/options.hpp"
#include "core/backend.hpp"
#include "core/url.hpp"

namespace dlock::cli {

// The password: --password-file, then the URL's (left empty here), then
// DLOCK_PASSWORD, then password-file of the environment or a configuration file. Errc::usage or
// Errc::config: a file that cannot be read or that others may read.
Result<Secrets> find_secrets(const Options&, const Url&);

}  // namespace dlock::cli
