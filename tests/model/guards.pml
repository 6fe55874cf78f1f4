/* SPDX-License-Identifier: Apache-2.0 */
/* An outer run, whose job has a plain member and an inner run of another key, when processes are
 * killed and stopped. README.md says what stands for which function, and what is left out.
 *
 * Two processes of Promela. `environment` kills, stops, and lets time pass. `system` takes any step
 * that is possible, of the kernel or of a party; where none is, what must happen in the end is
 * looked at. No step can be undone except for a stop, and FAULTS limits the number of those: so
 * every schedule ends.
 *
 *   -DFAULTS=N   kills and stops of dlocks and guards in a schedule; default: 1
 *   -DSPARES     an older design: guards and dlocks spare the guards of runs below, and nobody but
 *                the inner run holds its lock; also with -DPATIENT, where Backstop never begins
 *   or one of the faults of README.md, such as -DEND_RELEASES
 */
#ifndef FAULTS
#define FAULTS 1
#endif

/* Who there is. The first four have descriptors that matter, and can be stopped. */
#define D1 0   /* the outer dlock */
#define G1 1   /* its guard; Backstop, a thread of it, is stopped and dies with it */
#define D2 2   /* the inner dlock, of the outer job */
#define G2 3   /* its guard */
#define M 4    /* the plain member of the outer job */
#define X 5    /* the program of the inner job */
#define Y 6    /* what X forks */
#define F 7    /* a child that D1 was born with: no member of its job */
#define INIT 8
#define NOBODY 9

#define RUNS 0   /* or is stopped */
#define DYING 1  /* was killed, or exits: it may still run for a while */
#define CLOSED 2 /* its descriptors are closed; its children are still its own */
#define DEAD 3   /* its children have another parent; its own reaps it, or has */
#define UNBORN 4

byte life[8];
byte parent[8];
bool stopped[4];
bool faulty[4]; /* killed by the environment; or, stopped past its deadline, by its own dlock */
byte faults = FAULTS;
bool shell;     /* M is the outer job's program and forked D2; or D2 is, born with the child M */
bool quiet;     /* the system has no step left, and what must be true then is */

/* Of the outer run [0] and of the inner one [1]. */
bool over[2];     /* the time to kill has come (--max-run, a second TERM) */
bool left[2];     /* the guard has seen ECHILD and closed its holds */
bool told[2];     /* tree_dead is in the channel to dlock */
bool own[2];      /* dlock sweeps, because its guard is gone */
bool released[2]; /* the store was told, or the descriptor unlocked for all who have it */

/* Who holds a descriptor of a lock, besides its own dlock: open, or in a queue of a socket of his.
 */
bool outer_hold; /* G1 */
bool inner_hold[4];

bool ordered, obeyed; /* the order Start, with the descriptors, was sent; was read */
#define idle 0
#define hands_over 1
#define ready 2
#define forked 3
byte inner_start;     /* G2: waits for Start, hands over, is about to fork, has a job */
byte at = NOBODY;     /* G2, handing over: who is next, G1 or D1 */
bool given[2];        /* D1, G1 have what G2 has handed over, read or unread */
bool passed_over;     /* D1, which was stopped and has too much unread */

#ifdef SPARES
bool put_off;  /* a pass of G1 was complete before Backstop began */
bool backstop; /* it kills whatever is a child of the guard */
#endif
#ifdef PULLED
bool asked[2]; /* D1, G1: to fetch the descriptors */
#endif
#ifdef REFUSES_GONE
bool looked[2]; /* D1, G1: at who has connected */
#endif

#define acts(p) (life[p] == RUNS && !stopped[p])
#define lives(p) (life[p] < DEAD)
#define open(p) (life[p] < CLOSED)
#define no_child(of, p) (parent[p] != of || !lives(p))
#define no_children(of) \
  (no_child(of, G1) && no_child(of, D2) && no_child(of, G2) && no_child(of, M) && \
   no_child(of, X) && no_child(of, Y))
