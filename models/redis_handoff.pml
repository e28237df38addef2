/* redis_handoff.pml - the queue and the hand-off on one Redis server.
 *
 * What src/engine/redis does with exclusive claims. A script is one atomic step. A client has two connections: one for
 * requests, of which a claim has one under way at most, and one for news. They are not in order with each other, each may
 * be slow for ever or break, and what is under way then is lost; a request may also be lost to its sender and still arrive.
 *
 * Time passes in ticks, for all alike. A lease lasts TTL ticks from the grant at the server, the validity of a client TTL
 * ticks from where it counts; ages stop at TTL, where they mean "too old". What happens between two ticks takes no time.
 *
 * How much happens:
 *   CLIENTS (2)  ROUNDS each (1)  TTL (2)
 *   CRASHES of clients (0)  CANCELS (0)  BREAKS of either connection (0)  LOOKS without need (0)
 *   ASTRAY   how often the connection for news of a client reaches a replica, until it is compared with the other one (0)
 *   EXPIRIES  grants that run out before their client, which lives, has used them (1)
 *
 * Rules, each 1; switched off they give a counter-example:
 *   TIMED_LOOK   a waiter looks when its holder's lease may be over
 *   LOOK_BACK    ... and when its news are connected again
 *   LOOK_SERVES  a look serves the queue, if nobody holds the lock
 *   BACK_IN_LINE a look puts a waiter back in line that was skipped
 *   FROM_ASK     the validity of a pushed grant counts from when its claim last asked; 0: from the push
 *   CONFIRMED    a short grant is confirmed before use
 *   RESTARTED    an answer that says "granted" restarts the lease
 *   STAMPED      a push is used if its token is newer than the last answer "still waiting"
 *   FRESH_UID    each acquisition has a uid of its own; 0: each client
 *   CANCEL_WAITS a cancel waits for the answer of the acquire
 *   CANCEL_GIVES a cancel that finds itself granted hands the lock on
 *   LOCAL_NEWS   grants are published at the primary only; 0: a replica passes them on to those that listen there
 *
 * Checked:
 *   MUTEX  one client is valid at a time
 *   TOKEN  tokens of those who were valid grow
 *   TOLD   at a tick, a waiter whose news are connected and who is idle stands in line; or a grant is on its way to it
 *   CLEAN  at a tick, no claim that is over holds the lock, if its client lived and its connections did not break
 *   and nobody waits for ever: the only ends are those where all clients are through
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
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef LOOKS
#define LOOKS 0
#endif
#ifndef ASTRAY
#define ASTRAY 0
#endif
#ifndef EXPIRIES
#define EXPIRIES 1
#endif

#ifndef TIMED_LOOK
#define TIMED_LOOK 1
#endif
#ifndef LOOK_BACK
#define LOOK_BACK 1
#endif
#ifndef LOOK_SERVES
#define LOOK_SERVES 1
#endif
#ifndef BACK_IN_LINE
#define BACK_IN_LINE 1
#endif
#ifndef FROM_ASK
#define FROM_ASK 1
#endif
#ifndef CONFIRMED
#define CONFIRMED 1
#endif
#ifndef RESTARTED
#define RESTARTED 1
#endif
#ifndef STAMPED
#define STAMPED 1
#endif
#ifndef FRESH_UID
#define FRESH_UID 1
#endif
#ifndef CANCEL_WAITS
#define CANCEL_WAITS 1
#endif
#ifndef CANCEL_GIVES
#define CANCEL_GIVES 1
#endif
#ifndef LOCAL_NEWS
#define LOCAL_NEWS 1
#endif

#define SHORT 1 /* tick: what a grant lasts that is to be confirmed */
#if FRESH_UID
#define UID(c, round) ((c) * ROUNDS + (round))
#define CLIENT(uid) ((uid) / ROUNDS)
#define UIDS (CLIENTS * ROUNDS)
#else
#define UID(c, round) (c)
#define CLIENT(uid) (uid)
#define UIDS CLIENTS
#endif

