/* redlock_fence.pml - fencing tokens over N independent Redis servers, with trust kept per node.
 *
 * What src/engine/redlock does, as far as tokens and exclusion go. A script of Redis is one atomic step here. The network
 * delays requests for ever, lets them overtake each other and arrive after their sender gave up; a reply that is lost is
 * one that its client does not count. A node that is down or cut off is one whose requests are not delivered; one that
 * comes back with all its data was only slow. A node that comes back without them is Fate's restart.
 *
 * An attempt is one acquisition with its own uid. Nothing ties two attempts of one client together, so attempts stand for
 * clients too: ATTEMPTS=3 is three clients, or two of which one comes twice.
 *
 * How much happens:
 *   N          nodes (3)
 *   ATTEMPTS   (2)
 *   NAMES      1: one lock. 2: the last attempt wants another name; the floor of a node is common to both (1)
 *   TIMED      0: a lock may expire at any moment. 1: only when the validity of its holder is over (0)
 *   RESTARTS   how often a node comes back empty (0)
 *   ROLLBACK   1: what comes back may also be what some node was earlier (0)
 *   REPAIRERS  clients that repair, each as often as it likes (1 if there are restarts)
 *   INITS      clients that make the cluster; 0: it was made before (0)
 *   CLOCK      1: the floor that an init writes is above all numbers before; 0: the clocks are worth nothing (0)
 *   HINT       each attempt brings a hint of 0..HINT (0)
 *   SKEW       1: floors begin uneven, left so by earlier attempts (0)
 *   DUPLICATES requests that arrive twice (0)
 *   RENEWALS   rounds of renewal, over all attempts (0)
 *   RELEASES   1: a release also raises the floor; that it removes the lock is an expiry (0)
 *   SORTED     1: states that differ only in the order of the nodes are one. Fewer states, a trace is hard to read; not
 *              with INITS or ROLLBACK, whose nodes are not alike (0)
 *   RESOURCE   1: each holder reads and writes one guarded resource (0)
 *
 * Rules, each 1; switched off they give a counter-example (or do not: see ../docs/decisions/0085):
 *   WRITEBACK  the greatest number is written to a majority
 *   OWNED      ... only where the lock is still the attempt's own; 0: wherever the floor is not above it
 *   NOTICED    a node that restarted empty is known as such
 *   REPAIRED   ... and stays out until it was repaired; 0: until the attempts of its earlier life have ended
 *   WAITED     a repair begins to read after the attempts have ended that were under way at the restart
 *   QUORUM     it reads from a majority
 *   FROM_WHOLE ... of trusted nodes
 *   RAISED     it raises the floor; 0: it sets it
 *   SAME_LIFE  repair and init write only into the life of the node that they looked at
 *   BOUND      the requests of an attempt reach only the life of a node that it began with
 *   ALL_BARE   init is for a cluster with no marker on any node; 0: on a majority
 *   IN_ORDER   init looks and writes node by node, in one order, and stops where it is refused
 *   READ_TOKEN reads of the resource carry the token too
 *
 * Checked:
 *   UNIQ   no two attempts on one name end with the same token
 *   MONO   a token is above every token of that name that was complete when its attempt began
 *   LAST   (TIMED) ... and above every one complete when it is complete itself
 *   MUTEX  (TIMED) one holder at a time; MUTEX_ONLY=1 checks nothing else
 *   RMW    (RESOURCE) no update of the resource is lost
 */
#ifndef N
#define N 3
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef NAMES
#define NAMES 1
#endif
#ifndef TIMED
#define TIMED 0
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef ROLLBACK
#define ROLLBACK 0
#endif
#ifndef REPAIRERS
#if RESTARTS
#define REPAIRERS 1
#else
#define REPAIRERS 0
#endif
#endif
#ifndef INITS
#define INITS 0
#endif
#ifndef CLOCK
#define CLOCK 0
#endif
#ifndef HINT
#define HINT 0
#endif
#ifndef SKEW
#define SKEW 0
#endif
#ifndef DUPLICATES
#define DUPLICATES 0
#endif
#ifndef RENEWALS
#define RENEWALS 0
#endif
#ifndef RELEASES
#define RELEASES 0
#endif
#ifndef RESOURCE
#define RESOURCE 0
#endif
#ifndef SORTED
#define SORTED 0
#endif
#ifndef MUTEX_ONLY
#define MUTEX_ONLY 0
#endif

