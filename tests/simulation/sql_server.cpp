// SPDX-License-Identifier: Apache-2.0
#include "simulation/sql_server.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include "core/number.hpp"
#include "mysql/client/connection.hpp"
#include "simulation/sql_text.hpp"
#include "simulation/world.hpp"

namespace dlock::simulation::sql {
namespace {

constexpr unsigned no_such_table = 1146;

std::int64_t number(const std::string& text) {
  return parse_number<std::int64_t>(text).value_or(0);
}
std::string text(std::int64_t n) { return std::to_string(n); }

}  // namespace

// ---- what the statements do --------------------------------------------------------------------

// Runs one statement.
class Run {
 public:
  Run(Server& server, Session& session, Micros now)
      : server_(server), session_(session), now_(now) {}

  Reply statement(std::string_view sql);

 private:
  struct Known {
    std::string pattern;
    void (Run::*act)();
    bool needs_tables = true;
  };
  static std::vector<Known> known();

  // the next value of the statement
  const std::string& word() { return values_.at(used_++); }
  std::int64_t count() { return number(word()); }
  void give(Row row) { reply_.rows.push_back(std::move(row)); }

  LockRow* lock(std::string_view name) {
    auto& all = server_.locks;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const LockRow& l) { return l.name == name; });
    return found == all.end() ? nullptr : &*found;
  }
  WaitRow* place(std::string_view name, std::string_view owner) {
    auto& all = server_.waits_;
    const auto found = std::find_if(all.begin(), all.end(), [&](const WaitRow& w) {
      return w.name == name && w.owner == owner;
    });
    return found == all.end() ? nullptr : &*found;
  }
  // Rows join at the tail, so they are in the order of their tickets.
  template <class Condition>
  std::vector<const WaitRow*> waits(const std::string& name, Condition condition) {
    std::vector<const WaitRow*> out;
    for (const WaitRow& w : server_.waits_)
      if (w.name == name && condition(w)) out.push_back(&w);
    return out;
  }
  template <class Condition>
  void erase_waits(const std::string& name, Condition condition) {
    reply_.affected = std::erase_if(
        server_.waits_, [&](const WaitRow& w) { return w.name == name && condition(w); });
  }
  static std::string name_of(const WaitRow& w) { return (w.mode == "X" ? "dl:" : "dq:") + w.owner; }
  // Without names in the database `live` is never 0.
  bool alive(const WaitRow& w) const {
    if (w.live != 0) return w.live > now_;
    const auto owner = server_.names.owner(name_of(w));
    return owner && *owner != session_.number;
  }

  // One column for each lock function of `all`.
  Row names(std::string_view all) {
    Row out;
    while (!all.empty()) {
      Values v;
      if (all.front() == ',') all.remove_prefix(1);
      if (take(all, release, v)) {
        const auto done = server_.names.release(session_.number, v[0]);
        out.push_back(done ? Cell{*done ? "1" : "0"} : Cell{});
        continue;
      }
      const bool if_missing = take(all, have, v);
      if (!if_missing && !take(all, get, v)) throw Unknown("a lock function");
      const bool has = if_missing && server_.names.owner(v[0]) == session_.number;
      out.push_back(has || server_.names.take(session_.number, v[0]) ? "1" : "0");
    }
    return out;
  }

  // Of the statements that are told nothing but that they are carried out.
  void done() {}
  void set_up() {
    session_.row_wait = count();
    (void)count();
    session_.silence = count();
  }
  void wait_timeout() { session_.silence = count(); }
  void show_variables() {
    for (const auto& [name, shown] : std::initializer_list<std::pair<const char*, std::string>>{
             {"version", "10.11.14-MariaDB"},
             {"hostname", "simulated"},
             {"port", "3306"},
             {"read_only", "OFF"},
             {"log_bin", "OFF"},
             {"pseudo_thread_id", std::to_string(session_.number)},
             {"sql_select_limit", std::to_string(UINT64_MAX)},
             {"timestamp", fmt::format("{}.{:06}", now_ / 1'000'000, now_ % 1'000'000)}})
      give({name, shown});
  }
  void create() { server_.made_ = true; }
  void kill_query() { reply_.kills = static_cast<std::uint64_t>(count()); }

  void do_names() { (void)names(word()); }
  void select_name() { give(names(word())); }
  void release_if_deleted() {
    if (session_.row_count > 0) (void)server_.names.release(session_.number, word());
  }
  void listen() {
    const std::string name = word(), seconds = word();
    if (server_.names.take(session_.number, name)) return give({text(now_), "1"});
    reply_.waits = Reply::Wait{name, std::stod(seconds), {text(now_)}};
  }

  // ---- dlock_lock
  void make_row() {
    const std::string name = word();
    if (lock(name)) return;
    const std::int64_t version = count();
    server_.locks.push_back({name, version, 0, word(), now_});
    reply_.affected = 1;
  }
  void take_free() {
    std::string state = word() + text(now_);
    state += word() + text(now_) + ' ' + text(now_) + ' ';
    state += text(now_ + count());
    state += word();
    const std::int64_t version = count();
    const std::string wake = word();
    LockRow* const l = lock(word());
    const Micros until = count();
    if (!l || l->fence >= now_ || now_ >= until || l->state != word() || l->waiters) return;
    *l = {l->name, version, now_, state, now_, false, wake};
    reply_.insert_id = static_cast<std::uint64_t>(now_);
    reply_.affected = 1;
  }
  void give_back() {
    const std::string state = word();
    const std::int64_t next = count();
    LockRow* const l = lock(word());
    const std::int64_t version = count();
    const Micros until = count();
    if (!l || l->version != version || now_ >= until || (l->waiters ? 1 : 0) > count()) return;
    *l = {l->name, next, l->fence, state, now_, l->waiters, l->wake};
    reply_.affected = 1;
  }
  void swap() {
    const std::string state = word();
    const std::int64_t next = count(), fence = count();
    const std::string me = values_.size() > 5 ? word() : "";
    LockRow* const l = lock(word());
    if (!l || l->version != count()) return;
    reply_.affected = 1;
    *l = {l->name, next, fence, state, now_, l->waiters, l->wake};
    if (!me.empty()) {
      l->wake.clear();
      l->waiters = !waits(l->name, [&](const WaitRow& w) { return w.owner != me; }).empty();
    }
  }
  void clear_wake() {
    LockRow* const l = lock(word());
    if (!l || l->version != count()) return;
    l->wake.clear();
    reply_.affected = 1;
  }
  void mark_waiters() {
    LockRow* const l = lock(word());
    if (!l || l->waiters) return;
    l->waiters = true;
    reply_.affected = 1;
  }

  Row columns(const LockRow& l) const {
    return {
        text(l.version), text(l.fence), l.state, text(now_), text(l.updated), {}, {}, "1", "0", ""};
  }
  void look() {
    if (const LockRow* const l = lock(word())) {
      Row row = columns(*l);
      row.emplace_back("0");
      give(std::move(row));
    }
  }
  // `queue`: columns 10 to 13. The names come behind the check who lives.
  void read(const LockRow& l, Row queue, const std::string& functions) {
    Row row = columns(l);
    row.insert(row.end(), queue.begin(), queue.end());
    row.insert(row.end(), {l.wake, "0"});
    for (Cell& one : names(functions)) row.push_back(std::move(one));
    give(std::move(row));
  }
  void read_first() {
    const std::string functions = word();
    const LockRow* const l = lock(word());
    if (!l) return;
    const auto all = waits(l->name, [](const WaitRow&) { return true; });
    read(*l, {{}, l->waiters ? "1" : "0", {}, all.empty() ? Cell{} : text(all.back()->ticket)},
         functions);
  }
  void read_again() {
    const std::string me = values_.front(), functions = values_.at(values_.size() - 2);
    const auto distance = static_cast<std::size_t>(number(values_.at(3)));
    const LockRow* const l = lock(values_.back());
    if (!l) return;
    const WaitRow* const mine = place(l->name, me);
    auto ahead = waits(l->name, [&](const WaitRow& w) {
      return (!mine || w.ticket < mine->ticket) && w.owner != me && alive(w);
    });
    std::reverse(ahead.begin(), ahead.end());
    const WaitRow* const one = ahead.empty()             ? nullptr
                               : distance < ahead.size() ? ahead[distance]
                                                         : ahead.front();
    read(*l,
         {mine ? Cell{text(mine->ticket)} : Cell{},
          l->waiters ? "1" : "0",
          one ? Cell{fmt::format("{} {} {} {}", one->ticket, one->mode, one->owner, one->permits)}
              : Cell{},
          {}},
         functions);
  }

  // ---- dlock_wait
  void join(Micros live) {
    ++server_.tickets_;
    if (WaitRow* const w = place(values_[0], values_[1])) {
      reply_.affected = w->live == live ? 1 : 2;
      w->live = live;
      return;
    }
    server_.waits_.push_back({server_.tickets_, values_[0], values_[1], values_[2], values_[3],
                              live, now_, values_.back()});
    reply_.affected = 1;
    reply_.insert_id = static_cast<std::uint64_t>(server_.tickets_);
  }
  void join_by_name() { join(0); }
  void join_for_a_time() { join(now_ + number(values_[4])); }
  void say_alive() {
    const Micros until = now_ + count();
    const std::string name = word();
    if (WaitRow* const w = place(name, word())) {
      w->live = until;
      reply_.affected = 1;
    }
  }
  void leave() {
    const std::string name = word(), owner = word();
    erase_waits(name, [&](const WaitRow& w) { return w.owner == owner; });
  }
  // And the dead before it.
  void leave_and_sweep() {
    const std::string name = word();
    const std::int64_t ticket = count();
    erase_waits(name, [&](const WaitRow& w) {
      return w.ticket == ticket || (w.ticket < ticket && !alive(w));
    });
  }
  // And those that were passed.
  void leave_if_granted() {
    if (session_.row_count != 1) return;
    const std::string name = word();
    const std::int64_t ticket = count(), passed = count();
    erase_waits(name, [&](const WaitRow& w) {
      return w.ticket == ticket || w.ticket <= passed || (w.ticket < ticket && !alive(w));
    });
  }
  void list(const std::string& name, std::int64_t before, const std::string& me) {
    for (const WaitRow* const w : waits(name, [&](const WaitRow& one) {
           return one.ticket < before && one.owner != me && alive(one);
         }))
      give({text(w->ticket), w->mode, w->owner, w->permits});
  }
  void all_ahead() { list(values_[0], number(values_[1]), values_[2]); }
  void all_waiting() { list(values_[0], INT64_MAX, values_[1]); }
  void count_ahead() {
    const std::string name = word();
    const std::int64_t before = count();
    Cell newest, last;
    Micros since = -1;
    const auto all = waits(name, [&](const WaitRow& w) { return w.ticket < before && alive(w); });
    for (const WaitRow* const w : all) since = std::max(since, w->since);
    if (!all.empty()) newest = text(since);
    if (!all.empty()) last = text(all.back()->ticket);
    give({std::to_string(all.size()), newest, last});
  }
  // For people: a name of this session counts, too.
  void show_waiting() {
    for (const WaitRow* const w : waits(word(), [&](const WaitRow& one) {
           return one.live == 0 ? server_.names.owner(name_of(one)).has_value() : one.live > now_;
         }))
      give({text(w->ticket), w->mode, w->owner, w->permits, w->who});
  }
  void ahead() {
    const std::string me = word(), name = word();
    const WaitRow* const mine = place(name, me);
    give({std::to_string(
        mine ? waits(name, [&](const WaitRow& w) { return w.ticket < mine->ticket && alive(w); })
                   .size()
             : 0)});
  }

  Server& server_;
  Session& session_;
  const Micros now_;
  Values values_{};
  std::size_t used_ = 0;
  Reply reply_{};
};

