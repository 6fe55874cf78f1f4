// SPDX-License-Identifier: Apache-2.0
// --once-per: the note is a node beside the contenders. A change names the version of this node, in
// one transaction with a check that the grant's node exists.
//
// Interleavings:
// 1. Two holders of the key (readers, permits, nested runs) have read the same note. Both writes
//    name the same version, so the ensemble refuses the second write. The second holder reads
//    again, and finds the start of the first holder.
// 2. There is no note, and both create it. The ensemble refuses the second create.
// 3. After we have read, a start is withdrawn and another start is noted. The node stays when its
//    start is withdrawn, so no version is used again, and our write is refused.
// 4. The grant ends after we have read. Then the check of its node fails, and nothing is written.
// 5. The reply is lost. The connection was dropped, so the request cannot arrive later unnoticed.
//    The note is read again, and shows whether the request was carried out.
#include <zookeeper/zookeeper.h>
#include "common/exchange.hpp"
#include "zookeeper/queue/queue_backend.hpp"

namespace dlock::zookeeper {

Result<QueueBackend::Note> QueueBackend::read_note(Session& s, const std::string& path,
                                                   Deadline until) {
  const std::string node = path + '/' + std::string{start_node};
  (void)s.sync(node);
  TRY(r, answer(s, "look", s.get(node), until, {ZNONODE}));
  if (r.rc == ZNONODE) return Note{};
  TRY(start, parse_start(r.text, options_.where));
  return Note{start, r.stat.version};
}

Result<std::int64_t> QueueBackend::leader_time(Session& s, const std::string& path,
                                               Deadline until) {
  if (const auto known = s.leader_time()) return *known;
  const std::string node = path + '/' + clock_node();
  Session::Call made = s.create(node, "", ZOO_EPHEMERAL);
  const Session::Call gone = s.remove(node);
  TRY_VOID(answer(s, "look", std::move(made), until, {ZNOAUTH, ZNONODE}));
  TRY_VOID(done(s, "look", {&gone}, until));
  // If the client may not write here, or the first lock has not yet been taken, this host's clock
  // is enough: such a client cannot start anything.
  return s.leader_time().value_or(wall_micros());
}

Result<RunStarts> QueueBackend::starts(const Key& key) {
  if (!traits().starts) return fail(cannot("--once-per"));
  const Deadline until = op_deadline();
  TRY(path, path_of(options_, key));
  TRY(s, reader());
  TRY(now, leader_time(*s, path, until));
  TRY(note, read_note(*s, path, until));
  if (note.start && note.start->until <= now) note.start.reset();
  return RunStarts{now, note.start};
}

Result<std::optional<std::string>> QueueBackend::granted_node(Session& s, const Lease& lease,
                                                              Deadline until) {
  if (const QueueNode* p = find_place(lease.key, lease.owner)) {
    if (!p->granted() || p->given_up || !lives(*p)) return std::nullopt;
    (void)s.sync(p->node);
    TRY(r, answer(s, "look", s.exists(p->node), until, {ZNONODE}));
    return r.rc == ZOK && p->is(r.stat) ? std::optional{p->node} : std::nullopt;
  }
  TRY(all, holders(lease.key));
  for (const Contender& c : all)
    if (is_of(c, lease.owner)) return c.path;
  return std::nullopt;
}

Result<UpdateResult> QueueBackend::note_start(const Lease& lease, const RunStartUpdate& wanted) {
  if (!traits().starts) return fail(cannot("--once-per"));
  constexpr std::string_view what = "note the start";
  TRY(path, path_of(options_, lease.key));
  const std::string node = path + '/' + std::string{start_node};
  for (const Deadline until = op_deadline();;) {
    TRY(s, reader());
    TRY(mine, granted_node(*s, lease, until));
    if (!mine) return UpdateResult::not_held;
    TRY(now, leader_time(*s, path, until));
    TRY(note, read_note(*s, path, until));
    if (!wanted.fits(note.start, now)) return UpdateResult::other_start;
    if (note.start == wanted.is) return UpdateResult::yes;
    const std::string text = start_text(wanted.is);
    const Session::Call call =
        s->multi({{Op::Kind::check, *mine},
                  note.version ? Op{Op::Kind::set, node, text, *note.version}
                               : Op{.kind = Op::Kind::create, .path = node, .data = text}});
    TRY_VOID(done(*s, what, {&call}, until));
    const int rc = call.reply().rc;
    if (rc == ZOK) return UpdateResult::yes;
    if (unknown(rc)) return fail(no_answer(what, options_.where));
    // the note has changed, or the grant has ended
    const bool again = rc == ZBADVERSION || rc == ZNODEEXISTS || rc == ZNONODE;
    if (!again || Clock::now() >= until) return fail(server_error(options_, what, rc));
  }
}

}  // namespace dlock::zookeeper