#ifndef WRITEBACK
#define WRITEBACK 1
#endif
#ifndef OWNED
#define OWNED 1
#endif
#ifndef NOTICED
#define NOTICED 1
#endif
#ifndef REPAIRED
#define REPAIRED 1
#endif
#ifndef WAITED
#define WAITED 1
#endif
#ifndef QUORUM
#define QUORUM 1
#endif
#ifndef FROM_WHOLE
#define FROM_WHOLE 1
#endif
#ifndef RAISED
#define RAISED 1
#endif
#ifndef SAME_LIFE
#define SAME_LIFE 1
#endif
#ifndef BOUND
#define BOUND 1
#endif
#ifndef ALL_BARE
#define ALL_BARE 1
#endif
#ifndef IN_ORDER
#define IN_ORDER 1
#endif
#ifndef READ_TOKEN
#define READ_TOKEN 1
#endif

#define MAJORITY (N / 2 + 1)
#define BIT(x) (1 << (x))
#define NOBODY 255

#if NAMES > 1
#define NAME(a) ((a) == ATTEMPTS - 1)
#else
#define NAME(a) 0
#endif

/* ---- the nodes: one register each, and a lock per name ---- */
#define BARE 0  /* no marker: new, or restarted empty */
#define WHOLE 1 /* the marker is this life's: trusted */
#define OTHER 2 /* the marker of an earlier life: rolled back */
byte marker[N];
byte floor[N];
byte lock[N * NAMES];   /* 0: free, else attempt + 1 */
byte number[N * NAMES]; /* of the lock */
#define LOCK(k, a) lock[(k) * NAMES + NAME(a)]
#define NUMBER(k, a) number[(k) * NAMES + NAME(a)]

/* Attempts that count on something of an earlier life of the node. */
byte elders[N];

/* ---- requests under way (a bit per attempt) and replies that were counted ---- */
byte granting[N];
#if WRITEBACK
byte accepting[N];
byte accepted[N];
#endif
byte same[N];            /* gave the greatest number; during a renewal: was of an earlier life when it began */
byte vote[N * ATTEMPTS]; /* 0: none */
#define VOTE(k, a) vote[(k) * ATTEMPTS + (a)]
byte asking;   /* attempts that still count votes */
byte agreeing; /* attempts that still count acceptances */
byte token[ATTEMPTS];
#if HINT || RENEWALS
byte hint[ATTEMPTS];
#define HINT_OF(a) hint[a]
#else
#define HINT_OF(a) 0
#endif
#if RENEWALS
byte renewing[N];
byte renewed[N];
byte stale[N]; /* the lock there was not reached by its holder's last renewal: it may expire */
byte renewals_left = RENEWALS;
#define STALE(k, a) (stale[k] & BIT(a))
#else
#define STALE(k, a) 0
#endif
#if RELEASES
byte releasing[N];
#endif
#if DUPLICATES
byte duplicates_left = DUPLICATES;
#endif
#if RESTARTS
byte restarts_left = RESTARTS;
#endif
#if ROLLBACK
byte saved_node = NOBODY, saved_floor, saved_lock, saved_number;
#endif

/* ---- what only the properties look at ---- */
byte live; /* attempts begun and not ended */
byte inside[NAMES];
byte complete[NAMES]; /* the greatest complete token */
short used[NAMES];
#if CLOCK
byte greatest; /* number ever given */
#endif
#if RESOURCE
byte resource_token, resource_value;
#endif

inline highest(value, than) {
        if
        :: value > than -> than = value
        :: else
        fi
}