// ---- which statements there are ----------------------------------------------------------------

std::vector<Run::Known> Run::known() {
  const std::string columns =
      "SELECT l.version,l.fence,l.state,NOW,l.updated,l.started,l.started_until,l.layout,"
      "l.revoked,l.last_run,";
  const std::string rest = ",l.wake,@@global.read_only{names} FROM dlock_lock l WHERE l.name={}";
  const std::string mine = "(SELECT o.ticket FROM dlock_wait o WHERE o.name=l.name AND o.owner={})";
  const std::string before =
      "(SELECT CONCAT(w.ticket,' ',w.mode,' ',w.owner,' ',w.permits) FROM dlock_wait w WHERE "
      "w.name=l.name AND w.ticket<COALESCE(" +
      mine + ",~0) AND w.owner<>{} AND {alive} ORDER BY w.ticket DESC LIMIT 1";
  const std::string swap = "UPDATE dlock_lock l SET state={},version={},fence={},updated=NOW";
  const std::string join =
      "INSERT INTO dlock_wait(name,owner,mode,permits,live,since,who) VALUES({},{},{},{},";
  const std::string joined = ",NOW,{}) ON DUPLICATE KEY UPDATE live=VALUES(live)";
  const std::string shown =
      "SELECT w.ticket,w.mode,w.owner,w.permits,w.who FROM dlock_wait w WHERE w.name={} AND ";
  return {
      {"SET NAMES utf8mb4", &Run::done, false},
      {"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", &Run::done, false},
      {"SET SESSION sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',autocommit=1,"
       "time_zone='+00:00',sql_safe_updates=0,sql_select_limit=~0,innodb_lock_wait_timeout={},"
       "lock_wait_timeout={},wait_timeout={}",
       &Run::set_up, false},
      {"SET SESSION wait_timeout={}", &Run::wait_timeout, false},
      {"SHOW VARIABLES WHERE Variable_name IN ({},{},{},{},{},{},{},{},{},{},{},{},{},{},{})",
       &Run::show_variables, false},
      {"KILL QUERY {}", &Run::kill_query, false},
      {"DO IF(ROW_COUNT()>0,RELEASE_LOCK({}),0)", &Run::release_if_deleted, false},
      {"DO {names}", &Run::do_names, false},
      {"SELECT {names}", &Run::select_name, false},
      {"SELECT NOW,GET_LOCK({},{})", &Run::listen, false},

      {"INSERT IGNORE INTO dlock_lock(name,version,fence,state,updated) VALUES({},{},0,{},NOW)",
       &Run::make_row},
      {"UPDATE dlock_lock SET state=CONCAT({},NOW,{},NOW,' ',NOW,' ',NOW+{},{}),version={},"
       "fence=LAST_INSERT_ID(NOW),updated=NOW,wake={} WHERE name={} AND fence<NOW AND NOW<{} AND "
       "state={} AND waiters=0 AND layout=1 AND CAST(@@global.read_only AS CHAR) IN "
       "('0','OFF')",
       &Run::take_free},
      {"UPDATE dlock_lock SET state={},version={},updated=NOW WHERE name={} AND version={} AND "
       "NOW<{} AND waiters<={}",
       &Run::give_back},
      {swap + " WHERE name={} AND version={}", &Run::swap},
      {swap + ",wake='',waiters=EXISTS(SELECT 1 FROM dlock_wait w WHERE w.name=l.name AND "
              "w.owner<>{}) WHERE name={} AND version={}",
       &Run::swap},
      {"UPDATE dlock_lock SET wake='' WHERE name={} AND version={}", &Run::clear_wake},
      {"UPDATE dlock_lock SET waiters=1 WHERE name={} AND waiters=0", &Run::mark_waiters},
      {columns +
           "NULL,l.waiters,NULL,(SELECT MAX(w.ticket) FROM dlock_wait w WHERE "
           "w.name=l.name)" +
           rest,
       &Run::read_first},
      {columns + mine + ",l.waiters,COALESCE(" + before + " OFFSET {})," + before + ")),NULL" +
           rest,
       &Run::read_again},
      {columns + "@@global.read_only FROM dlock_lock l WHERE l.name={}", &Run::look},

      {join + "0" + joined, &Run::join_by_name},
      {join + "NOW+{}" + joined, &Run::join_for_a_time},
      {"UPDATE dlock_wait SET live=NOW+{} WHERE name={} AND owner={}", &Run::say_alive},
      {"DELETE FROM dlock_wait WHERE name={} AND owner={}", &Run::leave},
      {"DELETE w FROM dlock_wait w WHERE w.name={} AND w.owner={}", &Run::leave},
      {"DELETE w FROM dlock_wait w WHERE w.name={} AND (w.ticket={} OR (w.ticket<{} AND NOT "
       "{alive}))",
       &Run::leave_and_sweep},
      {"DELETE w FROM dlock_wait w WHERE ROW_COUNT()=1 AND w.name={} AND (w.ticket={} OR "
       "w.ticket<={} OR (w.ticket<{} AND NOT {alive}))",
       &Run::leave_if_granted},
      {"SELECT w.ticket,w.mode,w.owner,w.permits FROM dlock_wait w WHERE w.name={} AND w.ticket<{} "
       "AND w.owner<>{} AND {alive} ORDER BY w.ticket",
       &Run::all_ahead},
      {"SELECT w.ticket,w.mode,w.owner,w.permits FROM dlock_wait w WHERE w.name={} AND "
       "w.owner<>{} AND {alive} ORDER BY w.ticket",
       &Run::all_waiting},
      {shown + "IF(w.live=0,IS_USED_LOCK(CONCAT(IF(w.mode='X','dl:','dq:'),w.owner)) IS NOT NULL,"
               "w.live>NOW) ORDER BY w.ticket",
       &Run::show_waiting},
      {shown + "w.live>NOW ORDER BY w.ticket", &Run::show_waiting},
      {"SELECT COUNT(*),MAX(w.since),MAX(w.ticket) FROM dlock_wait w WHERE w.name={} AND "
       "w.ticket<{} AND {alive}",
       &Run::count_ahead},
      {"SELECT COUNT(*) FROM dlock_wait w JOIN dlock_wait m ON m.name=w.name AND m.owner={} WHERE "
       "w.name={} AND w.ticket<m.ticket AND {alive}",
       &Run::ahead}};
}