/* But for those that it was born with. */
#define none_to_sweep(of) \
  (no_child(of, G1) && no_child(of, D2) && no_child(of, G2) && \
   (of == D2 || no_child(of, M)) && no_child(of, X) && no_child(of, Y))
#define program_is_dead (shell -> !lives(M) : !lives(D2))

/* A guard, its Backstop too, kills: its dlock is gone, or the time is over. */
#define kills(r) (!open(2 * r) || over[r])

/* ---- what must be true ---- */

#define inner_job_is_dead (!lives(X) && !lives(Y))
#define outer_job_is_dead (!lives(M) && !lives(D2) && !lives(G2) && inner_job_is_dead)

#define outer_free (released[0] || (!open(D1) && !outer_hold))
#ifdef IMPLICIT
#define inner_released false
#else
#define inner_released released[1]
#endif
#define inner_free \
  (inner_released || (!open(D2) && !(ordered && !obeyed && open(G2)) && !inner_hold[D1] && \
                      !inner_hold[G1] && !inner_hold[G2]))

/* NOT COVERED in dlock-backends(7): a dlock and its own guard are both killed. */
#define outer_excepted (faulty[D1] && faulty[G1])
/* dlock-jobs(7), NESTED RUNS: a stopped dlock that was passed over does not hold the inner lock. */
#define passed_excepted (passed_over && faulty[G1])
#ifdef SPARES
#define inner_excepted (outer_excepted || (faulty[G2] && life[D2] != RUNS))
#else
#define inner_excepted (outer_excepted || passed_excepted)
#endif

#define member_of_inner(p) (p == X || p == Y)
#define member_of_outer(p) (p == D2 || p == G2 || p == M || member_of_inner(p))
#define may_kill(by, p) \
  ((by == D1 && (p == G1 || member_of_outer(p))) || (by == G1 && member_of_outer(p)) || \
   (by == D2 && (p == G2 || member_of_inner(p))) || (by == G2 && member_of_inner(p)))

#define MUST(condition, words) \
  if \
  :: !(condition) -> printf(words); assert(false) \
  :: else \
  fi

/* In the end. */
inline check_end() {
  MUST(outer_excepted || !(over[0] || !lives(D1) || !lives(G1)) || outer_job_is_dead,
       "violated: the outer job lives, and nobody ends it\n");
  MUST(outer_excepted || !(over[1] || !lives(D2) || !lives(G2)) || inner_job_is_dead ||
         (faulty[D2] && faulty[G2]),
       "violated: the inner job lives, and nobody ends it\n");
  MUST(!outer_job_is_dead || outer_free, "violated: the outer lock stays held for no job\n");
  MUST(!outer_job_is_dead || inner_free, "violated: the inner lock stays held for no outer job\n");
  MUST(!inner_job_is_dead || inner_start != forked || inner_free || (faulty[D2] && faulty[G2]),
       "violated: the inner lock stays held for no job\n")
}

/* ---- the kernel ---- */

inline die(p) {
  life[p] = DYING;
  if
  :: p < M -> stopped[p] = 0
  :: else
  fi
}

inline kill(by, p) {
  MUST(may_kill(by, p), "violated: no member of the job, and killed\n");
  die(p)
}

/* The children go to the nearest subreaper above, a dlock or a guard, or to init; and they get the
 * signal that they asked for (PDEATHSIG). */
byte i, j;
inline bury(p) {
  life[p] = DEAD;
  i = parent[p];
  do
  :: i == INIT || (i < M && open(i)) -> break
  :: else -> i = parent[i]
  od;
  j = G1;
  do
  :: j > F -> break
  :: else ->
     if
     :: parent[j] == p ->
        parent[j] = i;
        if
        :: life[j] == RUNS && (j == X || j == (shell -> M : D2)) -> die(j)
        :: life[j] == RUNS && (j == G1 || j == G2) -> stopped[j] = 0
        :: else
        fi
     :: else
     fi;
     j++
  od;
  i = 0;
  j = 0
}

inline close_all(p) {
  life[p] = CLOSED;
  inner_hold[p] = 0;
  if
  :: p == G1 -> outer_hold = 0
  :: else
  fi
}