/* ---- nodes are alike: of all states that differ only in their order, one is looked at (SORTED=1) ---- */
#if REPAIRERS || INITS
/* What each repairer or initialiser has done so far. */
#define HELPERS (REPAIRERS + INITS)
byte looked[N];   /* at this node in its present life, by which of them */
byte targeted[N]; /* by which repairer */
#endif
#if SORTED
#if WRITEBACK
#define OF_ACCEPT(of) of(accepting) of(accepted)
#else
#define OF_ACCEPT(of)
#endif
#if RENEWALS
#define OF_RENEWAL(of) of(renewing) of(renewed) of(stale)
#else
#define OF_RENEWAL(of)
#endif
#if RELEASES
#define OF_RELEASE(of) of(releasing)
#else
#define OF_RELEASE(of)
#endif
#if REPAIRERS
#define OF_REPAIR(of) of(looked) of(targeted)
#else
#define OF_REPAIR(of)
#endif
#define COLUMNS(of)                                                                                                     \
        of(floor) of(lock) of(number) of(marker) of(elders) of(granting) of(same) of(vote)                             \
        OF_ACCEPT(of) OF_RENEWAL(of) OF_RELEASE(of) OF_REPAIR(of)
#define WIDTH(array) (sizeof now.array / N)
#define COMPARE(array)                                                                                                  \
        if (order == 0)                                                                                                \
                order = memcmp(&now.array[k * WIDTH(array)], &now.array[(k + 1) * WIDTH(array)], WIDTH(array));
#define SWAP(array)                                                                                                     \
        for (i = 0; i < WIDTH(array); i++) {                                                                           \
                uchar kept = now.array[k * WIDTH(array) + i];                                                          \
                now.array[k * WIDTH(array) + i] = now.array[(k + 1) * WIDTH(array) + i];                               \
                now.array[(k + 1) * WIDTH(array) + i] = kept;                                                          \
        }
c_code {
        static void settle(void)
        {
                unsigned last, k, i;
                for (last = N - 1; last > 0; last--)
                        for (k = 0; k < last; k++) {
                                int order = 0;
                                COLUMNS(COMPARE)
                                if (order > 0) {
                                        COLUMNS(SWAP)
                                }
                        }
        }
}
#define SETTLE c_code { settle(); }
#else
#define SETTLE skip
#endif

/* ---- the scripts of a node ---- */
inline node_grant(k, a) {
        granting[k] = granting[k] & ~BIT(a);
        if
        :: marker[k] != WHOLE -> printf("MSC: node %d is UNTRUSTED for attempt %d\n", k, a)
        :: marker[k] == WHOLE && LOCK(k, a) != 0 && LOCK(k, a) != a + 1 -> printf("MSC: node %d is BUSY for attempt %d\n", k, a)
        :: else ->
                if
                :: LOCK(k, a) == 0 ->
                        floor[k]++;
                        highest(HINT_OF(a), floor[k]);
                        LOCK(k, a) = a + 1;
                        NUMBER(k, a) = floor[k]
                :: else
                fi;
#if CLOCK
                highest(floor[k], greatest);
#endif
                printf("MSC: node %d grants attempt %d number %d\n", k, a, NUMBER(k, a));
                if
                :: asking & BIT(a) -> VOTE(k, a) = NUMBER(k, a)
                :: else
                fi
        fi
}

#if OWNED
#define ACCEPTS(k, a) (marker[k] == WHOLE && LOCK(k, a) == a + 1 && token[a] >= NUMBER(k, a))
#else
#define ACCEPTS(k, a) (marker[k] == WHOLE && token[a] >= floor[k])
#endif
inline node_accept(k, a) {
        accepting[k] = accepting[k] & ~BIT(a);
        if
        :: ACCEPTS(k, a) ->
                if
                :: LOCK(k, a) == a + 1 -> NUMBER(k, a) = token[a]
                :: else
                fi;
                highest(token[a], floor[k]);
                printf("MSC: node %d accepts token %d of attempt %d\n", k, token[a], a);
                if
                :: agreeing & BIT(a) -> accepted[k] = accepted[k] | BIT(a)
                :: else
                fi
        :: else -> printf("MSC: node %d refuses token %d of attempt %d\n", k, token[a], a)
        fi
}

#if RENEWALS
inline node_renew(k, a) {
        renewing[k] = renewing[k] & ~BIT(a);
        if
        :: marker[k] == WHOLE ->
                highest(token[a], floor[k]);
                if
                :: LOCK(k, a) == a + 1 ->
                        stale[k] = stale[k] & ~BIT(a);
                        if
                        :: live & BIT(a) -> renewed[k] = renewed[k] | BIT(a)
                        :: else
                        fi;
                        printf("MSC: node %d renews attempt %d\n", k, a)
                :: else
                fi
        :: else
        fi
}
#endif

