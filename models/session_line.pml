/* session_line.pml - the line in a store with sessions (ZooKeeper, etcd): src/engine/session, zookeeper, etcd.
 *
 * Exclusive claims. A client has a session (ZooKeeper) or a lease (etcd), which the store ends at the earliest TTL ticks after
 * it last extended it, and with it the client's nodes. A claim is a node at the end of the line; who is first holds. The others
 * watch the one before them. A client has one request under way at most. Its connection may break: then the request is lost, or
 * its answer, or it arrives when its sender has given it up, and watches and events are lost.
 *
 * Time passes in ticks, for all alike. What a client believes counts from when it sent what extended its session.
 *
 * How much happens:
 *   CLIENTS (2)  ROUNDS each (1)  TTL (2)  DELAY: lock-delay (0)
 *   CRASHES of clients (0)  LOSSES of connections (0)  EXPIRIES of sessions whose client lives (0)  BROKEN by an outsider (0)
 *   LATE  requests that were given up may arrive (1); ZooKeeper lets none of an older connection of the session
 *
 * Rules, each 1; switched off they give a counter-example:
 *   FROM_SENT    a session counts from when the request was sent; 0: from its answer
 *   TERM_STANDS  a claim that is first holds as long as its session; 0: TTL from when it learns of it
 *   HEAD_ONLY    the end of the one before it is a grant without a look only if that was the first when it was looked at
 *   OWN_SEEN     who was given a new session stands in line anew; 0: looks whether the one it waited for is there
 *   FOUND        a request to stand in line that is repeated finds its node; 0: makes another
 *   FRESH_UID    each round has a node of its own; 2: the node of the last one again, if no request was ever given up (etcd);
 *                0: always the same
 *   WATCH_SAYS   a watch on a node that is gone says so
 *   BY_NUMBER    ... also if another of its name has come, which stands behind us
 *   LOOK_BACK    a look after the connection was lost
 *   SWEPT        nodes of ours that no claim of ours knows are deleted with the next keep-alive
 *   with a DELAY:
 *   MARK_FIRST   the marker stands before the grant is told
 *   ORPHANS      a marker without its node blocks
 *   NEVER_DELAY  the end of one with a lock-delay is never a grant without a look; 0: of one whose marker was seen
 *   BOTH_TERMS   who holds believes in both its sessions
 *   MARK_BARS    a request to stand in line does nothing if the claim's marker is there and its node is not: it came too late
 *   BREAK_MARKS  who breaks a lock leaves a marker
 *
 * Checked:
 *   MUTEX  one client is valid at a time; those that were broken aside
 *   FIFO   who becomes valid is the first in line, or its node was broken or its session is over
 *   QUIET  nobody becomes valid within DELAY ticks after another's validity ran out, or after it was broken
 *   TOLD   at a tick, a waiter with nothing under way watches what is before it; and the first in line will go on
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef TTL
#define TTL 2
#endif
#ifndef DELAY
#define DELAY 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef EXPIRIES
#define EXPIRIES 0
#endif
#ifndef BROKEN
#define BROKEN 0
#endif

#ifndef LATE
#define LATE 1
#endif

#ifndef FROM_SENT
#define FROM_SENT 1
#endif
#ifndef TERM_STANDS
#define TERM_STANDS 1
#endif
#ifndef HEAD_ONLY
#define HEAD_ONLY 1
#endif
#ifndef OWN_SEEN
#define OWN_SEEN 1
#endif
#ifndef FOUND
#define FOUND 1
#endif
#ifndef FRESH_UID
#define FRESH_UID 1
#endif
#ifndef WATCH_SAYS
#define WATCH_SAYS 1
#endif
#ifndef BY_NUMBER
#define BY_NUMBER 1
#endif
#ifndef LOOK_BACK
#define LOOK_BACK 1
#endif
#ifndef SWEPT
#define SWEPT 1
#endif
#ifndef MARK_FIRST
#define MARK_FIRST 1
#endif
#ifndef ORPHANS
#define ORPHANS 1
#endif
#ifndef NEVER_DELAY
#define NEVER_DELAY 1
#endif
#ifndef BOTH_TERMS
#define BOTH_TERMS 1
#endif
#ifndef MARK_BARS
#define MARK_BARS 1
#endif
#ifndef BREAK_MARKS
#define BREAK_MARKS 1
#endif

/* Nodes that a client may ever have. Each entry into the line has its own. */
#define ENTRIES (ROUNDS + EXPIRIES + BROKEN + (1 - FOUND) * LOSSES)
#define NODES (CLIENTS * ENTRIES)
#define NODE(c) ((c) * ENTRIES + entry[c])
#define OWNER(node) ((node) / ENTRIES)

