// SPDX-License-Identifier: Apache-2.0
#include "simulation/network.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include "simulation/process.hpp"

namespace dlock::simulation {

using Kind = Fault::Kind;

std::uint64_t Link::hash() const noexcept {
  std::uint64_t h = mixed(number, static_cast<std::uint64_t>(state));
  h = mixed(h, (client ? 1U : 0U) | (up_silent ? 2U : 0U) | (down_silent ? 4U : 0U) |
                   (served ? 8U : 0U) | (waits_for_wake ? 16U : 0U));
  return mixed(mixed(h, hash_of(inbox)), hash_of(unparsed));
}

std::uint64_t Network::hash() const noexcept {
  std::uint64_t sum = 0;
  for (const LinkPtr& link : links_) sum += link->hash();
  return sum;
}

LinkPtr Network::dial(Process& client) {
  const auto link = std::make_shared<Link>();
  link->number = ++made_;
  link->client = &client;
  links_.push_back(link);
  const Fault fault = world_.ask(Point::dial);
  if (fault.kind != Kind::none && world_.told())
    world_.say(client.name(), fmt::format("connects (#{}); {}", link->number, text(fault)));
  // a connection that is not made at once is not made at all
  if (fault.kind != Kind::none) return link;
  world_.after(world_.latency(), mixed(1, link->number), [this, link] {
    const bool up = store_.accepts();
    link->served = up;
    world_.after(world_.latency(), mixed(2, link->number), [this, link, up] {
      if (link->state != Link::State::dialling) return;
      link->state = up ? Link::State::open : Link::State::refused;
      if (link->client) link->client->changed();
      else forget(link);
    });
  });
  return link;
}

void Network::send(const LinkPtr& link, std::string bytes) {
  if (link->up_silent) return;
  const Fault fault = world_.ask(store_.undoes(bytes) ? Point::undo : Point::request);
  if (fault.kind != Kind::none && world_.told())
    world_.say(link->client->name(),
               fmt::format("sends {} (#{}); {}", store_.name_of(bytes), link->number, text(fault)));
  else if (world_.told())
    world_.say(link->client->name(),
               fmt::format("sends {} (#{})", store_.name_of(bytes), link->number));
  if (fault.kind == Kind::lost) {
    link->up_silent = true;
    return;
  }
  const Nanos late = fault.kind == Kind::late ? fault.span : 0;
  link->up_until = std::max(link->up_until + 1, world_.now() + world_.latency() + late);
  world_.fault_lasts_until(late > 0 ? link->up_until : 0);
  const std::uint64_t tag = mixed(mixed(3, link->number), hash_of(bytes));
  world_.at(link->up_until, tag,
            [this, link, fault, bytes = std::move(bytes)] { arrive(link, bytes, fault); });
}

void Network::arrive(const LinkPtr& link, const std::string& bytes, const Fault& fault) {
  if (fault.kind == Kind::restart_first) store_.restart();
  if (fault.kind == Kind::evict) store_.evict();
  if (fault.kind == Kind::fail_over) store_.fail_over(fault.span);
  if (fault.kind == Kind::freeze) store_.freeze(fault.span);
  if (link->served) store_.receive(link, bytes);
  else if (link->client) end_for_client(link, Link::State::reset);
  if (fault.kind == Kind::restart_then) store_.restart();
  if (fault.kind == Kind::cut) cut(link);
}

void Network::reply(const LinkPtr& link, std::string bytes) {
  if (link->down_silent || !link->client) return;
  const Fault fault = world_.ask(Point::reply);
  if (fault.kind != Kind::none && world_.told())
    world_.say("store", fmt::format("replies (#{}); {}", link->number, text(fault)));
  if (fault.kind == Kind::lost) {
    link->down_silent = true;
    return;
  }
  const Nanos late = fault.kind == Kind::late ? fault.span : 0;
  link->down_until = std::max(link->down_until + 1, world_.now() + world_.latency() + late);
  const std::uint64_t tag = mixed(mixed(4, link->number), hash_of(bytes));
  world_.at(link->down_until, tag, [this, link, fault, bytes = std::move(bytes)] {
    if (!link->client) return;
    link->inbox += bytes;
    link->client->changed();
    if (fault.kind == Kind::cut) cut(link);
  });
}

void Network::close(const LinkPtr& link) {
  link->client = nullptr;
  if (!link->served && link->state != Link::State::dialling) return forget(link);
  if (link->up_silent) return;  // the store never hears of it
  world_.at(
      link->up_until + 1 > world_.now() ? link->up_until + 1 : world_.now() + world_.latency(),
      mixed(5, link->number), [this, link] {
        store_.closed(link);
        link->served = false;
        forget(link);
      });
}

void Network::end_for_client(const LinkPtr& link, Link::State how) {
  if (link->state != Link::State::open && link->state != Link::State::dialling) return;
  link->state = how;
  if (link->client) link->client->changed();
}

void Network::cut(const LinkPtr& link) {
  store_.closed(link);
  link->served = false;
  link->up_silent = true;
  end_for_client(link, Link::State::reset);
  if (!link->client) forget(link);
}

void Network::cut_all() {
  for (const LinkPtr& link : std::vector<LinkPtr>{links_}) {
    if (!link->served) continue;
    store_.closed(link);
    link->served = false;
    if (link->down_silent) continue;
    if (!link->client) forget(link);
    else
      world_.after(world_.latency(), mixed(6, link->number),
                   [this, link] { end_for_client(link, Link::State::ended); });
  }
}

void Network::forget(const LinkPtr& link) { std::erase(links_, link); }

// ---- the other end -----------------------------------------------------------------------------

void Server::receive(const LinkPtr& link, std::string_view bytes) {
  link->unparsed += bytes;
  if (world_.now() >= frozen_until_) return serve(link);
  if (std::find(unserved_.begin(), unserved_.end(), link) == unserved_.end())
    unserved_.push_back(link);
}

void Server::freeze(Nanos span) {
  frozen_until_ = std::max(frozen_until_, world_.now() + span);
  world_.fault_lasts_until(frozen_until_);  // it may begin with a message that was late
  world_.at(frozen_until_, 20, [this] {
    if (world_.now() < frozen_until_) return;
    for (const LinkPtr& link : std::exchange(unserved_, {})) serve(link);
  });
}

void Server::goes_down() {
  up_ = false;
  frozen_until_ = 0;
  unserved_.clear();
  network_->cut_all();
  world_.fault_lasts_until(world_.now() + down_time);
}

}  // namespace dlock::simulation