#if RELEASES
inline node_release(k, a) {
        releasing[k] = releasing[k] & ~BIT(a);
        if
        :: marker[k] == WHOLE -> highest(token[a], floor[k])
        :: else
        fi
}
#endif

/* ---- the network, clocks and misfortune ---- */
#if N == 3
#define SOME(what) (what[0] | what[1] | what[2])
#define CHOOSE_NODE(what)                                                                                               \
        if                                                                                                             \
        :: what[0] -> k = 0                                                                                            \
        :: what[1] -> k = 1                                                                                            \
        :: what[2] -> k = 2                                                                                            \
        fi
#else
#define SOME(what) (what[0] | what[1] | what[2] | what[3] | what[4])
#define CHOOSE_NODE(what)                                                                                               \
        if                                                                                                             \
        :: what[0] -> k = 0                                                                                            \
        :: what[1] -> k = 1                                                                                            \
        :: what[2] -> k = 2                                                                                            \
        :: what[3] -> k = 3                                                                                            \
        :: what[4] -> k = 4                                                                                            \
        fi
#endif
#if ATTEMPTS == 2
#define CHOOSE_ATTEMPT(of)                                                                                              \
        if                                                                                                             \
        :: of & 1 -> a = 0                                                                                             \
        :: of & 2 -> a = 1                                                                                             \
        fi
#else
#define CHOOSE_ATTEMPT(of)                                                                                              \
        if                                                                                                             \
        :: of & 1 -> a = 0                                                                                             \
        :: of & 2 -> a = 1                                                                                             \
        :: of & 4 -> a = 2                                                                                             \
        fi
#endif
#if DUPLICATES
/* The request stays under way: it will arrive once more. */
#define MAYBE_AGAIN(what)                                                                                               \
        if                                                                                                             \
        :: duplicates_left > 0 ->                                                                                      \
                duplicates_left--;                                                                                     \
                what[k] = what[k] | BIT(a)                                                                             \
        :: skip                                                                                                        \
        fi;
#else
#define MAYBE_AGAIN(what)
#endif

active proctype Network() {
        byte k, a;
end:
        do
        :: atomic {
                SOME(granting) ->
                CHOOSE_NODE(granting);
                CHOOSE_ATTEMPT(granting[k]);
                node_grant(k, a);
                MAYBE_AGAIN(granting)
                k = 0;
                a = 0;
                SETTLE
           }
#if WRITEBACK
        :: atomic {
                SOME(accepting) ->
                CHOOSE_NODE(accepting);
                CHOOSE_ATTEMPT(accepting[k]);
                node_accept(k, a);
                MAYBE_AGAIN(accepting)
                k = 0;
                a = 0;
                SETTLE
           }
#endif
#if RENEWALS
        :: atomic {
                SOME(renewing) ->
                CHOOSE_NODE(renewing);
                CHOOSE_ATTEMPT(renewing[k]);
                node_renew(k, a);
                k = 0;
                a = 0;
                SETTLE
           }
#endif
#if RELEASES
        :: atomic {
                SOME(releasing) ->
                CHOOSE_NODE(releasing);
                CHOOSE_ATTEMPT(releasing[k]);
                node_release(k, a);
                k = 0;
                a = 0;
                SETTLE
           }
#endif
        od
}

#if TIMED
#define MAY_EXPIRE(i) (lock[i] != 0 && (!(live & BIT(lock[i] - 1)) || STALE((i) / NAMES, lock[i] - 1)))
#else
#define MAY_EXPIRE(i) (lock[i] != 0)
#endif
#define EXPIRY(i)                                                                                                       \
        :: d_step {                                                                                                    \
                MAY_EXPIRE(i) ->                                                                                       \
                printf("MSC: node %d: the lock of attempt %d expires\n", (i) / NAMES, lock[i] - 1);                     \
                lock[i] = 0;                                                                                           \
                number[i] = 0;                                                                                         \
                SETTLE                                                                                                 \
           }