/* ---- the store ---- */
chan line = [NODES] of { byte };
bit alive[CLIENTS];   /* the session */
byte lease[CLIENTS];  /* ticks until it may be ended */
byte session[CLIENTS]; /* which it is */
#if DELAY
byte marker[CLIENTS + BROKEN];  /* node + 1; those behind the clients' were left by who broke it */
byte marked[CLIENTS + BROKEN];  /* ticks until it may go */
#endif
byte watched[CLIENTS];  /* node + 1, NODES + marker + 1 */

/* ---- connections ---- */
#define NOTHING 0
#define ENTER 1 /* make the node and look */
#define LOOK 2
#define WATCH 3
#define KEEP 4
#define LEAVE 5 /* delete the node, and the marker */
#define LOSE 6  /* delete the node only */
#define MARK 7
#define KEEP_MARK 8
byte request[CLIENTS];
byte age[CLIENTS]; /* of the request */
byte request_node[CLIENTS];
byte behind[CLIENTS]; /* given up, and may still arrive */
byte behind_node[CLIENTS];
byte behind_session[CLIENTS];
#define FIRST 1
#define LATER 2 /* before it is what seen says */
#define DONE 3
#define GONE 4
#define OVER 5 /* there is no such session */
byte reply[CLIENTS];
byte seen[CLIENTS];
bit head[CLIENTS];
bit event[CLIENTS]; /* what was watched is gone */

/* ---- clients ---- */
byte entry[CLIENTS];
byte term[CLIENTS];      /* ticks that it believes its session to stand */
#if DELAY
byte mark_term[CLIENTS]; /* and its marker, without the delay */
#endif
byte valid[CLIENTS]; /* ticks that it believes to hold */
bit idle[CLIENTS];   /* waits, with nothing under way */
bit wants[CLIENTS];  /* its node is that of a claim */
bit dead[CLIENTS];
bit through[CLIENTS];
bit broken[CLIENTS]; /* and not told yet */
byte quiet;          /* ticks in which nobody may become valid */

byte crashes = CRASHES, losses = LOSSES, expiries = EXPIRIES, to_break = BROKEN;

#if CLIENTS > 2
#define ANY(what) (what(0) || what(1) || what(2))
#else
#define ANY(what) (what(0) || what(1))
#endif

/* ---- what the store does ---- */
inline tell_watchers(what) {
        w = 0;
        do
        :: w < CLIENTS ->
                if
                :: watched[w] == what -> watched[w] = 0; event[w] = 1
                :: else
                fi;
                w++
        :: else -> break
        od;
        w = 0
}

inline delete_node(node) {
        if
        :: line??[eval(node)] ->
                line??eval(node);
                tell_watchers((node) + 1)
        :: else
        fi
}

#if DELAY
inline delete_marker(m) {
        if
        :: marker[m] != 0 ->
                marker[m] = 0;
                marked[m] = 0;
                tell_watchers(NODES + (m) + 1)
        :: else
        fi
}
#endif

inline end_session(c) {
        alive[c] = 0;
        lease[c] = 0;
        watched[c] = 0;
        x = c * ENTRIES;
        do
        :: x < (c + 1) * ENTRIES -> delete_node(x); x++
        :: else -> break
        od;
        x = 0
}

