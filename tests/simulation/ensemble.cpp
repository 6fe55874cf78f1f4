// SPDX-License-Identifier: Apache-2.0
#include "simulation/ensemble.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include <utility>
#include "common/record_reader.hpp"
#include "core/number.hpp"

namespace dlock::simulation {
namespace {

constexpr Nanos tick = 2 * second;
constexpr char field_end = '\x1f', frame_end = '\x1e';
enum Flags { ephemeral = 1, sequential = 2 };

std::int64_t number(const std::string& text) {
  return parse_number<std::int64_t>(text).value_or(text == "-1" ? -1 : 0);
}
std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string frame(const Fields& fields) {
  std::string out;
  for (const std::string& f : fields) out += f + field_end;
  return out + frame_end;
}

Fields take_frame(std::string& from) {
  const std::size_t end = from.find(frame_end);
  Fields fields;
  if (end == from.npos) return fields;
  for (std::size_t at = 0; at < end;) {
    const std::size_t next = from.find(field_end, at);
    fields.push_back(from.substr(at, next - at));
    at = next + 1;
  }
  from.erase(0, end + 1);
  return fields;
}

std::string Ensemble::name_of(std::string_view request) const {
  std::string rest{request}, names;
  for (Fields f = take_frame(rest); !f.empty(); f = take_frame(rest))
    names += (names.empty() ? "" : ", ") + f[0];
  return names;
}

bool Ensemble::undoes(std::string_view request) const { return request.starts_with("delete"); }

void Ensemble::serve(const LinkPtr& link) {
  for (Fields f = take_frame(link->unparsed); !f.empty(); f = take_frame(link->unparsed))
    execute(link, f);
}

void Ensemble::restart() {
  if (!up_) return;
  if (world_.told()) world_.say("store", "restarts");
  goes_down();
  world_.after(down_time, 21, [this] {
    up_ = true;
    for (auto& [id, s] : sessions_) {
      s.timeout = s.created;
      touch(id);
    }
  });
}

void Ensemble::closed(const LinkPtr& link) {
  const auto found = of_link_.find(link.get());
  if (found == of_link_.end()) return;
  const auto session = sessions_.find(found->second);
  if (session != sessions_.end() && session->second.link == link) {
    session->second.link.reset();
    session->second.watches.clear();
  }
  of_link_.erase(found);
}

// ---- sessions ----------------------------------------------------------------------------------

void Ensemble::connect(const LinkPtr& link, const Fields& f) {
  std::int64_t id = number(f[2]);
  if (id == 0) {
    id = ++last_session_;
    ++zxid_;
    sessions_[id].created = number(f[1]) * millisecond;
  }
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return network_->reply(link, frame({"connected", "0", "0"}));
  if (const LinkPtr old = found->second.link) network_->cut(old);
  found->second.link = link;
  found->second.timeout = number(f[1]) * millisecond;
  of_link_[link.get()] = id;
  touch(id);
  network_->reply(link, frame({"connected", std::to_string(id),
                               std::to_string(found->second.timeout / millisecond)}));
}

void Ensemble::touch(std::int64_t id) {
  Session& s = sessions_.at(id);
  s.touched = world_.now();
  const Nanos ends = ((s.touched + s.timeout) / tick + 1) * tick;
  world_.at(ends, mixed(23, static_cast<std::uint64_t>(id)), [this, id] { expire(id); });
}

void Ensemble::expire(std::int64_t id) {
  const auto found = sessions_.find(id);
  if (!up_ || found == sessions_.end() ||
      found->second.touched + found->second.timeout > world_.now())
    return;
  if (world_.told()) world_.say("store", fmt::format("session {} has expired", id));
  end(id, true);
}

void Ensemble::end(std::int64_t id, bool by_time) {
  std::vector<std::string> theirs;
  for (const auto& [path, node] : nodes_)
    if (node.owner == id) theirs.push_back(path);
  for (const std::string& path : theirs) {
    if (by_time) ledger_.expired(static_cast<FencingToken>(nodes_[path].czxid));
    remove(path, "close");
  }
  const LinkPtr link = sessions_[id].link;
  sessions_.erase(id);
  if (link && by_time) network_->cut(link);
}

// ---- nodes -------------------------------------------------------------------------------------

std::vector<std::string> Ensemble::children(const std::string& path) const {
  std::vector<std::string> names;
  const std::string before = path == "/" ? path : path + '/';
  for (const auto& [other, node] : nodes_)
    if (other.size() > before.size() && other.starts_with(before) &&
        other.find('/', before.size()) == other.npos)
      names.push_back(other.substr(before.size()));
  return names;
}

Ensemble::Change Ensemble::create(std::int64_t session, const std::string& path,
                                  const std::string& data, int flags) {
  const auto parent = nodes_.find(parent_of(path));
  if (parent == nodes_.end()) return {ZNONODE, {}};
  std::string full = path;
  if ((flags & sequential) != 0 && flags < 4) full += fmt::format("{:010}", parent->second.next++);
  if (nodes_.contains(full)) return {ZNODEEXISTS, {}};
  nodes_[full] = {data, ++zxid_, (flags == 1 || flags == 3) ? session : 0};
  fire("d" + full);
  fire("c" + parent->first);
  look_at_queues();
  return {ZOK, full};
}

Ensemble::Change Ensemble::remove(const std::string& path, std::string_view how) {
  const auto found = nodes_.find(path);
  if (found == nodes_.end()) return {ZNONODE, {}};
  if (!children(path).empty()) return {ZNOTEMPTY, {}};
  ++zxid_;
  const auto token = static_cast<FencingToken>(found->second.czxid);
  if (found->second.holds) {
    if (world_.told()) world_.say("store", fmt::format("{} of token {}", how, token));
    ledger_.removed(token, how);
  }
  nodes_.erase(found);
  fire("d" + path);
  fire("c" + parent_of(path));
  fire("c" + path);
  look_at_queues();
  return {ZOK, {}};
}

Ensemble::Change Ensemble::set(const std::string& path, const std::string& data,
                               std::int64_t version) {
  if (const int rc = check(path, version); rc != ZOK) return {rc, {}};
  Node& node = nodes_[path];
  node.data = data;
  ++node.version;
  ++zxid_;
  fire("d" + path);
  look_at_queues();
  return {ZOK, {}};
}

int Ensemble::check(const std::string& path, std::int64_t version) const {
  const auto found = nodes_.find(path);
  if (found == nodes_.end()) return ZNONODE;
  return version < 0 || found->second.version == version ? int{ZOK} : int{ZBADVERSION};
}

void Ensemble::fire(const std::string& watch) {
  for (auto& [id, s] : sessions_)
    if (s.watches.erase(watch) > 0 && s.link) network_->reply(s.link, frame({"event", watch}));
}

// Who has the lock: a writer that is first; readers before the first writer; permits whose data
// have a slot, the fifth word of dlock's record.
void Ensemble::look_at_queues() {
  std::map<std::string, std::map<std::string, Node*>> queues;  // by number
  for (auto& [path, node] : nodes_)
    if (node.owner != 0 && path.find("-__") != path.npos)
      queues[parent_of(path)][path.substr(path.size() - 10) + path] = &node;
  for (const auto& [directory, queue] : queues) {
    bool first = true, writer = false;
    for (const auto& [place, node] : queue) {
      std::vector<std::string> words;
      for (std::string_view rest = node->data; !rest.empty() && words.size() < 5;)
        words.emplace_back(next_part(rest, ' '));
      const bool permit = place.find("-__SEMA__") != place.npos;
      const bool shared = place.find("-__READ__") != place.npos;
      const bool holds = permit ? words.size() == 5 && words[4] != "-" : shared ? !writer : first;
      if (holds && !node->holds) {
        const auto token = static_cast<FencingToken>(node->czxid);
        if (world_.told()) world_.say("store", fmt::format("token {} has the lock", token));
        node->holds = true;
        ledger_.granted(token,
                        permit   ? Mode::permit
                        : shared ? Mode::shared
                                 : Mode::exclusive,
                        permit ? static_cast<unsigned>(number(words[3])) : UINT_MAX, INT64_MAX);
      }
      first = false;
      writer |= !permit && !shared;
    }
  }
}

// ---- requests ----------------------------------------------------------------------------------

void Ensemble::add_stat(Fields& f, const Node& n) {
  for (const std::int64_t value : {n.czxid, n.owner, n.version}) f.push_back(std::to_string(value));
}

void Ensemble::execute(const LinkPtr& link, const Fields& f) {
  if (f[0] == "connect") return connect(link, f);
  const auto found = of_link_.find(link.get());
  if (found == of_link_.end() || !sessions_.contains(found->second)) return network_->cut(link);
  const std::int64_t id = found->second;
  touch(id);
  if (f[0] == "ping") return network_->reply(link, frame({"pong"}));
  if (f[0] == "close") {
    end(id, false);
    return;
  }
  Fields answer{"reply", f[1]};
  const std::string& path = f[2];
  const auto node = nodes_.find(path);
  const bool there = node != nodes_.end();
  if (f[0] == "create") {
    const Change made = create(id, path, f[3], static_cast<int>(number(f[4])));
    answer.insert(answer.end(), {std::to_string(made.rc), made.path});
    if (made.rc == ZOK) add_stat(answer, nodes_[made.path]);
  } else if (f[0] == "delete") {
    answer.push_back(std::to_string(remove(path, "delete").rc));
  } else if (f[0] == "set") {
    const Change made = set(path, f[3], number(f[4]));
    answer.push_back(std::to_string(made.rc));
    if (made.rc == ZOK) add_stat(answer, node->second);
  } else if (f[0] == "children") {
    answer.push_back(std::to_string(there ? int{ZOK} : int{ZNONODE}));
    if (there) {
      add_stat(answer, node->second);
      const auto names = children(path);
      answer.insert(answer.end(), names.begin(), names.end());
      if (f[3] == "1") sessions_[id].watches.insert("c" + path);
    }
  } else if (f[0] == "get" || f[0] == "exists") {
    answer.push_back(std::to_string(there ? int{ZOK} : int{ZNONODE}));
    if (there) {
      answer.push_back(node->second.data);
      add_stat(answer, node->second);
    }
    if (f[3] == "1" && (there || f[0] == "exists")) sessions_[id].watches.insert("d" + path);
  } else if (f[0] == "multi") {
    const Fields results = multi(id, f);
    answer.insert(answer.end(), results.begin(), results.end());
  } else {
    answer.push_back(std::to_string(int{ZOK}));  // sync
  }
  network_->reply(link, frame(answer));
}

// Groups of kind, path, data, version, flags. All or nothing: what it would change is tried on a
// copy.
Fields Ensemble::multi(std::int64_t session, const Fields& f) {
  int rc = ZOK;
  std::map<std::string, Node> tried = nodes_;
  std::vector<int> errors;
  for (std::size_t i = 2; i + 4 < f.size(); i += 5) {
    const auto node = tried.find(f[i + 1]);
    int error = ZOK;
    if (f[i] == "create") {
      if (node != tried.end()) error = ZNODEEXISTS;
      else if (!tried.contains(parent_of(f[i + 1]))) error = ZNONODE;
      else tried[f[i + 1]];
    } else if (node == tried.end()) {
      error = ZNONODE;
    } else if (number(f[i + 3]) >= 0 && number(f[i + 3]) != node->second.version) {
      error = ZBADVERSION;
    } else if (f[i] == "delete") {
      tried.erase(node);
    }
    errors.push_back(rc != ZOK ? int{ZRUNTIMEINCONSISTENCY} : error);
    if (rc == ZOK) rc = error;
  }
  Fields answer{std::to_string(rc)};
  for (std::size_t n = 0, i = 2; i + 4 < f.size(); i += 5, ++n) {
    Change made{errors[n], {}};
    if (rc == ZOK && f[i] == "create")
      made = create(session, f[i + 1], f[i + 2], static_cast<int>(number(f[i + 4])));
    if (rc == ZOK && f[i] == "delete") made = remove(f[i + 1], "delete");
    if (rc == ZOK && f[i] == "set") made = set(f[i + 1], f[i + 2], number(f[i + 3]));
    answer.insert(answer.end(), {std::to_string(made.rc), made.path});
  }
  if (rc == ZOK) ++zxid_;
  return answer;
}

bool Ensemble::empty() const {
  return std::none_of(nodes_.begin(), nodes_.end(),
                      [](const auto& n) { return n.second.owner != 0; });
}

std::uint64_t Ensemble::hash() const {
  std::uint64_t h =
      mixed(static_cast<std::uint64_t>(zxid_), static_cast<std::uint64_t>(frozen_until_));
  for (const auto& [id, s] : sessions_) {
    h = mixed(h, mixed(static_cast<std::uint64_t>(id), static_cast<std::uint64_t>(s.touched)));
    h = mixed(h, s.link ? s.link->number : 0);
    for (const std::string& watch : s.watches) h = mixed(h, hash_of(watch));
  }
  for (const auto& [path, node] : nodes_) {
    h = mixed(h, hash_of(path) + static_cast<std::uint64_t>(node.czxid));
    h = mixed(h, hash_of(node.data) + static_cast<std::uint64_t>(node.version));
  }
  return mixed(h, up_ ? 1 : 0);
}

}  // namespace dlock::simulation
