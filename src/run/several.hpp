// SPDX-License-Identifier: Apache-2.0
// Several keys taken together, all or none: a Backend whose one lock stands for all of them.
//
// They are taken one by one in byte order, the same for everybody, so two such callers cannot wait for each other in a circle. Those that
// are there already are renewed meanwhile; when one of them is lost all are released, and it begins again. The lease that stands for all is
// that of the first key given, with the earliest deadline of all.
#pragma once
#include <memory>
#include <vector>
#include "core/backend.hpp"

namespace dlock::run {

// `keys`: at least two, each once, in the order given; a Request names the first.
std::unique_ptr<Backend> several(std::unique_ptr<Backend>, std::vector<Key> keys);

}  // namespace dlock::run