/* Who is before the node, and may its end be taken for a grant? */
inline look(c, node) {
        found = 0;
        before = 0;
        places = 0;
        x = 0;
        do
        :: x < len(line) ->
                line?other;
                line!other;
                if
                :: other == node -> found = 1
                :: other != node && !found -> before = other + 1; places++
                :: else
                fi;
                x++
        :: else -> break
        od;
        if
        :: !found && OWN_SEEN -> reply[c] = GONE
        :: !found && !OWN_SEEN -> /* goes by what it knows */
                if
                :: seen[c] > 0 && seen[c] <= NODES && line??[eval(seen[c] - 1)] -> reply[c] = LATER
                :: else -> reply[c] = FIRST
                fi
        :: found && before == 0 -> reply[c] = FIRST
        :: found && before != 0 ->
                reply[c] = LATER;
                seen[c] = before;
                head[c] = (places == 1)
        fi;
#if DELAY
        head[c] = head[c] && !NEVER_DELAY;
        x = 0;
        do
        :: x < CLIENTS + BROKEN ->
                if
                :: marker[x] != 0 && line??[eval(marker[x] - 1)] ->
                        head[c] = head[c] && marker[x] != seen[c]
                :: marker[x] != 0 && !(line??[eval(marker[x] - 1)]) && ORPHANS && reply[c] != GONE ->
                        reply[c] = LATER;
                        seen[c] = NODES + x + 1;
                        head[c] = 0
                :: else
                fi;
                x++
        :: else -> break
        od;
#endif
        printf("MSC: client %d looks, node %d: %d (1 first, 2 behind %d, 4 gone)\n", c, node, reply[c], seen[c] - 1);
        found = 0;
        before = 0;
        places = 0;
        other = 0;
        x = 0
}

/* Is one node in the line, before another? */
inline is_before(one, node) {
        found = 0;
        x = 0;
        do
        :: x < len(line) ->
                line?other;
                line!other;
                if
                :: other == one && (before == 0 || !BY_NUMBER) -> found = 1
                :: other == node -> before = 1
                :: else
                fi;
                x++
        :: else -> break
        od;
        before = 0;
        other = 0;
        x = 0
}

inline serve(c, what, node) {
        if
        :: what == ENTER ->
                lease[c] = TTL;
                if
                :: line??[eval(node)]
#if DELAY && MARK_BARS
                :: !(line??[eval(node)]) && marker[c] == node + 1
#endif
                :: else ->
                        line!node;
                        printf("MSC: node %d stands in line\n", node)
                fi;
                look(c, node)
        :: what == LOOK -> look(c, node)
        :: what == WATCH ->
                is_before(seen[c] - 1, node);
                if
                :: seen[c] <= NODES && (found || !WATCH_SAYS) ->
                        watched[c] = seen[c];
                        reply[c] = DONE
#if DELAY
                :: seen[c] > NODES && marker[seen[c] - NODES - 1] != 0 ->
                        watched[c] = seen[c];
                        reply[c] = DONE
#endif
                :: else -> reply[c] = GONE
                fi;
                found = 0;
                printf("MSC: client %d watches %d: %d (3 done, 4 gone)\n", c, seen[c] - 1, reply[c])
        :: what == KEEP ->
                lease[c] = TTL;
#if SWEPT
                x = c * ENTRIES;
                do
                :: x < (c + 1) * ENTRIES ->
                        if
                        :: x != NODE(c) || !wants[c] -> delete_node(x)
                        :: else
                        fi;
                        x++
                :: else -> break
                od;
                x = 0;
#endif
                reply[c] = DONE;
                printf("MSC: the session of client %d is extended\n", c)
        :: what == LEAVE || what == LOSE ->
                printf("MSC: node %d leaves\n", node);
                delete_node(node);
#if DELAY
                if
                :: what == LEAVE -> delete_marker(c)
                :: else
                fi;
#endif
                reply[c] = DONE
#if DELAY
        :: what == MARK ->
                marker[c] = node + 1;
                marked[c] = TTL + DELAY;
                reply[c] = DONE;
                printf("MSC: client %d leaves its marker\n", c)
        :: what == KEEP_MARK ->
                if
                :: marker[c] != 0 -> marked[c] = TTL + DELAY; reply[c] = DONE
                :: else -> reply[c] = GONE
                fi;
                printf("MSC: the marker of client %d is extended: %d (3 done, 4 gone)\n", c, reply[c])
#endif
        fi
}