/* ---- the server ---- */
byte holder; /* 0: free, else uid + 1 */
byte lease;  /* ticks left */
byte fence;  /* the counter of tokens */
chan line = [CLIENTS] of { byte, byte }; /* ticket, uid; in the order of tickets */
byte tickets;                            /* given out */
byte ticket[UIDS];                       /* 0: none yet */
bit in_line[UIDS];

/* ---- the connections ---- */
#define NOTHING 0
#define ASK 1     /* acquire or look: both scripts do the same for a claim that waits */
#define CONFIRM 2 /* renew */
#define LEAVE 3   /* cancel or release */
byte request[CLIENTS];
byte request_uid[CLIENTS];
byte behind[CLIENTS]; /* a request lost to its sender that may still arrive */
byte behind_uid[CLIENTS];
#define WAIT 1
#define GRANTED 2
#define GONE 3
byte reply[CLIENTS];
byte stamp[CLIENTS]; /* in the reply: the token; for WAIT the counter */
chan news[CLIENTS] = [2] of { byte, byte, bit }; /* uid, token, the whole lease */
bit listening[CLIENTS] = 1; /* as the primary counts it */
bit astray[CLIENTS];        /* it listens, at a replica */

/* ---- the clients ---- */
byte valid[CLIENTS];       /* ticks that it believes to hold the lock */
byte request_age[CLIENTS]; /* since its last request was sent */
byte asked[CLIENTS] = TTL; /* since the last request was sent that was answered WAIT */
bit idle[CLIENTS];         /* waits and has nothing under way */
bit look_due[CLIENTS];
bit dead[CLIENTS];
byte waits_for[CLIENTS]; /* its present uid */
bit used[UIDS]; /* it was valid: to leave is then a release */
bit over[UIDS];
bit excused[CLIENTS];
byte last_token;

byte crashes = CRASHES, cancels = CANCELS, breaks = BREAKS, looks = LOOKS, expiries = EXPIRIES, strays = ASTRAY;

/* ---- scripts ---- */

/* Hands a free lock to the first in line who listens. Whether it asked a moment ago, the server knows; here either. */
inline serve() {
        do
        :: holder == 0 && len(line) > 0 ->
                line?place, next;
                in_line[next] = 0;
                if
                :: listening[CLIENT(next)] && len(news[CLIENT(next)]) < 2 ->
                        fence++;
                        holder = next + 1;
                        if
                        :: lease = TTL; news[CLIENT(next)]!next, fence, 1
                        :: lease = SHORT; news[CLIENT(next)]!next, fence, 0
                        fi;
                        printf("MSC: the lock is handed to claim %d, token %d, for %d ticks\n", next, fence, lease)
                :: else ->
#if !LOCAL_NEWS
                        if
                        :: astray[CLIENT(next)] && len(news[CLIENT(next)]) < 2 ->
                                fence++; /* it was drawn, and the lock goes to the next */
                                news[CLIENT(next)]!next, fence, 1
                        :: else
                        fi;
#endif
                        printf("MSC: claim %d does not listen: skipped\n", next)
                fi
        :: else -> break
        od;
        place = 0;
        next = 0
}

inline answer(c, what, value) {
        reply[c] = what;
        stamp[c] = value
}

inline script_ask(uid) {
        result = WAIT;
        if
        :: holder == uid + 1 ->
                lease = TTL;
                result = GRANTED
        :: holder == 0 && len(line) == 0 ->
                fence++;
                holder = uid + 1;
                lease = TTL;
                result = GRANTED
        :: else ->
                if
                :: in_line[uid] || (ticket[uid] != 0 && !BACK_IN_LINE)
                :: else ->
                        if
                        :: ticket[uid] == 0 -> tickets++; ticket[uid] = tickets
                        :: else
                        fi;
                        line!!ticket[uid], uid;
                        in_line[uid] = 1
                fi;
#if LOOK_SERVES
                serve();
#endif
                if
                :: holder == uid + 1 ->
#if RESTARTED
                        lease = TTL;
#endif
                        result = GRANTED
                :: else
                fi
        fi;
        printf("MSC: claim %d asks: %d (1 wait, 2 granted), the counter is %d\n", uid, result, fence)
}

