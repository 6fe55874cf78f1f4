// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include "support/etcd_server.hpp"
#include "support/fixture_main.hpp"

using namespace dlock::test;

int main(int argc, char** argv) {
  if (!installed(etcd_program)) return without(etcd_program);
  return serve(argc, argv, [] {
    return std::make_unique<EtcdServer>(
        EtcdServer::Setup{.members = 1, .durable = false, .flags = {}});
  });
}