#define SERVED(c)                                                                                                       \
        :: d_step {                                                                                                    \
                request[c] != NOTHING && reply[c] == NOTHING ->                                                        \
                if                                                                                                     \
                :: alive[c] -> serve(c, request[c], request_node[c])                                                   \
                :: else -> reply[c] = OVER                                                                             \
                fi                                                                                                     \
           }                                                                                                           \
        :: d_step {                                                                                                    \
                behind[c] != NOTHING && reply[c] == NOTHING ->                                                         \
                printf("MSC: a request of client %d that was given up arrives\n", c);                                   \
                kept = seen[c];                                                                                        \
                kept_head = head[c];                                                                                   \
                if                                                                                                     \
                :: alive[c] && behind_session[c] == session[c] -> serve(c, behind[c], behind_node[c])                  \
                :: else                                                                                                \
                fi;                                                                                                    \
                reply[c] = NOTHING;                                                                                    \
                seen[c] = kept;                                                                                        \
                head[c] = kept_head;                                                                                   \
                behind[c] = NOTHING;                                                                                   \
                behind_node[c] = 0;                                                                                    \
                behind_session[c] = 0;                                                                                 \
                kept = 0;                                                                                              \
                kept_head = 0                                                                                          \
           }                                                                                                           \
        :: d_step {                                                                                                    \
                alive[c] && lease[c] == 0 ->                                                                           \
                printf("MSC: the session of client %d is ended\n", c);                                                  \
                end_session(c)                                                                                         \
           }

active proctype Store() {
        byte w, x, other, before, places, kept;
        bit found, kept_head;
end:
        do
        SERVED(0)
        SERVED(1)
#if CLIENTS > 2
        SERVED(2)
#endif
#if DELAY
        :: d_step { marker[0] != 0 && marked[0] == 0 -> printf("MSC: marker 0 is gone\n"); delete_marker(0) }
        :: d_step { marker[1] != 0 && marked[1] == 0 -> printf("MSC: marker 1 is gone\n"); delete_marker(1) }
#if CLIENTS + BROKEN > 2
        :: d_step { marker[2] != 0 && marked[2] == 0 -> printf("MSC: marker 2 is gone\n"); delete_marker(2) }
#endif
#endif
#if BROKEN
        :: d_step {
                to_break > 0 && len(line) > 0 ->
                to_break--;
                line?<other>;
                broken[OWNER(other)] = 1;
                quiet = DELAY;
#if DELAY && BREAK_MARKS
                marker[CLIENTS] = other + 1;
                marked[CLIENTS] = DELAY;
#endif
                printf("MSC: node %d is broken\n", other);
                delete_node(other);
                other = 0
           }
#endif
        od
}

/* ---- time ---- */
/* A session whose client lives is let run out only so often. */
#define SPARED(c) (alive[c] && lease[c] == 1 && !dead[c] && !through[c])
#if CLIENTS > 2
#define SPARED_ONES (SPARED(0) + SPARED(1) + SPARED(2))
#else
#define SPARED_ONES (SPARED(0) + SPARED(1))
#endif

#define WAITS_WELL(c)                                                                                                   \
        (!idle[c] || dead[c] || broken[c] || !alive[c] || event[c] || watched[c] > NODES ||                            \
         (watched[c] != 0 && line??[eval(watched[c] - 1)]))

inline check_tick() {
        assert(WAITS_WELL(0) && WAITS_WELL(1)); /* TOLD */
#if CLIENTS > 2
        assert(WAITS_WELL(2)); /* TOLD */
#endif
        if
        :: len(line) > 0 ->
                line?<first>;
                c = OWNER(first);
                /* The first is somebody's who will go on, or will go with its session, or is swept up. */
                assert(dead[c] || through[c] || (SWEPT && (first != NODE(c) || !wants[c])) ||
                       (first == NODE(c) && wants[c] && (!idle[c] || event[c] || watched[c] > NODES))) /* TOLD */
        :: else
        fi;
        first = 0;
        c = 0
}

inline less(ticks) {
        if
        :: ticks > 0 -> ticks--
        :: else
        fi
}

active proctype Clock() {
        byte c, first;
end:
        do
        :: d_step {
                SPARED_ONES <= expiries ->
                check_tick();
                less(quiet);
                do
                :: c < CLIENTS ->
                        if
                        :: SPARED(c) -> expiries--
                        :: else
                        fi;
                        if
                        :: valid[c] == 1 && !broken[c] ->
                                printf("MSC: the validity of client %d runs out\n", c);
                                quiet = DELAY
                        :: else
                        fi;
                        less(valid[c]);
                        less(term[c]);
                        less(lease[c]);
#if DELAY
                        less(mark_term[c]);
                        less(marked[c]);
#endif
                        if
                        :: request[c] != NOTHING && age[c] < TTL -> age[c]++
                        :: else
                        fi;
                        c++
                :: else -> break
                od;
#if DELAY && BROKEN
                less(marked[CLIENTS]);
#endif
                printf("MSC: --- tick\n");
                c = 0
           }
        od
}

