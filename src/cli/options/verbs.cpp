// SPDX-License-Identifier: Apache-2.0
#include "cli/options/verbs.hpp"

namespace dlock::cli {
namespace {

constexpr VerbInfo table[] = {
    {Verb::run, "run", "[OPTION...] --key K -- COMMAND [ARG...]",
     "take the lock, run COMMAND, release",
     "Takes the lock K, runs COMMAND while it is held, and releases it when COMMAND and all of its "
     "descendants are gone. "
     "What follows the first -- reaches COMMAND byte for byte; there is no shell unless -c asks "
     "for one.",
     "0 3 * * *  dlock run -n -E 0 --once-per day --key nightly -- /opt/nightly"},
    {Verb::acquire, "acquire", "[OPTION...] K | --key K [--key K]...",
     "take the lock for --ttl and print its handle",
     "Takes the lock K as a lease of --ttl that no process keeps alive, and prints the handle with "
     "which it can be renewed and "
     "released. With --keep, a process in the background keeps the lock until release or until the "
     "caller is gone. With --hold, "
     "dlock "
     "stays and holds the lock until its standard input ends or a signal comes.",
     "grant=$(dlock acquire --keep -w 1m --output env deploy) || exit; eval \"$grant\""},
    {Verb::renew, "renew", "[OPTION...] K [--handle H]", "extend a lease that acquire took",
     "Lets the lease of K last --ttl from now. A lease that has ended is not revived.",
     "dlock renew deploy --handle \"$h\""},
    {Verb::release, "release",
     "[OPTION...] K [--handle H | --revoke | --force --token N | --force --yes]",
     "release the lock",
     "Releases the lock K that the handle holds. --force removes another holder: the one with "
     "--token N, or all with "
     "--yes. "
     "It does not stop their work; --revoke asks them to.",
     "dlock release deploy --handle \"$h\""},
    {Verb::check, "check", "[OPTION...] SEQUENCER | K --token N | K --handle H | --key K",
     "is this grant still in force?",
     "Exit status 0 if the grant is in force now, 1 if it is not. Prints nothing.",
     "dlock check \"$DLOCK_SEQUENCER\" && mv out.tmp out"},
    {Verb::fence, "fence", "[OPTION...] --state FILE --token N -- COMMAND [ARG...]",
     "run COMMAND unless a newer token was seen",
     "Runs COMMAND only if N is not older than the newest token that FILE has seen, and notes N "
     "before. Calls for the same FILE "
     "run one after "
     "the other. So a holder that was frozen, and has lost its lock since, changes nothing any "
     "more.",
     "dlock fence --state /var/lib/site.fence --token \"$DLOCK_TOKEN\" -- deploy"},
    {Verb::inspect, "inspect", "[OPTION...] [K | PATTERN]", "show holders and waiters",
     "Shows one key, the keys that match a PATTERN of the shell ('svc-*'), or every key of the "
     "backend. ASKED and AGE tell when the holder asked for the "
     "lock, by the clock of its "
     "host; SINCE when it got it, where the store keeps that; "
     "LEASE is the time left until the lock ends without a renewal.",
     "dlock inspect nightly"},
    {Verb::bench, "bench", "[OPTION...]", "measure and compare backends and recipes",
     "Measures how fast locks are taken and handed on, with many clients, on every backend named "
     "by -b and every recipe named by "
     "--recipe, and "
     "watches that no two of them ever hold the same lock: then it says FAIL and exits with 1. It "
     "removes what it wrote.",
     "dlock bench -b file: -b redis://lock1 --scenario handoff"},
    {Verb::config, "config", "[OPTION...]", "show every value and where it comes from",
     "Prints every option that a variable or a configuration file can set, with its value and "
     "where "
     "that comes from; in comments those that are not set, with their defaults. Asks no backend.",
     "dlock config --profile batch"},
};

}  // namespace

std::span<const VerbInfo> verbs() noexcept { return table; }
const VerbInfo& info(Verb v) noexcept { return table[static_cast<unsigned>(v)]; }

std::optional<Verb> find_verb(std::string_view name) noexcept {
  for (const VerbInfo& v : table)
    if (v.name == name) return v.verb;
  return std::nullopt;
}

}  // namespace dlock::cli