/* ---- the steps, with the words of a trail; <N> is a process ---- */

#define FAULTS_OF(p) \
  :: d_step { faults > 0 && life[p] == RUNS -> \
       faults--; faulty[p] = 1; die(p); quiet = 0; printf("<%d> is killed\n", p) } \
  :: d_step { faults > 0 && acts(p) -> \
       faults--; stopped[p] = 1; quiet = 0; printf("<%d> is stopped\n", p) }

#define EXIT_OF(p) \
  :: d_step { life[p] == RUNS -> die(p); quiet = 0; printf("<%d> exits\n", p) }

#define LIMIT_OF(r, d, g) \
  :: d_step { !over[r] && life[g] == RUNS && !left[r] && (r == 0 || inner_start == forked) -> \
       over[r] = 1; quiet = 0; printf("the time of the job of <%d> is over\n", d) }

#define DEATH_OF(p) \
  :: d_step { life[p] == RUNS && stopped[p] -> stopped[p] = 0; printf("<%d> goes on\n", p) } \
  :: d_step { life[p] == DYING -> close_all(p); printf("<%d> closes its descriptors\n", p) } \
  :: d_step { life[p] == CLOSED -> \
       bury(p); printf("<%d> is dead, and its children have another parent\n", p) }

#define END_OF(p) \
  :: d_step { life[p] == DYING -> bury(p); printf("<%d> is dead\n", p) }

#define KILL(condition, by, p) \
  :: d_step { (condition) && parent[p] == by && life[p] == RUNS -> \
       kill(by, p); printf("<%d> kills <%d>\n", by, p) }

#define KILLS_OF_INNER(condition, by) \
  KILL(condition, by, X) \
  KILL(condition, by, Y) \
  :: d_step { (condition) && (life[X] == RUNS || life[Y] == RUNS) -> \
       kill_all(by, X); printf("<%d> kills the cgroup of the inner job\n", by) }

#define KILLS_OF_OUTER(condition, by) \
  KILL(condition, by, M) \
  KILL(condition, by, D2) \
  KILL(condition, by, X) \
  KILL(condition, by, Y)

#define some_member_runs \
  (life[D2] == RUNS || life[G2] == RUNS || life[M] == RUNS || life[X] == RUNS || life[Y] == RUNS)
#define KILL_OF_CGROUP(condition, by) \
  :: d_step { (condition) && some_member_runs -> \
       kill_all(by, D2); printf("<%d> kills the cgroup of the outer job\n", by) }

/* At once: the members from that number on. */
inline kill_all(by, first) {
  j = first;
  do
  :: j > Y -> break
  :: else ->
     if
     :: life[j] == RUNS -> kill(by, j)
     :: else
     fi;
     j++
  od;
  j = 0
}

#define ENDS_OF_RUN(r, d, g) \
  :: d_step { acts(g) && left[r] && !told[r] -> \
       told[r] = 1; die(g); printf("<%d> reports its tree dead, and exits\n", g) } \
  :: d_step { acts(d) && told[r] && !released[r] -> \
       release(r); printf("<%d>, told so, releases its lock\n", d) } \
  :: d_step { acts(d) && !open(g) && !told[r] && !own[r] -> \
       own[r] = 1; guard_gone(r); printf("<%d> sees its guard gone\n", d) } \
  :: d_step { acts(d) && own[r] && !released[r] && none_to_sweep(d) -> \
       release(r); printf("<%d> has swept, and releases its lock\n", d) } \
  :: d_step { acts(d) && over[r] && life[g] == RUNS && stopped[g] -> \
       faulty[g] = 1; kill(d, g); printf("<%d> kills its guard, which is late\n", d) } \
  :: d_step { acts(d) && released[r] && !open(g) -> die(d); printf("<%d> exits\n", d) }

inline release(r) {
  released[r] = 1;
  if
  :: r == 0 -> inner_hold[D1] = 0
  :: else
  fi
}

inline guard_gone(r) {
#ifdef GONE_RELEASES
  if
  :: r == 0 -> inner_hold[D1] = 0
  :: else
  fi
#else
  skip
#endif
}