/* ---- a client ---- */
inline send(what) {
        request[c] = what;
        request_node[c] = NODE(c);
        age[c] = 0
}

inline take_reply() {
        request[c] = NOTHING;
        request_node[c] = 0;
        reply[c] = NOTHING;
        age[c] = 0
}

#if FROM_SENT
#define SINCE age[c]
#else
#define SINCE 0
#endif
inline extended() {
        term[c] = TTL - SINCE
}

/* The request is lost, or its answer, or it arrives although its sender has given it up; events and watches are lost. */
inline lose() {
        losses--;
        doubt = 1;
        if
        :: LATE && request[c] != NOTHING && reply[c] == NOTHING && behind[c] == NOTHING ->
                behind[c] = request[c];
                behind_node[c] = request_node[c];
                behind_session[c] = session[c]
        :: true
        fi;
        take_reply();
        watched[c] = 0;
        event[c] = 0;
        printf("MSC: the connection of client %d is lost\n", c)
}

/* The session is over, or the node was broken: there is nothing in line. */
inline out_of_line() {
        take_reply();
        event[c] = 0;
        broken[c] = 0;
        term[c] = 0;
#if DELAY
        mark_term[c] = 0;
#endif
#if OWN_SEEN
        entry[c]++
#endif
}

/* How long it may believe, now that it is first. */
inline believe() {
#if TERM_STANDS
        valid[c] = term[c];
#else
        valid[c] = TTL;
#endif
#if DELAY && BOTH_TERMS
        if
        :: mark_term[c] < valid[c] && MARK_FIRST -> valid[c] = mark_term[c]
        :: else
        fi;
#endif
        skip
}

#define CRASH                                                                                                           \
        :: atomic {                                                                                                    \
                crashes > 0 ->                                                                                         \
                crashes--;                                                                                             \
                printf("MSC: client %d dies\n", c);                                                                     \
                goto died                                                                                              \
           }
#define LOST_TO(label) :: atomic { losses > 0 -> lose(); goto label }
#define OVER_TO(label) :: atomic { reply[c] == OVER -> has = 0; out_of_line(); goto label }
#define ANOTHER(o) ((o) != c && valid[o] > 0 && !broken[o])