active proctype Expiry() {
end:
        do
        EXPIRY(0)
        EXPIRY(1)
        EXPIRY(2)
#if N * NAMES > 3
        EXPIRY(3)
        EXPIRY(4)
#endif
#if N * NAMES > 5
        EXPIRY(5)
#endif
        od
}

#if RESTARTS
inline restart(k) {
        restarts_left--;
        printf("MSC: node %d restarts EMPTY, attempts under way: %d\n", k, live);
        floor[k] = 0;
        lock[k * NAMES] = 0;
        number[k * NAMES] = 0;
#if NAMES > 1
        lock[k * NAMES + 1] = 0;
        number[k * NAMES + 1] = 0;
#endif
        elders[k] = live;
#if NOTICED && REPAIRED
        marker[k] = BARE;
#elif NOTICED
        marker[k] = (live == 0 -> WHOLE : BARE); /* delayed restart: see `over` */
#endif
#if BOUND
        granting[k] = 0;
#if WRITEBACK
        accepting[k] = 0;
#endif
#if RENEWALS
        renewing[k] = 0;
#endif
#if RELEASES
        releasing[k] = 0;
#endif
#endif
#if RENEWALS
        stale[k] = 0;
#endif
#if SAME_LIFE && (REPAIRERS || INITS)
        /* What was to be written into the earlier life is refused; what a repairer has read there remains. */
        targeted[k] = 0;
        looked[k] = looked[k] & (BIT(REPAIRERS) - 1);
#else
        skip
#endif
}

active proctype Fate() {
        byte k;
end:
        do
#if ROLLBACK
        :: d_step { /* what some node is now may come back; the first name is enough */
                saved_node == NOBODY && restarts_left > 0 && marker[0] == WHOLE ->
                saved_node = 0;
                saved_floor = floor[0];
                saved_lock = lock[0];
                saved_number = number[0];
                printf("MSC: node 0 is saved\n")
           }
        :: d_step {
                saved_node == 0 && restarts_left > 0 ->
                restart(0);
                marker[0] = OTHER;
                floor[0] = saved_floor;
                lock[0] = saved_lock;
                number[0] = saved_number;
                saved_node = 1;
                saved_floor = 0;
                saved_lock = 0;
                saved_number = 0;
                printf("MSC: ... with what was saved\n")
           }
#endif
        :: atomic {
                restarts_left > 0 ->
                if
                :: k = 0
                :: k = 1
                :: k = 2
#if N > 3
                :: k = 3
                :: k = 4
#endif
                fi;
                restart(k);
                k = 0;
                SETTLE
           }
        od
}
#endif

/* ---- repair ---- */
#if REPAIRERS
#if WAITED
#define MAY_BEGIN(k) (marker[k] != WHOLE && elders[k] == 0)
#else
#define MAY_BEGIN(k) (marker[k] != WHOLE)
#endif
#if FROM_WHOLE
#define MAY_READ(h, k) (BUSY(h) && !(targeted[k] & BIT(h)) && marker[k] == WHOLE && !(looked[k] & BIT(h)))
#else
#define MAY_READ(h, k) (BUSY(h) && !(targeted[k] & BIT(h)) && !(looked[k] & BIT(h)))
#endif
#if QUORUM
#define ENOUGH MAJORITY
#else
#define ENOUGH (MAJORITY - 1)
#endif
#define BUSY(h) (SOME(targeted) & BIT(h))
#define BEGIN(k)                                                                                                        \
        :: d_step {                                                                                                    \
                !BUSY(h) && count == 0 && MAY_BEGIN(k) ->                                                              \
                targeted[k] = targeted[k] | BIT(h);                                                                    \
                printf("MSC: repairer %d begins with node %d\n", h, k);                                                 \
                SETTLE                                                                                                 \
           }
#define READ(k)                                                                                                         \
        :: d_step {                                                                                                    \
                MAY_READ(h, k) && count < ENOUGH ->                                                                    \
                looked[k] = looked[k] | BIT(h);                                                                        \
                count++;                                                                                               \
                highest(floor[k], found);                                                                              \
                printf("MSC: repairer %d reads floor %d of node %d\n", h, floor[k], k);                                 \
                SETTLE                                                                                                 \
           }