inline script_confirm(uid) {
        if
        :: holder == uid + 1 ->
                lease = TTL;
                result = GRANTED
        :: else -> result = GONE
        fi;
        printf("MSC: claim %d confirms: %d (2 granted, 3 gone)\n", uid, result)
}

inline script_leave(uid) {
        if
        :: in_line[uid] ->
                line??eval(ticket[uid]), eval(uid);
                in_line[uid] = 0
        :: else
        fi;
        if
        :: holder == uid + 1 && (CANCEL_GIVES || used[uid]) ->
                holder = 0;
                lease = 0
        :: else
        fi;
        printf("MSC: claim %d leaves\n", uid);
        serve();
        result = GONE
}

inline run_script(what, uid) {
        if
        :: what == ASK -> script_ask(uid)
        :: what == CONFIRM -> script_confirm(uid)
        :: what == LEAVE -> script_leave(uid)
        fi
}

#define SERVED(c)                                                                                                       \
        :: atomic {                                                                                                    \
                request[c] != NOTHING && reply[c] == NOTHING ->                                                        \
                run_script(request[c], request_uid[c]);                                                                \
                request[c] = NOTHING;                                                                                  \
                answer(c, result, fence);                                                                              \
                result = 0                                                                                             \
           }                                                                                                           \
        :: atomic {                                                                                                    \
                behind[c] != NOTHING ->                                                                                \
                printf("MSC: a request that was given up arrives\n");                                                   \
                run_script(behind[c], behind_uid[c]);                                                                  \
                behind[c] = NOTHING;                                                                                   \
                behind_uid[c] = 0;                                                                                     \
                result = 0                                                                                             \
           }

active proctype Server() {
        byte place, next, result;
end:
        do
        SERVED(0)
        SERVED(1)
#if CLIENTS > 2
        SERVED(2)
#endif
        od
}

/* ---- time ---- */
#if CLIENTS > 2
#define ANY(what) (what(0) || what(1) || what(2))
#else
#define ANY(what) (what(0) || what(1))
#endif
#define COUNTS(c)                                                                                                       \
        (valid[c] > 0 || ((request[c] != NOTHING || reply[c] != NOTHING) && request_age[c] < TTL) ||                   \
         (idle[c] && asked[c] < TTL))
#define OWNER CLIENT(holder - 1)
/* A grant that its client would still use runs out only so often. */
#define SPARED (holder != 0 && lease == 1 && valid[OWNER] == 0 && !dead[OWNER] && !over[holder - 1])

inline older(age) {
        if
        :: age < TTL -> age++
        :: else
        fi
}

inline check_tick() {
        c = 0;
        do
        :: c < CLIENTS ->
                assert(!idle[c] || !listening[c] || dead[c] || look_due[c] || in_line[waits_for[c]] ||
                       len(news[c]) > 0 || (holder == 0 && TIMED_LOOK)); /* TOLD */
                c++
        :: else -> break
        od;
        assert(holder == 0 || !over[holder - 1] || excused[OWNER]) /* CLEAN */
}

active proctype Clock() {
        byte c;
end:
        do
        :: d_step {
                (lease > 0 || ANY(COUNTS)) && (!SPARED || expiries > 0) ->
                check_tick();
                if
                :: SPARED -> expiries--
                :: else
                fi;
                c = 0;
                do
                :: c < CLIENTS ->
                        if
                        :: valid[c] > 0 -> valid[c]--
                        :: else
                        fi;
                        if
                        :: request[c] != NOTHING || reply[c] != NOTHING -> older(request_age[c])
                        :: else
                        fi;
                        older(asked[c]);
                        c++
                :: else -> break
                od;
                if
                :: lease > 0 ->
                        lease--;
                        if
                        :: lease == 0 ->
                                printf("MSC: the lease of claim %d runs out\n", holder - 1);
                                holder = 0
                        :: else
                        fi
                :: else
                fi;
                printf("MSC: --- tick\n");
                c = 0
           }
        od
}