proctype Client(byte c) {
        byte round, first;
        bit has, stood, doubt;
        do
        :: round < ROUNDS ->
entering:
                atomic {
                        wants[c] = 1;
                        if
                        :: !has ->
                                has = 1;
                                alive[c] = 1;
                                lease[c] = TTL;
                                session[c]++;
                                term[c] = TTL;
                                printf("MSC: client %d has a session\n", c)
                        :: else
                        fi;
#if !OWN_SEEN
                        if
                        :: stood -> goto looking
                        :: else
                        fi;
#endif
                        send(ENTER)
                };
                do
                :: atomic { reply[c] == FIRST -> extended(); take_reply(); stood = 1; goto first_in_line }
                :: atomic { reply[c] == LATER -> extended(); take_reply(); stood = 1; goto watching }
                OVER_TO(entering)
                :: atomic {
                        losses > 0 ->
                        lose();
#if !FOUND
                        entry[c]++;
#endif
                        goto entering
                   }
                CRASH
                od;
looking:
                atomic { event[c] = 0; watched[c] = 0; send(LOOK) };
                do
                :: atomic { reply[c] == FIRST -> take_reply(); goto first_in_line }
                :: atomic { reply[c] == LATER -> take_reply(); goto watching }
                :: atomic { reply[c] == GONE -> out_of_line(); goto entering }
                OVER_TO(entering)
                LOST_TO(looking)
                CRASH
                od;
watching:
                atomic { event[c] = 0; send(WATCH) };
                do
                :: atomic { reply[c] == DONE -> take_reply(); break }
                :: atomic { reply[c] == GONE -> take_reply(); goto looking }
                OVER_TO(entering)
                LOST_TO(looking)
                CRASH
                od;
waiting:
                idle[c] = 1;
                do
                :: atomic {
                        event[c] ->
                        event[c] = 0;
                        idle[c] = 0;
                        if
                        :: head[c] || !HEAD_ONLY ->
                                printf("MSC: client %d is told that %d is gone: it is first\n", c, seen[c] - 1);
                                goto first_in_line
                        :: else -> goto looking
                        fi
                   }
                :: atomic { term[c] < TTL -> idle[c] = 0; send(KEEP); break }
                :: atomic { broken[c] -> idle[c] = 0; out_of_line(); goto entering }
                :: atomic {
                        losses > 0 ->
                        lose();
#if LOOK_BACK
                        idle[c] = 0;
                        goto looking
#endif
                   }
                CRASH
                od;
                do
                :: atomic { reply[c] == DONE -> extended(); take_reply(); goto waiting }
                OVER_TO(entering)
                LOST_TO(looking)
                CRASH
                od;
first_in_line:
#if DELAY && MARK_FIRST
                atomic { send(MARK) };
                do
                :: atomic { reply[c] == DONE -> mark_term[c] = TTL - SINCE; take_reply(); break }
                OVER_TO(entering)
                LOST_TO(first_in_line)
                CRASH
                od;
#endif
                atomic {
                        head[c] = 0;
                        seen[c] = 0;
                        believe();
                        if
                        :: valid[c] == 0 -> goto leaving
                        :: else ->
                                printf("MSC: client %d IS VALID for %d ticks\n", c, valid[c]);
                                assert(broken[c] || !ANY(ANOTHER)); /* MUTEX */
                                assert(broken[c] || quiet == 0); /* QUIET */
                                if
                                :: len(line) > 0 -> line?<first>; assert(broken[c] || first == NODE(c)); first = 0 /* FIFO */
                                :: else -> assert(broken[c])
                                fi
                        fi
                };
#if DELAY && !MARK_FIRST
                atomic { send(MARK) };
                do
                :: atomic { reply[c] == DONE -> mark_term[c] = TTL - SINCE; take_reply(); break }
                :: atomic { reply[c] == OVER -> take_reply(); break }
                CRASH
                od;
#endif
holding:
                do
                :: break
                :: atomic { broken[c] -> valid[c] = 0; printf("MSC: client %d hears that it was broken\n", c); break }
                :: atomic { valid[c] > 0 && term[c] < TTL -> send(KEEP); goto keeping }
#if DELAY
                :: atomic { valid[c] > 0 && mark_term[c] < TTL -> send(KEEP_MARK); goto keeping }
#endif
                :: atomic { losses > 0 -> lose() }
                CRASH
                od;
                goto leaving;
keeping:
                do
                :: atomic {
                        reply[c] == DONE ->
                        if
                        :: request[c] == KEEP -> extended()
#if DELAY
                        :: request[c] == KEEP_MARK -> mark_term[c] = TTL - SINCE
#endif
                        fi;
                        take_reply();
                        if
                        :: valid[c] > 0 -> believe()
                        :: else
                        fi;
                        goto holding
                   }
                :: atomic { reply[c] == OVER -> take_reply(); valid[c] = 0; goto leaving }
#if DELAY
                :: atomic { reply[c] == GONE -> take_reply(); mark_term[c] = 0; goto leaving }
#endif
                LOST_TO(holding)
                CRASH
                od;
leaving:
                atomic {
                        if
                        :: valid[c] > 0 || broken[c] || !DELAY -> send(LEAVE)
                        :: else -> send(LOSE)
                        fi;
                        valid[c] = 0
                };
                do
                :: atomic { reply[c] == DONE -> take_reply(); break }
                :: atomic { reply[c] == OVER -> take_reply(); has = 0; break }
                LOST_TO(leaving)
                CRASH
                od;
                atomic {
                        wants[c] = 0;
                        broken[c] = 0;
                        event[c] = 0;
                        stood = 0;
                        round++;
#if FRESH_UID
                        if
                        :: round < ROUNDS && (FRESH_UID == 1 || doubt) -> entry[c]++
                        :: else
                        fi;
                        doubt = 0
#endif
                }
        :: else -> break
        od;
        atomic { /* it closes its session, which the store ends in its time */
                through[c] = 1;
                lease[c] = 0;
                term[c] = 0;
                goto out
        };
died:
        atomic {
                dead[c] = 1;
                idle[c] = 0
        };
out:
        skip
}

init {
        atomic {
                run Client(0);
                run Client(1);
#if CLIENTS > 2
                run Client(2)
#endif
        }
}