inline give_up(h) {
        k = 0;
        do
        :: k < N ->
                targeted[k] = targeted[k] & ~BIT(h);
                looked[k] = looked[k] & ~BIT(h);
                k++
        :: else -> break
        od;
        k = 0;
        found = 0;
        count = 0;
        SETTLE
}

proctype Repairer(byte h) {
        byte found, count, k;
end:
        do
        BEGIN(0)
        BEGIN(1)
        BEGIN(2)
        READ(0)
        READ(1)
        READ(2)
#if N > 3
        BEGIN(3)
        BEGIN(4)
        READ(3)
        READ(4)
#endif
        :: d_step {
                BUSY(h) && count >= ENOUGH ->
                k = 0;
                do
                :: targeted[k] & BIT(h) -> break
                :: else -> k++
                od;
#if RAISED
                highest(found, floor[k]);
#else
                floor[k] = found;
#endif
                marker[k] = WHOLE;
                printf("MSC: repairer %d: node %d is whole, its floor is %d\n", h, k, floor[k]);
                give_up(h)
           }
        :: d_step { /* refused, or its client is dead */
                count > 0 || BUSY(h) -> give_up(h)
           }
        od
}
#endif

/* ---- init ---- */
#if INITS
#if ALL_BARE
#define REACHED N
#else
#define REACHED MAJORITY
#endif
#if IN_ORDER
#define IN_TURN(k) (next == k)
#else
#define IN_TURN(k) (!(seen & BIT(k)))
#endif
#define LOOK(k)                                                                                                         \
        :: d_step {                                                                                                    \
                count < REACHED && IN_TURN(k) && marker[k] == BARE ->                                                  \
                seen = seen | BIT(k);                                                                                  \
                looked[k] = looked[k] | BIT(h);                                                                        \
                count++;                                                                                               \
                next = k + 1;                                                                                          \
                printf("MSC: init %d finds node %d bare\n", h, k)                                                       \
           }
/* `looked` forgets a node that restarts, `seen` does not. */
#define MARK(k)                                                                                                         \
        :: d_step {                                                                                                    \
                (seen & BIT(k)) && IN_TURN_TO_WRITE(k) ->                                                              \
                if                                                                                                     \
                :: marker[k] == BARE && (looked[k] & BIT(h)) ->                                                        \
                        marker[k] = WHOLE;                                                                             \
                        floor[k] = BEGINNING;                                                                          \
                        written = written | BIT(k);                                                                    \
                        next = k + 1;                                                                                  \
                        printf("MSC: init %d marks node %d\n", h, k)                                                    \
                :: else ->                                                                                             \
                        refused = 1;                                                                                   \
                        written = written | BIT(k);                                                                    \
                        printf("MSC: init %d is refused by node %d\n", h, k)                                            \
                fi                                                                                                     \
           }
#if IN_ORDER
#define IN_TURN_TO_WRITE(k) (next == k && !refused)
#else
#define IN_TURN_TO_WRITE(k) (!(written & BIT(k)))
#endif
#if CLOCK
#define BEGINNING time
#else
#define BEGINNING 0
#endif

proctype Init(byte h) {
        byte seen, count, next, written, time;
        bit refused;
end_looking:
        do
        :: count < REACHED ->
end_reaching:
                if
                LOOK(0)
                LOOK(1)
                LOOK(2)
#if N > 3
                LOOK(3)
                LOOK(4)
#endif
                fi
        :: else -> break
        od;
        atomic {
#if CLOCK
                time = greatest;
#endif
#if IN_ORDER
                next = 0
#else
                skip
#endif
        };
end_writing:
        do
        MARK(0)
        MARK(1)
        MARK(2)
#if N > 3
        MARK(3)
        MARK(4)
#endif
        od
}
#endif

/* ---- an attempt ---- */
#define GRANTED(k) (VOTE(k, a) != 0)
#if N == 3
#define VOTES (GRANTED(0) + GRANTED(1) + GRANTED(2))
#else
#define VOTES (GRANTED(0) + GRANTED(1) + GRANTED(2) + GRANTED(3) + GRANTED(4))
#endif
#define HAS(set, k) (((set) >> (k)) & 1)
#if N == 3
#define SIZE(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))
#else
#define SIZE(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2) + HAS(set, 3) + HAS(set, 4))
#endif
#define OF_ATTEMPT(what, k) (((what[k] >> a) & 1) << (k))
#if N == 3
#define NODES_OF(what) (OF_ATTEMPT(what, 0) | OF_ATTEMPT(what, 1) | OF_ATTEMPT(what, 2))
#else
#define NODES_OF(what)                                                                                                  \
        (OF_ATTEMPT(what, 0) | OF_ATTEMPT(what, 1) | OF_ATTEMPT(what, 2) | OF_ATTEMPT(what, 3) | OF_ATTEMPT(what, 4))
