// SPDX-License-Identifier: Apache-2.0
#include "support/client.hpp"
#include <algorithm>

namespace dlock::test {

std::unique_ptr<Backend> open_backend(const BackendFactory& factory, const std::string& url,
                                      const Settings& settings, std::string_view recipe) {
  auto parsed = Url::parse(url);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  if (factory.normalize_url) factory.normalize_url(*parsed);
  const auto recipes = factory.recipes;
  const auto traits = std::find_if(recipes.begin(), recipes.end(),
                                   [&](const Traits& t) { return t.recipe == recipe; });
  if (traits == recipes.end()) throw std::runtime_error("no such recipe");
  auto backend = factory.open(*parsed, *traits, settings);
  if (!backend) throw std::runtime_error(backend.error().message);
  return std::move(*backend);
}

Request request(const Key& key, Duration ttl) {
  Request r{.key = key, .owner = Owner::random()};
  r.ttl = ttl;
  r.identity = Identity::mine("test");
  return r;
}

Lease acquire_or_fail(Backend& backend, const Request& r) {
  const auto waiter = backend.enqueue(r);
  if (!waiter) throw std::runtime_error(waiter.error().message);
  const Progress p = answered([&] { return (*waiter)->poll(Duration{0}); });
  if (!std::holds_alternative<Granted>(p)) throw std::runtime_error("not granted");
  return std::get<Granted>(p).lease;
}

void release_or_fail(Backend& backend, const Lease& lease) {
  if (answered([&] { return backend.release(lease); }) != Released::yes)
    throw std::runtime_error("was not held");
}

}  // namespace dlock::test