Reply Run::statement(std::string_view sql) {
  std::string plain{sql};
  for (std::size_t at = 0; (at = plain.find(mysql::server_clock, at)) != plain.npos;)
    plain.replace(at, mysql::server_clock.size(), "NOW");
  if (plain.starts_with("CREATE TABLE IF NOT EXISTS dlock_") || plain.starts_with("PREPARE ")) {
    if (plain.starts_with("CREATE")) create();
    session_.row_count = 0;
    return std::move(reply_);
  }
  static const std::vector<Known> all = known();
  for (const Known& one : all) {
    std::string_view rest = plain;
    values_.clear();
    if (!take(rest, one.pattern, values_) || !rest.empty()) continue;
    if (one.needs_tables && !server_.made_) {
      reply_.error = no_such_table;
      return std::move(reply_);
    }
    reply_.has_rows = plain.starts_with("S") && !plain.starts_with("SET ");  // SELECT, SHOW
    (this->*one.act)();
    if (!reply_.waits)
      session_.row_count = reply_.has_rows ? -1 : static_cast<std::int64_t>(reply_.affected);
    return std::move(reply_);
  }
  throw Unknown(fmt::format("the simulated database does not know: {}", plain));
}

Reply Server::execute(Session& session, std::string_view statement, Micros now) {
  return Run{*this, session, now}.statement(statement);
}

void Server::forget_rows() {
  locks.clear();
  waits_.clear();
  made_ = false;
}

std::uint64_t Server::hash() const {
  std::uint64_t h = names.hash();
  for (const LockRow& l : locks)
    h = mixed(h, hash_of(fmt::format("{} {} {} {} {} {} {}", l.name, l.version, l.fence, l.state,
                                     l.updated, l.waiters, l.wake)));
  for (const WaitRow& w : waits_)
    h = mixed(h, hash_of(fmt::format("{} {} {} {} {} {} {}", w.ticket, w.name, w.owner, w.mode,
                                     w.permits, w.live, w.since)));
  return h;
}

}  // namespace dlock::simulation::sql