/* ---- a client ---- */
inline send(what) {
        request[c] = what;
        request_uid[c] = uid;
        request_age[c] = 0
}

/* The connection for requests breaks: the request is lost, or arrives although its sender has given it up. */
inline lose_request() {
        breaks--;
        excused[c] = 1;
        if
        :: behind[c] == NOTHING ->
                behind[c] = request[c];
                behind_uid[c] = uid
        :: skip
        fi;
        request[c] = NOTHING;
        reply[c] = NOTHING;
        stamp[c] = 0;
        printf("MSC: the connection of client %d breaks\n", c)
}

inline lose_news() {
        excused[c] = 1;
        listening[c] = 0;
        do
        :: news[c]?_, _, _
        :: empty(news[c]) -> break
        od;
        printf("MSC: client %d no longer hears news\n", c)
}

inline take_reply() {
        reply[c] = NOTHING;
        stamp[c] = 0
}

#define CRASH                                                                                                           \
        :: atomic {                                                                                                    \
                crashes > 0 ->                                                                                         \
                crashes--;                                                                                             \
                printf("MSC: client %d dies\n", c);                                                                     \
                goto died                                                                                              \
           }
#define NEWS_BREAK                                                                                                      \
        :: atomic { breaks > 0 && listening[c] -> breaks--; lose_news() }                                              \
        :: atomic {                                                                                                    \
                strays > 0 && listening[c] ->                                                                          \
                strays--;                                                                                              \
                lose_news();                                                                                           \
                astray[c] = 1;                                                                                         \
                printf("MSC: client %d listens at a replica\n", c)                                                      \
           }                                                                                                           \
        :: d_step {                                                                                                    \
                !listening[c] ->                                                                                       \
                listening[c] = 1;                                                                                      \
                astray[c] = 0;                                                                                         \
                look_due[c] = LOOK_BACK;                                                                               \
                printf("MSC: client %d hears news again\n", c)                                                          \
           }

/* A look is a need if it would change something; when it is due by the clock, the server said in its last answer. */
#define NEEDS_LOOK                                                                                                      \
        (TIMED_LOOK && ((holder == 0 && (LOOK_SERVES || !in_line[uid])) || holder == uid + 1 || (BACK_IN_LINE && !in_line[uid])))

#define ANOTHER(d) ((d) != c && valid[d] > 0)

