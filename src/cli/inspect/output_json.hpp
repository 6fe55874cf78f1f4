// SPDX-License-Identifier: Apache-2.0
// What inspect prints. Text from others (keys, names, reasons) goes through printable(). Unknown
// values are null, an unknown state is "unknown".
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "cli/store.hpp"

namespace dlock::cli {

// One object, with its newline. `error`: why the result is incomplete; then nothing is said about
// unseen keys. `unread`: such a reason; empty: it is complete.
// `starts`: empty where the recipe notes none, an error where the store did not say.
std::string json_of_key(const KeyView&, const OpenStore&, const Result<Starts>&);
std::string json_of_list(const std::vector<KeyView>&, const OpenStore&, const std::string& unread);
std::string json_of_unknown(const Options&, const OpenStore&, const Error&);

}  // namespace dlock::cli
