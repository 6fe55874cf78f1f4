// SPDX-License-Identifier: Apache-2.0
// The pieces of etcd's v3 API in JSON: what a transaction asks, and what an answer says. No I/O; no
// answer, however wrong, throws.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::etcd {

using Json = nlohmann::json;

std::string base64(std::string_view bytes);
std::string from_base64(std::string_view text);  // empty: it is none
// The end of the range of all keys that begin so.
std::string end_of_prefix(std::string prefix);

// A member of an object; null, text or number: there is none of that kind. etcd leaves out what is
// zero, and writes 64-bit numbers as text.
const Json& member(const Json& object, const char* name);
std::string text_of(const Json& object, const char* name);
std::int64_t number_of(const Json& object, const char* name);

struct KeyValue {
  std::string key, value;
  std::int64_t created = 0, modified = 0, lease = 0;

  static KeyValue of(const Json&);
};
using KeyValues = std::vector<KeyValue>;

// Conditions.
Json created(const std::string& key, std::int64_t revision);  // 0: there is no such key
Json leased(const std::string& key, std::int64_t lease);
Json modified(const std::string& key, std::int64_t revision);
Json none_below(const std::string& prefix);
Json untouched_below(const std::string& prefix, std::int64_t since);  // none was written after it
// `result`: "GREATER", "LESS". False without the key.
Json value(const std::string& key, const char* result, const std::string& than);

// Operations.
Json get(const std::string& key);
Json put(const std::string& key, const std::string& value, std::int64_t lease = 0);
Json put_value(const std::string& key, const std::string& value);  // its lease stays
Json put_lease(const std::string& key, std::int64_t lease);        // its value stays
Json remove(const std::string& key);
Json remove_below(const std::string& prefix);
// What is below the prefix in order of creation; only what was created before (0: all); the newest
// of it alone.
Json list(const std::string& prefix, std::int64_t before = 0, bool newest_alone = false);
Json list_names(const std::string& prefix);

// A transaction, whole or as an operation of another.
using Parts = std::vector<Json>;
Json transaction(Parts conditions, Parts then, Parts otherwise);
Json nested(Json transaction);

struct TxnAnswer {
  bool succeeded = false;
  bool lease_missing = false;  // refused, nothing was done: it names a lease that has ended
  bool unclear = false;        // an earlier try of this call was not answered
  std::int64_t revision = 0;
  std::vector<KeyValues> ranges;  // one for each operation; empty for what is no get or list
  std::vector<std::int64_t> removed;

  // Of an operation that may not be there.
  const KeyValues& range(std::size_t i) const;
  static std::optional<TxnAnswer> of(const Json&);  // nullopt: no answer to a transaction
};

// A line of a watch.
struct WatchLine {
  bool created = false, over = false;  // over: it has to be made anew
  struct Event {
    bool deleted = false;
    KeyValue kv;
  };
  std::vector<Event> events;

  static WatchLine of(std::string_view line);
};

// Why etcd refused a call; a stream says it in an object.
std::string reason_of(const Json& answer);

}  // namespace dlock::etcd
