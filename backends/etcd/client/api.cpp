// SPDX-License-Identifier: Apache-2.0
#include "etcd/client/api.hpp"
#include <openssl/evp.h>
#include "core/number.hpp"

namespace dlock::etcd {
namespace {

Json condition(const char* target, const std::string& key, const char* field, Json value,
               const char* result = "EQUAL") {
  return {{"target", target}, {"result", result}, {"key", base64(key)}, {field, std::move(value)}};
}

Json below(const std::string& prefix) {
  return {{"key", base64(prefix)}, {"range_end", base64(end_of_prefix(prefix))}};
}

unsigned char* octets(std::string& s) { return reinterpret_cast<unsigned char*>(s.data()); }
const unsigned char* octets(std::string_view s) {
  return reinterpret_cast<const unsigned char*>(s.data());
}

std::string decimal(std::int64_t n) { return std::to_string(n); }

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '\0');
  ::EVP_EncodeBlock(octets(out), octets(bytes), static_cast<int>(bytes.size()));
  return out;
}

std::string from_base64(std::string_view text) {
  std::string out(text.size() / 4 * 3, '\0');
  if (::EVP_DecodeBlock(octets(out), octets(text), static_cast<int>(text.size())) < 0) return {};
  // remove the bytes that the padding was decoded to
  for (; text.ends_with('=') && !out.empty(); text.remove_suffix(1)) out.pop_back();
  return out;
}

std::string end_of_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');  // all keys
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

const Json& member(const Json& object, const char* name) {
  static const Json nothing;
  if (!object.is_object()) return nothing;
  const auto at = object.find(name);
  return at == object.end() ? nothing : *at;
}

std::string text_of(const Json& object, const char* name) {
  const Json& m = member(object, name);
  return m.is_string() ? m.get<std::string>() : std::string{};
}

std::int64_t number_of(const Json& object, const char* name) {
  const Json& m = member(object, name);
  if (m.is_number_integer()) return m.get<std::int64_t>();
  return parse_number<std::int64_t>(text_of(object, name)).value_or(0);
}

KeyValue KeyValue::of(const Json& kv) {
  return {from_base64(text_of(kv, "key")), from_base64(text_of(kv, "value")),
          number_of(kv, "create_revision"), number_of(kv, "mod_revision"), number_of(kv, "lease")};
}

Json created(const std::string& key, std::int64_t revision) {
  return condition("CREATE", key, "create_revision", decimal(revision));
}
Json leased(const std::string& key, std::int64_t lease) {
  return condition("LEASE", key, "lease", decimal(lease));
}
Json modified(const std::string& key, std::int64_t revision) {
  return condition("MOD", key, "mod_revision", decimal(revision));
}
Json none_below(const std::string& prefix) {
  Json all = condition("CREATE", prefix, "create_revision", "0");
  all.update(below(prefix));
  return all;
}
Json untouched_below(const std::string& prefix, std::int64_t since) {
  Json all = condition("MOD", prefix, "mod_revision", decimal(since + 1), "LESS");
  all.update(below(prefix));
  return all;
}
Json value(const std::string& key, const char* result, const std::string& than) {
  return condition("VALUE", key, "value", base64(than), result);
}

Json get(const std::string& key) { return {{"request_range", {{"key", base64(key)}}}}; }
Json put(const std::string& key, const std::string& value, std::int64_t lease) {
  return {
      {"request_put", {{"key", base64(key)}, {"value", base64(value)}, {"lease", decimal(lease)}}}};
}
Json put_value(const std::string& key, const std::string& value) {
  return {
      {"request_put", {{"key", base64(key)}, {"value", base64(value)}, {"ignore_lease", true}}}};
}
Json put_lease(const std::string& key, std::int64_t lease) {
  return {
      {"request_put", {{"key", base64(key)}, {"lease", decimal(lease)}, {"ignore_value", true}}}};
}
Json remove(const std::string& key) { return {{"request_delete_range", {{"key", base64(key)}}}}; }
Json remove_below(const std::string& prefix) { return {{"request_delete_range", below(prefix)}}; }

Json list(const std::string& prefix, std::int64_t before, bool newest_alone) {
  Json range = below(prefix);
  range["sort_target"] = "CREATE";
  range["sort_order"] = newest_alone ? "DESCEND" : "ASCEND";
  if (newest_alone) range["limit"] = "1";
  if (before > 0) range["max_create_revision"] = decimal(before - 1);
  return {{"request_range", std::move(range)}};
}
Json list_names(const std::string& prefix) {
  Json range = below(prefix);
  range["keys_only"] = true;
  return {{"request_range", std::move(range)}};
}

Json transaction(Parts conditions, Parts then, Parts otherwise) {
  return {{"compare", std::move(conditions)},
          {"success", std::move(then)},
          {"failure", std::move(otherwise)}};
}
Json nested(Json transaction) { return {{"request_txn", std::move(transaction)}}; }

const KeyValues& TxnAnswer::range(std::size_t i) const {
  static const KeyValues nothing;
  return i < ranges.size() ? ranges[i] : nothing;
}

std::optional<TxnAnswer> TxnAnswer::of(const Json& body) {
  const Json& header = member(body, "header");
  TxnAnswer a;
  a.revision = number_of(header, "revision");
  if (a.revision <= 0) return std::nullopt;
  const Json& succeeded = member(body, "succeeded");
  a.succeeded = succeeded.is_boolean() && succeeded.get<bool>();
  for (const Json& one : member(body, "responses")) {
    KeyValues& found = a.ranges.emplace_back();
    for (const Json& kv : member(member(one, "response_range"), "kvs"))
      found.push_back(KeyValue::of(kv));
  }
  return a;
}

WatchLine WatchLine::of(std::string_view line) {
  const Json parsed = Json::parse(line, nullptr, false);
  const Json& result = member(parsed, "result");
  const auto says = [&](const char* name) {
    const Json& m = member(result, name);
    return m.is_boolean() && m.get<bool>();
  };
  WatchLine w;
  w.created = says("created");
  w.over = !result.is_object() || says("canceled");
  for (const Json& event : member(result, "events")) {
    const Json& type = member(event, "type");
    w.events.push_back({type == "DELETE" || type == 1, KeyValue::of(member(event, "kv"))});
  }
  return w;
}

std::string reason_of(const Json& answer) {
  const Json& error = member(answer, "error");
  if (error.is_object()) return text_of(error, "message");
  if (error.is_string()) return error.get<std::string>();
  return text_of(answer, "message");
}

}  // namespace dlock::etcd
