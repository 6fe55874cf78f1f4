// SPDX-License-Identifier: Apache-2.0
// The children of a lock's directory and their data: other programs share the directory.
#include <algorithm>
#include <climits>
#include <string>
#include <vector>
#include "common/record_reader.hpp"
#include "targets.hpp"
#include "zookeeper/queue/queue.hpp"
#include "zookeeper/records.hpp"

namespace dlock::fuzz {
namespace {

// A name per line.
void zookeeper_names(std::string_view text) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size() && all.size() < 64;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string name{text.substr(at, end - at)};
    // a directory has each name once
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(std::move(name));
    at = end + 1;
  }
  for (const zookeeper::Dialect dialect :
       {zookeeper::Dialect::sequential, zookeeper::Dialect::curator, zookeeper::Dialect::kazoo}) {
    const zookeeper::Directory directory = zookeeper::Directory::of(dialect, all);
    for (const unsigned limit : {1U, 3U, UINT_MAX})
      for (const std::string& name : all) {
        const zookeeper::Verdict verdict = zookeeper::decide(directory, name, limit);
        if (verdict.what == zookeeper::Verdict::What::run)
          must(directory.find(name) != nullptr, "a node runs that is not in the queue");
        if (verdict.what == zookeeper::Verdict::What::wait_deletion)
          must(verdict.watch != name, "a waiter watches itself");
      }
    // two that both run exclude each other only if one of them is exclusive
    std::size_t running = 0, exclusive = 0;
    for (std::size_t i = 0; i < directory.queue.size(); ++i) {
      if (directory.queue[i].mode == Mode::permit) continue;
      const bool run = zookeeper::decide(directory, directory.queue[i].name, UINT_MAX).what ==
                       zookeeper::Verdict::What::run;
      running += run;
      exclusive += run && directory.queue[i].mode == Mode::exclusive;
    }
    must(exclusive == 0 || running == 1 || directory.queue.size() > all.size(),
         "an exclusive node runs beside another");
  }
  for (const std::string& name : all)
    if (const auto slot = zookeeper::parse_slot(name)) (void)zookeeper::slot_node(*slot);
}

void zookeeper_data(std::string_view text) {
  if (const auto record = zookeeper::NodeRecord::parse(text)) {
    const auto again = zookeeper::NodeRecord::parse(record->text());
    must(again.has_value() && again->text() == record->text(), "data are read as other data");
  }
  (void)newer_layout(text);
  if (const auto ticket = zookeeper::Ticket::parse(text)) {
    const auto again = zookeeper::Ticket::parse(ticket->text());
    must(again.has_value() && again->id == ticket->id && again->password == ticket->password &&
             again->timeout == ticket->timeout && again->lock_delay == ticket->lock_delay,
         "a ticket is read as another one");
  }
}

const Added zookeeper_targets[] = {{"zookeeper_names", zookeeper_names},
                                   {"zookeeper_data", zookeeper_data}};

}  // namespace
}  // namespace dlock::fuzz
