/* etcd_keepalive.pml - when a keep-alive of an etcd lease counts: src/engine/etcd/etcd_proof.c, decision 110.
 *
 * Leases are extended in the memory of the leader, without the other members. A new leader counts every lease from when it
 * began. A member that was leader goes on answering from its memory until it notices that it was replaced, however late: it may
 * have hung. Nothing here has to happen in time, so a leader that hangs is one whose next step comes late.
 *
 * One client with one lease. It sends a keep-alive to any member; that notes the term of the last entry it has applied, passes
 * the request to the member that it takes for the leader, and answers with the term and "extended". What the client believes
 * counts from when the keep-alive was sent. There is no slack: the rule needs none.
 *
 * How much happens:
 *   ELECTIONS (1) among three members  KEEPS: keep-alives (1)  TTL (2)  LONGEST: the time passes up to this (4)
 *
 * Rules, each 1; switched off they give a counter-example:
 *   PROVEN        a keep-alive counts if a read reports the same term as its answer; 0: when it is answered
 *   READ_AFTER    the read is sent after the keep-alive; 0: before it
 *   LINEARIZABLE  the read is confirmed by the leader of a majority; 0: any member answers from what it has
 *   TERM_BEFORE   the member notes its term before it passes the keep-alive on; 0: after (as in LeaseTimeToLive)
 *
 * Checked:
 *   BELIEF  when the leader ends the lease, the client does not believe in it, and does not begin to afterwards
 *
 * Not here: a leader that was replaced and whose request to end a lease reaches the new one (etcd#15247): decision 175. */
#ifndef ELECTIONS
#define ELECTIONS 1
#endif
#ifndef KEEPS
#define KEEPS 1
#endif
#ifndef TTL
#define TTL 2
#endif
#ifndef LONGEST
#define LONGEST 4
#endif

#ifndef PROVEN
#define PROVEN 1
#endif
#ifndef READ_AFTER
#define READ_AFTER 1
#endif
#ifndef LINEARIZABLE
#define LINEARIZABLE 1
#endif
#ifndef TERM_BEFORE
#define TERM_BEFORE 1
#endif

#define MEMBERS 3

byte now;
byte term = 1; /* of the leader that has a majority */
byte leader = 0;
bool alive = true; /* the lease, for the majority */

/* What each member knows. */
byte applied[MEMBERS]; /* the term of the last entry that it has applied */
byte leads[MEMBERS];   /* whom it takes for the leader */
bool primary[MEMBERS]; /* it believes that leases are its to extend */
byte expiry[MEMBERS];  /* when it would end the lease */
bool knows[MEMBERS];   /* that the lease has ended */

byte believed_until = TTL; /* the lease was granted at 0 */

/* A linearizable read: the leader is confirmed, and then the member has applied what that had committed. */
inline read_term(member)
{
        confirmed = (LINEARIZABLE -> term : 0);
        d_step {
                applied[member] >= confirmed;
                seen = applied[member];
                confirmed = 0;
                printf("MSC: at %d a read at member %d reports term %d\n", now, member, seen)
        }
}

inline keep_alive(member)
{
        d_step {
                sent_at = now;
                printf("MSC: at %d a keep-alive is sent to member %d\n", now, member)
        }
        told = applied[member];
        do
        :: server = leads[member];
                atomic {
                        if
                        :: !primary[server]
                        :: primary[server] && knows[server] -> goto done
                        :: primary[server] && !knows[server] ->
                                expiry[server] = now + TTL;
                                printf("MSC: at %d member %d extends it\n", now, server);
                                break
                        fi
                }
        od;
        if
        :: TERM_BEFORE
        :: !TERM_BEFORE -> told = applied[member]
        fi
}

proctype Client()
{
        byte member, other, server, sent_at, confirmed, told, seen, keeps;

        do
        :: keeps == KEEPS -> break
        :: keeps < KEEPS ->
                keeps++;
                select(member : 0 .. MEMBERS - 1);
                select(other : 0 .. MEMBERS - 1);
                if
                :: READ_AFTER
                :: !READ_AFTER -> read_term(other)
                fi;
                keep_alive(member);
                if
                :: !PROVEN || !READ_AFTER
                :: PROVEN && READ_AFTER -> read_term(other)
                fi;
                d_step {
                        if
                        :: !PROVEN || told == seen ->
                                believed_until = sent_at + TTL;
                                printf("MSC: at %d it is believed until %d\n", now, believed_until);
                                assert(alive || now >= believed_until) /* BELIEF */
                        :: else
                        fi;
                        told = 0;
                        seen = 0;
                        sent_at = 0
                }
        od;
done:   skip
}

#define ELECT(member)                                                                                   \
        d_step {                                                                                        \
                term <= ELECTIONS ->                                                                    \
                term++;                                                                                 \
                leader = member;                                                                        \
                leads[member] = member;                                                                 \
                applied[member] = term;                                                                 \
                primary[member] = true;                                                                 \
                expiry[member] = now + TTL;                                                             \
                knows[member] = !alive;                                                                 \
                printf("MSC: at %d member %d leads, in term %d\n", now, member, term)                   \
        }

/* That it was replaced, or who leads: this comes before it applies what the new leader has committed. */
#define NOTICE(member)                                                                                  \
        d_step {                                                                                        \
                leads[member] != leader || (primary[member] && member != leader) ->                     \
                leads[member] = leader;                                                                 \
                primary[member] = (member == leader);                                                   \
                printf("MSC: at %d member %d notices that %d leads\n", now, member, leader)             \
        }

#define APPLY(member)                                                                                   \
        d_step {                                                                                        \
                leads[member] == leader && (applied[member] != term || knows[member] == alive) ->       \
                applied[member] = term;                                                                 \
                knows[member] = !alive                                                                  \
        }

proctype World()
{
        do
        :: ELECT(0)
        :: ELECT(1)
        :: NOTICE(0)
        :: NOTICE(1)
        :: NOTICE(2)
        :: APPLY(0)
        :: APPLY(1)
        :: APPLY(2)
        :: d_step {
                alive && now >= expiry[leader] ->
                printf("MSC: at %d member %d ends it\n", now, leader);
                alive = false;
                knows[leader] = true;
                assert(now >= believed_until) /* BELIEF */
           }
        :: now < LONGEST -> now++
        od
}

init {
        atomic {
                applied[0] = 1;
                applied[1] = 1;
                applied[2] = 1;
                primary[0] = true;
                expiry[0] = TTL;
                run Client();
                run World()
        }
}