proctype Client(byte c) {
        byte round, uid, token, seen, kept, whose;
        bit kept_whole, whole, cancelled;
        do
        :: round < ROUNDS ->
                uid = UID(c, round);
                d_step {
                        over[uid] = 0;
                        used[uid] = 0;
#if !FRESH_UID
                        ticket[uid] = 0;
#endif
                        waits_for[c] = uid
                };
asking:
                atomic {
                        idle[c] = 0;
                        look_due[c] = 0;
                        asked[c] = TTL;
                        token = 0;
                        kept = 0;
                        kept_whole = 0;
                        send(ASK)
                };
                do
                :: atomic {
                        reply[c] == GRANTED ->
                        token = stamp[c];
                        take_reply();
                        valid[c] = TTL - request_age[c];
                        goto granted
                   }
                :: atomic {
                        reply[c] == WAIT ->
                        seen = stamp[c];
                        take_reply();
                        asked[c] = request_age[c];
                        break
                   }
                :: atomic { /* faster than the answer, or much slower than it should be */
                        news[c]?[eval(uid), kept, kept_whole] -> news[c]?eval(uid), kept, kept_whole
                   }
                :: atomic {
                        cancels > 0 && !cancelled ->
                        cancels--;
                        cancelled = 1;
                        printf("MSC: claim %d is cancelled\n", uid);
#if !CANCEL_WAITS
                        /* it goes its own way, and may come first */
                        behind[c] = request[c];
                        behind_uid[c] = uid;
                        request[c] = NOTHING;
                        take_reply();
                        goto leaving
#endif
                   }
                :: atomic {
                        breaks > 0 -> lose_request();
                        if
                        :: cancelled -> goto leaving
                        :: else -> goto asking
                        fi
                   }
                CRASH
                NEWS_BREAK
                od;
                if
                :: cancelled -> goto leaving
                :: !cancelled && kept != 0 && (kept > seen || !STAMPED) ->
                        atomic { token = kept; whole = kept_whole; kept = 0; kept_whole = 0; goto pushed }
                :: else
                fi;
                atomic { kept = 0; kept_whole = 0; request_age[c] = 0; idle[c] = 1 };
                do
                :: atomic {
                        nempty(news[c]) ->
                        news[c]?whose, token, whole;
                        if
                        :: whose == uid && (token > seen || !STAMPED) -> whose = 0; idle[c] = 0; goto pushed
                        :: else -> whose = 0; token = 0; whole = 0
                        fi
                   }
                :: NEEDS_LOOK || look_due[c] -> goto asking
                :: atomic { looks > 0 -> looks--; goto asking }
                :: atomic {
                        cancels > 0 ->
                        cancels--;
                        idle[c] = 0;
                        printf("MSC: claim %d is cancelled\n", uid);
                        goto leaving
                   }
                CRASH
                NEWS_BREAK
                od;
pushed:
                atomic {
                        idle[c] = 0;
                        printf("MSC: claim %d hears of its grant, token %d; it asked %d ticks ago\n", uid, token, asked[c]);
                        if
                        :: (whole || !CONFIRMED) && (asked[c] < TTL || !FROM_ASK) ->
#if FROM_ASK
                                valid[c] = TTL - asked[c];
#else
                                valid[c] = TTL;
#endif
                                goto granted
                        :: else ->
                                asked[c] = TTL;
                                send(CONFIRM)
                        fi
                };
                do
                :: atomic {
                        reply[c] == GRANTED ->
                        take_reply();
                        valid[c] = TTL - request_age[c];
                        goto granted
                   }
                :: atomic {
                        reply[c] == GONE ->
                        take_reply();
                        if
                        :: cancelled -> goto leaving
                        :: else -> goto asking
                        fi
                   }
                :: d_step {
                        cancels > 0 && !cancelled ->
                        cancels--;
                        cancelled = 1;
                        printf("MSC: claim %d is cancelled\n", uid)
                   }
                :: atomic {
                        breaks > 0 -> lose_request();
                        if
                        :: cancelled -> goto leaving
                        :: else -> goto asking
                        fi
                   }
                CRASH
                NEWS_BREAK
                od;
granted:
                atomic {
                        idle[c] = 0;
                        asked[c] = TTL;
                        request_age[c] = 0;
                        seen = 0;
                        whole = 0;
                        kept = 0;
                        kept_whole = 0;
                        if
                        :: valid[c] > 0 && !cancelled ->
                                printf("MSC: claim %d IS VALID for %d ticks, token %d\n", uid, valid[c], token);
                                assert(!ANY(ANOTHER)); /* MUTEX */
                                assert(token > last_token); /* TOKEN */
                                last_token = token;
                                used[uid] = 1
                        :: else -> valid[c] = 0
                        fi
                };
                if
                :: true
                CRASH
                fi;
leaving:
                atomic {
                        idle[c] = 0;
                        look_due[c] = 0;
                        valid[c] = 0;
                        asked[c] = TTL;
                        token = 0;
                        whole = 0;
                        seen = 0;
                        kept = 0;
                        kept_whole = 0;
                        send(LEAVE)
                };
                do
                :: atomic { reply[c] == GONE -> take_reply(); break }
                :: atomic { breaks > 0 -> lose_request(); goto leaving }
                :: atomic { breaks > 0 -> lose_request(); break } /* the client is closed */
                CRASH
                NEWS_BREAK
                od;
                atomic {
                        over[uid] = 1;
                        cancelled = 0;
                        request_age[c] = 0;
                        round++
                }
        :: else -> break
        od;
        goto through;
died:
        atomic { /* the server may take a while to see it */
                dead[c] = 1;
                excused[c] = 1;
                idle[c] = 0;
                valid[c] = 0;
                reply[c] = NOTHING
        };
        if
        :: listening[c] = 0
        :: skip
        fi;
through:
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