#endif

#if BOUND
#define REACHES(k) (!(elders[k] & BIT(a)))
#else
#define REACHES(k) (1)
#endif
#define SEND(what)                                                                                                      \
        k = 0;                                                                                                         \
        do                                                                                                             \
        :: k < N ->                                                                                                    \
                if                                                                                                     \
                :: REACHES(k) -> what[k] = what[k] | BIT(a)                                                            \
                :: else                                                                                                \
                fi;                                                                                                    \
                k++                                                                                                    \
        :: else -> break                                                                                               \
        od;                                                                                                            \
        k = 0

inline forget_votes() {
        k = 0;
        do
        :: k < N ->
                VOTE(k, a) = 0;
                k++
        :: else -> break
        od;
        k = 0
}

inline forget_same(below) {
        i = 0;
        do
        :: i < below ->
                same[i] = same[i] & ~BIT(a);
                i++
        :: else -> break
        od;
        i = 0
}

/* The greatest number of a majority that was heard; `same` are the nodes that gave it. */
inline count_votes() {
        asking = asking & ~BIT(a);
        k = 0;
        do
        :: k < N ->
                if
                :: VOTE(k, a) == 0
                :: VOTE(k, a) > T ->
                        T = VOTE(k, a);
                        forget_same(k);
                        same[k] = same[k] | BIT(a);
                        heard++
                :: VOTE(k, a) != 0 && VOTE(k, a) == T ->
                        same[k] = same[k] | BIT(a);
                        heard++
                :: VOTE(k, a) != 0 && VOTE(k, a) < T -> heard++
                :: VOTE(k, a) != 0 && VOTES > MAJORITY -> skip /* its reply is lost */
                fi;
                k++
        :: else -> break
        od;
        k = 0
}

inline check_token() {
#if !MUTEX_ONLY
        assert(T > begun_after);              /* MONO */
#if TIMED
        assert(T > complete[NAME(a)]);        /* LAST */
#endif
        assert(!(used[NAME(a)] & (1 << T)));  /* UNIQ */
#endif
        used[NAME(a)] = used[NAME(a)] | (1 << T);
        assert(T < 15);                       /* the model itself is too small */
        highest(T, complete[NAME(a)]);
        inside[NAME(a)]++;
#if TIMED
        assert(inside[NAME(a)] == 1)          /* MUTEX */
#else
        skip
#endif
}

