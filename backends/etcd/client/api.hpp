// SPDX-License-Identifier: Apache-2.0
// Builds requests of etcd's v3 API in JSON, and reads the replies. No I/O. A malformed reply does
// not make it throw.
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
std::string from_base64(std::string_view text);  // empty if the text is not base64
// Returns the end of the range of all keys that begin with the prefix.
std::string end_of_prefix(std::string prefix);

// Return a member of an object. If the object has no member of that name and type, they return
// null, "" or 0. etcd omits zeros, and writes 64-bit numbers as text.
const Json& member(const Json& object, const char* name);
std::string text_of(const Json& object, const char* name);
std::int64_t number_of(const Json& object, const char* name);

struct KeyValue {
  std::string key, value;
  std::int64_t created = 0, modified = 0, lease = 0;

  static KeyValue of(const Json&);
};
using KeyValues = std::vector<KeyValue>;

// Conditions of a transaction.
Json created(const std::string& key, std::int64_t revision);  // revision 0: the key does not exist
Json leased(const std::string& key, std::int64_t lease);
Json modified(const std::string& key, std::int64_t revision);
Json none_below(const std::string& prefix);
// The condition that no key below the prefix was written after revision `since`.
Json untouched_below(const std::string& prefix, std::int64_t since);
// The condition that the key's value is greater (`result` "GREATER") or less ("LESS") than `than`.
// If the key does not exist, the condition is false.
Json value(const std::string& key, const char* result, const std::string& than);

// Operations of a transaction.
Json get(const std::string& key);
Json put(const std::string& key, const std::string& value, std::int64_t lease = 0);
Json put_value(const std::string& key, const std::string& value);  // the key keeps its lease
Json put_lease(const std::string& key, std::int64_t lease);        // the key keeps its value
Json remove(const std::string& key);
Json remove_below(const std::string& prefix);
// Lists the keys below the prefix in order of creation. `before`: only keys that were created
// before this revision; 0: all. `newest_alone`: only the newest of these keys.
Json list(const std::string& prefix, std::int64_t before = 0, bool newest_alone = false);
Json list_names(const std::string& prefix);

// Builds a transaction; nested() makes it an operation of another transaction.
using Parts = std::vector<Json>;
Json transaction(Parts conditions, Parts then, Parts otherwise);
Json nested(Json transaction);

struct TxnAnswer {
  bool succeeded = false;
  bool lease_missing = false;  // the lease that the call names has ended, so nothing was done
  bool unclear = false;        // an earlier try got no reply, and may have been carried out
  std::int64_t revision = 0;
  // for each operation, the keys that it found; empty unless the operation is a get or list
  std::vector<KeyValues> ranges;

  // Returns the keys that operation `i` found, or none if the reply lacks that operation.
  const KeyValues& range(std::size_t i) const;
  static std::optional<TxnAnswer> of(const Json&);  // nullopt: it is no reply to a transaction
};

// One line of the stream of a watch.
struct WatchLine {
  // created: etcd has begun the watch. over: the watch has ended, so begin another watch.
  bool created = false, over = false;
  struct Event {
    bool deleted = false;
    KeyValue kv;
  };
  std::vector<Event> events;

  static WatchLine of(std::string_view line);
};

// Returns why etcd refused a call. In a line of a stream, `error` is an object with the reason.
std::string reason_of(const Json& answer);

}  // namespace dlock::etcd
