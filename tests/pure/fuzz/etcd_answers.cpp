// SPDX-License-Identifier: Apache-2.0
// What an etcd server sends, which may be another program or a hostile one: HTTP, JSON, and the
// records in it.
#include <algorithm>
#include <string>
#include "etcd/client/api.hpp"
#include "etcd/client/http.hpp"
#include "etcd/queue/contender.hpp"
#include "targets.hpp"

namespace dlock::fuzz {
namespace {

void record(std::string_view text) {
  const auto r = etcd::Record::parse(text);
  if (!r) return;
  const auto again = etcd::Record::parse(r->text());
  must(again && again->text() == r->text(), "a record changes when it is written again");
}

void answer(std::string_view text) {
  const etcd::Json json = etcd::Json::parse(text, nullptr, false);
  (void)etcd::reason_of(json);
  (void)etcd::WatchLine::of(text);
  const auto a = etcd::TxnAnswer::of(json);
  if (!a) return;
  for (const etcd::KeyValues& range : a->ranges) {
    const etcd::Contenders all = etcd::contenders(range, "");
    for (std::size_t i = 0; i < all.size(); ++i) {
      (void)etcd::holds(all, i);
      (void)etcd::view_of(all[i], INT64_MAX);
      record(all[i].kv.value);
    }
    for (const Mode mode : {Mode::exclusive, Mode::shared, Mode::permit})
      (void)etcd::decide(all, mode, 1);
  }
}

// The first byte says in which pieces the rest arrives.
void http(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t piece = 1 + static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  etcd::HttpReader reader;
  while (!bytes.empty()) {
    if (!reader.feed(bytes.substr(0, piece))) return;
    bytes.remove_prefix(std::min(piece, bytes.size()));
    if (const auto line = reader.next_line()) answer(*line);
  }
  (void)reader.end();
  (void)reader.stays_open();
  answer(reader.extract_body());
}

const Added added_http{"etcd_http", http}, added_answer{"etcd_answer", answer},
    added_record{"etcd_record", record};

}  // namespace
}  // namespace dlock::fuzz