/* ---- the hand-over: to G1, then to D1, as far as they live ---- */

#define to_be_given (at <= G1 && !given[at] && open(at))

inline give(to) {
  given[to] = 1;
#if defined(PULLED)
  asked[to] = 1
#elif defined(NOT_TO_DLOCK)
  inner_hold[to] = (to == G1)
#elif defined(NOT_TO_GUARD)
  inner_hold[to] = (to == D1)
#else
  inner_hold[to] = 1
#endif
}

#ifdef EARLY_DEAD
#define inner_tree_is_dead (!lives(X))
#else
#define inner_tree_is_dead no_children(G2)
#endif

proctype environment() {
end:
  do
  FAULTS_OF(D1)
  FAULTS_OF(G1)
  FAULTS_OF(D2)
  FAULTS_OF(G2)
  EXIT_OF(M)
  EXIT_OF(X)
  EXIT_OF(Y)
  LIMIT_OF(0, D1, G1)
  LIMIT_OF(1, D2, G2)
  od
}

proctype system() {
end:
  do
  DEATH_OF(D1)
  DEATH_OF(G1)
  DEATH_OF(D2)
  DEATH_OF(G2)
  END_OF(M)
  END_OF(X)
  END_OF(Y)
  ENDS_OF_RUN(0, D1, G1)
  ENDS_OF_RUN(1, D2, G2)

  /* the kills */
  KILLS_OF_INNER(acts(G2) && kills(1), G2)
  KILLS_OF_INNER(acts(D2) && own[1], D2)
  KILLS_OF_OUTER(acts(G1) && kills(0), G1)
  KILLS_OF_OUTER(acts(D1) && own[0], D1)
#ifndef SPARES
  KILL(acts(G1) && kills(0), G1, G2)
  KILL(acts(D1) && own[0], D1, G2)
  KILL_OF_CGROUP(acts(G1) && kills(0), G1)
  KILL_OF_CGROUP(acts(D1) && own[0], D1)
#else
  KILL(acts(G1) && backstop, G1, G2)
  :: d_step { acts(G1) && kills(0) && !put_off && !backstop && parent[G2] == G1 && lives(G2) &&
       (parent[M] != G1 || life[M] != RUNS) && (parent[D2] != G1 || life[D2] != RUNS) &&
       (parent[X] != G1 || life[X] != RUNS) && (parent[Y] != G1 || life[Y] != RUNS) ->
       put_off = 1; printf("<1> has looked at each child, <3> among them: Backstop is put off\n") }
#ifndef PATIENT
  :: d_step { acts(G1) && kills(0) && !put_off && !backstop ->
       backstop = 1; printf("Backstop of <1> begins\n") }
#endif
#endif
#ifdef KILLS_ALL
  KILL(acts(D1) && own[0], D1, F)
#endif

  /* ECHILD */
  :: d_step { acts(G1) && !left[0] && no_children(G1) ->
       left[0] = 1; outer_hold = 0; inner_hold[G1] = 0; printf("<1> sees its tree dead\n") }
  :: d_step { acts(G2) && !left[1] && inner_tree_is_dead &&
       (inner_start == forked || (ordered == obeyed && inner_start == idle && !open(D2))) ->
       left[1] = 1; inner_hold[G2] = 0;
#ifndef NEVER_READS
       inner_hold[D1] = 0; inner_hold[G1] = 0;
#endif
       printf("<3> sees its tree dead, and reads what it has handed over\n") }

  /* the start of the inner job */
  :: d_step { acts(D2) && !ordered && open(G2) ->
       ordered = 1; printf("<2> orders the start\n") }
  :: d_step { acts(G2) && ordered && !obeyed ->
       obeyed = 1; inner_hold[G2] = 1;
#if defined(SPARES) || defined(LATE)
       inner_start = ready;
#else
       inner_start = hands_over; at = G1;
#endif
       printf("<3> has the order\n") }
  :: d_step { acts(G2) && inner_start == hands_over && to_be_given ->
       give(at); printf("<3> hands over to <%d>\n", at) }
  :: d_step { acts(G2) && inner_start == hands_over && to_be_given && (at == G1 || !given[G1]) ->
#ifdef GOES_WITHOUT
       given[at] = 1; printf("no room at <%d>: <3> goes on\n", at)
#else
       inner_start = forked; printf("no room at <%d>: <3> refuses the start\n", at); at = NOBODY
#endif
     }
  :: d_step { acts(G2) && inner_start == hands_over && to_be_given && at == D1 && given[G1] &&
       stopped[D1] ->
       given[D1] = 1; passed_over = 1; printf("<3> passes over <0>, which is stopped\n") }
  :: d_step { acts(G2) && inner_start == hands_over && !to_be_given && at == G1 -> at = D1 }
  :: d_step { acts(G2) && inner_start == hands_over && !to_be_given && at == D1 ->
       at = NOBODY;
#ifdef LATE
       inner_start = forked;
#else
       inner_start = ready;
#endif
       printf("<3> has handed over\n") }
  :: d_step { acts(G2) && inner_start == ready ->
       life[X] = RUNS; parent[X] = G2;
#ifdef LATE
       inner_start = hands_over; at = G1;
#else
       inner_start = forked;
#endif
       printf("<3> forks <5>\n") }
  :: d_step { life[X] == RUNS && life[Y] == UNBORN ->
       life[Y] = RUNS; parent[Y] = X; printf("<5> forks <6>\n") }

  /* the ends of the duplicates */
#ifdef END_RELEASES
  :: d_step { acts(G1) && inner_hold[G1] && !open(G2) ->
       inner_hold[G1] = 0; printf("<1> sees the end of the connection, and closes\n") }
  :: d_step { acts(D1) && inner_hold[D1] && !open(G2) ->
       inner_hold[D1] = 0; printf("<0> sees the end of the connection, and closes\n") }
#endif
#ifdef PROGRAM_RELEASES
  :: d_step { acts(G1) && inner_hold[G1] && program_is_dead ->
       inner_hold[G1] = 0; printf("<1> sees its program dead, and closes\n") }
#endif
#ifdef PULLED
  :: d_step { acts(G1) && asked[G1] && open(G2) && inner_hold[G2] ->
       inner_hold[G1] = 1; asked[G1] = 0; printf("<1> fetches the descriptors\n") }
  :: d_step { acts(D1) && asked[D1] && open(G2) && inner_hold[G2] ->
       inner_hold[D1] = 1; asked[D1] = 0; printf("<0> fetches the descriptors\n") }
#endif
#ifdef REFUSES_GONE
  :: d_step { acts(G1) && given[G1] && !looked[G1] ->
       looked[G1] = 1; inner_hold[G1] = (inner_hold[G1] && lives(G2));
       printf("<1> looks at who has connected\n") }
  :: d_step { acts(D1) && given[D1] && !looked[D1] ->
       looked[D1] = 1; inner_hold[D1] = (inner_hold[D1] && lives(G2));
       printf("<0> looks at who has connected\n") }
#endif

  /* the invariants */
  :: d_step { outer_free && !outer_excepted && !outer_job_is_dead ->
       printf("violated: the outer lock is free, and a member lives\n"); assert(false) }
  :: d_step { inner_free && !inner_excepted && !inner_job_is_dead ->
       printf("violated: the inner lock is free, and a member lives\n"); assert(false) }
  :: atomic { else -> d_step { check_end(); quiet = 1 } };
end_quiet:
     !quiet
  od
}

init {
  d_step {
    parent[D1] = INIT; parent[G1] = D1; parent[G2] = D2; parent[F] = D1;
    parent[X] = INIT; parent[Y] = INIT; life[X] = UNBORN; life[Y] = UNBORN;
#ifndef DLOCK_ALONE
    outer_hold = 1
#endif
  }
  if
  :: d_step { shell = 1; parent[M] = G1; parent[D2] = M }
  :: d_step { shell = 0; parent[D2] = G1; parent[M] = D2 }
  fi;
  atomic { run system(); run environment() }
}
