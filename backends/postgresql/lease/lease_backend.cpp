// SPDX-License-Identifier: Apache-2.0
#include "postgresql/lease/lease_backend.hpp"
#include "postgresql/doctor.hpp"

namespace dlock::postgresql {

// Another session ends it.
int LeaseBackend::end_wait(std::unique_ptr<Connection>& c) {
  return c && c->under_way() && !c->broken() ? c->facts().pid : 0;
}

Result<std::vector<Finding>> LeaseBackend::doctor() { return examine(client_, traits_); }

}  // namespace dlock::postgresql