proctype Attempt(byte a) {
        byte T, begun_after, heard, k, i;
        d_step {
                live = live | BIT(a);
                begun_after = complete[NAME(a)];
                asking = asking | BIT(a);
                SEND(granting);
                SETTLE
        };
#if HINT
        atomic {
                if
                :: skip
                :: hint[a] = 1
#if HINT > 1
                :: hint[a] = 2
#endif
#if HINT > 2
                :: hint[a] = 3
#endif
                fi
        };
#endif
        if
        :: goto over /* time is up, or its client is dead */
        :: atomic {
                VOTES >= MAJORITY ->
                count_votes();
                if
                :: heard >= MAJORITY
                :: else -> goto over
                fi;
                heard = 0;
                forget_votes();
#if WRITEBACK
                if
                :: SIZE(NODES_OF(same)) >= MAJORITY -> token[a] = T
                :: else ->
                        token[a] = T;
                        agreeing = agreeing | BIT(a);
                        SEND(accepting)
                fi;
#endif
                SETTLE
           }
        fi;
#if WRITEBACK
        if
        :: goto over
        :: SIZE(NODES_OF(same) | NODES_OF(accepted)) >= MAJORITY
        fi;
#endif
        d_step {
                printf("MSC: attempt %d is COMPLETE with token %d\n", a, T);
                check_token();
                agreeing = agreeing & ~BIT(a);
                forget_same(N);
                begun_after = 0;
#if WRITEBACK
                k = 0;
                do
                :: k < N ->
                        accepted[k] = accepted[k] & ~BIT(a);
                        k++
                :: else -> break
                od;
                k = 0;
#endif
                SETTLE
        };
#if RENEWALS
        do
        :: d_step {
                renewals_left > 0 ->
                renewals_left--;
                printf("MSC: attempt %d renews\n", a);
                k = 0;
                do
                :: k < N ->
                        renewing[k] = renewing[k] | BIT(a);
                        /* only what restarts from now on can spoil this round */
                        same[k] = same[k] | (elders[k] & BIT(a));
                        k++
                :: else -> break
                od;
                k = 0;
                SETTLE
           };
           if
           :: break /* it does not succeed: the lock is lost */
           :: d_step {
                SIZE(NODES_OF(renewed)) >= MAJORITY ->
                printf("MSC: attempt %d stands on a majority\n", a);
                hint[a] = T;
                k = 0;
                do
                :: k < N ->
                        if
                        :: same[k] & BIT(a) -> elders[k] = elders[k] & ~BIT(a)
                        :: else
                        fi;
                        if
                        :: renewed[k] & BIT(a) -> renewed[k] = renewed[k] & ~BIT(a)
                        :: else -> /* made again there, not counted */
                                stale[k] = stale[k] | BIT(a);
                                granting[k] = granting[k] | BIT(a);
                                accepting[k] = accepting[k] | BIT(a)
                        fi;
                        k++
                :: else -> break
                od;
                forget_same(N);
                k = 0;
                SETTLE
              }
           fi
        :: break
        od;
#endif
#if RESOURCE
        atomic {
                if
#if READ_TOKEN
                :: T < resource_token -> heard = NOBODY
                :: else ->
                        resource_token = T;
                        heard = resource_value
#else
                :: heard = resource_value
#endif
                fi
        };
        d_step {
                if
                :: heard == NOBODY || T < resource_token -> skip /* fenced off */
                :: else ->
                        assert(resource_value == heard); /* RMW */
                        resource_token = T;
                        resource_value++
                fi
        };
#endif
        inside[NAME(a)]--;
over:
        atomic {
                printf("MSC: attempt %d is over\n", a);
                live = live & ~BIT(a);
                asking = asking & ~BIT(a);
                agreeing = agreeing & ~BIT(a);
                forget_votes();
                k = 0;
                do
                :: k < N ->
                        elders[k] = elders[k] & ~BIT(a);
#if NOTICED && !REPAIRED
                        if
                        :: elders[k] == 0 -> marker[k] = WHOLE
                        :: else
                        fi;
#endif
#if WRITEBACK
                        accepted[k] = accepted[k] & ~BIT(a);
#endif
#if RENEWALS
                        renewed[k] = renewed[k] & ~BIT(a);
#endif
#if RELEASES
                        if
                        :: T != 0 -> releasing[k] = releasing[k] | BIT(a)
                        :: else
                        fi;
#endif
                        k++
                :: else -> break
                od;
                k = 0;
                forget_same(N);
                T = 0;
                heard = 0;
                begun_after = 0;
                SETTLE
        }
}

init {
        byte i;
        atomic {
#if !INITS
                do
                :: i < N ->
                        marker[i] = WHOLE;
                        i++
                :: else -> break
                od;
#endif
#if SKEW
                /* nodes are alike: sorted beginnings are enough */
                if
                :: skip
                :: floor[2] = 2
                :: floor[1] = 2; floor[2] = 2
                :: floor[1] = 2; floor[2] = 4
                fi;
#endif
                i = 0;
                do
                :: i < ATTEMPTS ->
                        run Attempt(i);
                        i++
                :: else -> break
                od;
#if REPAIRERS
                i = 0;
                do
                :: i < REPAIRERS ->
                        run Repairer(i);
                        i++
                :: else -> break
                od;
#endif
#if INITS
                i = REPAIRERS;
                do
                :: i < REPAIRERS + INITS ->
                        run Init(i);
                        i++
                :: else -> break
                od;
#endif
                i = 0
        }
}
