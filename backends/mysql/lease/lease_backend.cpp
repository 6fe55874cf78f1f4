// SPDX-License-Identifier: Apache-2.0
#include "mysql/lease/lease_backend.hpp"
#include "mysql/doctor.hpp"

namespace dlock::mysql {

void LeaseBackend::adapt(const Connection& c) {
  const Facts& f = c.facts();
  table_.set_wakes(!f.galera && !f.proxied && !client_.options().poll,
                   f.galera ? client_.options().clock_skew.count() : 0);
}

int LeaseBackend::end_wait(std::unique_ptr<Connection>& c) {
  if (!c || !c->under_way()) return 0;
  (void)client_.end_wait(*c);
  if (c->under_way() || c->broken()) client_.drop(std::move(c));
  return 0;
}

Result<std::vector<Finding>> LeaseBackend::doctor() { return examine(client_, traits_); }

}  // namespace dlock::mysql
