/* session_turn.pml - claims that confirm their turn, in a store with sessions: src/engine/session/turn.h, zk_turn.c, etcd_turn.c.
 *
 * A claim is a node in the queue; who is first must write to its node, and holds when that is answered. Anybody who waits may
 * delete the first at any time, on the condition that it was not written to; how long one should wait before that is a question of
 * fairness, and left out. Requests arrive late, also when their sender has given them up, asked again, or is dead. A claim that
 * is slow is one whose steps come late. A client whose node is gone enters again, at the end. Sessions and what is believed of
 * them are in session_line.pml: here a session ends only when its client has ceased to believe in it.
 *
 * How much happens:
 *   CLIENTS (3)  ENTRIES of each into the queue (2)  CRASHES of clients (0)  LOSSES of answers to a confirmation (0)
 *   EXPIRIES of sessions whose client lives (0)
 *
 * Rules, each 1; switched off they give a counter-example:
 *   VERSION      what was written to is not deleted
 *   ANSWERED     who has written holds when that is answered; 0: when it is sent
 *   CONDITIONAL  a confirmation of a node that is gone does nothing; 0: it makes the node (etcd's put)
 *   PASS         the first is deleted if it does not confirm
 *
 * Checked:
 *   MUTEX   one holds at a time
 *   STUCK   as an invalid end: nobody waits for one that died before it confirmed. (One that has is waited for until its session
 *           is over.) */
#ifndef CLIENTS
#define CLIENTS 3
#endif
#ifndef ENTRIES
#define ENTRIES 2
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
#ifndef VERSION
#define VERSION 1
#endif
#ifndef ANSWERED
#define ANSWERED 1
#endif
#ifndef CONDITIONAL
#define CONDITIONAL 1
#endif
#ifndef PASS
#define PASS 1
#endif

#define NODES (CLIENTS * ENTRIES)
#define NODE(c) ((c) * ENTRIES + entry[c])
#define OWNER(node) ((node) / ENTRIES)

/* ---- the store ---- */
chan line = [NODES] of { byte };
bit written[NODES];
#define THERE(node) (line??[eval(node)])

/* ---- under way: node + 1 ---- */
byte confirm[CLIENTS]; /* to be answered */
byte late[CLIENTS];    /* given up */
byte pass[CLIENTS];    /* deletes another's */
#define DONE 1
#define GONE 2
byte reply[CLIENTS];

/* ---- clients ---- */
byte entry[CLIENTS];
bit holds[CLIENTS];
bit dead[CLIENTS];
bit over[CLIENTS]; /* its session was ended, and it has not noticed */
byte crashes = CRASHES, losses = LOSSES, expiries = EXPIRIES;

#if CLIENTS > 2
#define HOLDERS (holds[0] + holds[1] + holds[2])
#else
#define HOLDERS (holds[0] + holds[1])
#endif

inline delete_node(node) {
        if
        :: THERE(node) -> line??eval(node)
        :: else
        fi
}

inline write(node, result) {
        if
        :: THERE(node) -> written[node] = 1; result = DONE
#if !CONDITIONAL
        :: else -> line!node; written[node] = 1; result = DONE
#else
        :: else -> result = GONE
#endif
        fi
}

#define ARRIVES(c)                                                                                                      \
        :: d_step {                                                                                                    \
                confirm[c] != 0 && reply[c] == 0 ->                                                                    \
                write(confirm[c] - 1, reply[c]);                                                                       \
                printf("MSC: node %d confirms: %d (1 done, 2 gone)\n", confirm[c] - 1, reply[c])                        \
           }                                                                                                           \
        :: d_step {                                                                                                    \
                late[c] != 0 ->                                                                                        \
                write(late[c] - 1, nobody);                                                                            \
                printf("MSC: node %d confirms late: %d (1 done, 2 gone)\n", late[c] - 1, nobody);                       \
                late[c] = 0;                                                                                           \
                nobody = 0                                                                                             \
           }                                                                                                           \
        :: d_step {                                                                                                    \
                pass[c] != 0 ->                                                                                        \
                if                                                                                                     \
                :: !VERSION || !written[pass[c] - 1] ->                                                                \
                        printf("MSC: client %d deletes node %d\n", c, pass[c] - 1);                                     \
                        delete_node(pass[c] - 1)                                                                       \
                :: else                                                                                                \
                fi;                                                                                                    \
                pass[c] = 0                                                                                            \
           }                                                                                                           \
        :: d_step {                                                                                                    \
                dead[c] && THERE(NODE(c)) && written[NODE(c)] ->                                                       \
                delete_node(NODE(c))                                                                                   \
           }                                                                                                           \
        :: d_step {                                                                                                    \
                expiries > 0 && !dead[c] && THERE(NODE(c)) ->                                                          \
                printf("MSC: the session of client %d is over\n", c);                                                   \
                expiries--;                                                                                            \
                holds[c] = 0;                                                                                          \
                over[c] = 1;                                                                                           \
                delete_node(NODE(c))                                                                                   \
           }

active proctype Store()
{
        byte nobody;

end:
        do
        ARRIVES(0)
        ARRIVES(1)
#if CLIENTS > 2
        ARRIVES(2)
#endif
        od
}

#define CRASH                                                                                                           \
        :: atomic {                                                                                                    \
                crashes > 0 ->                                                                                         \
                crashes--;                                                                                             \
                printf("MSC: client %d dies\n", c);                                                                     \
                dead[c] = 1;                                                                                           \
                holds[c] = 0;                                                                                          \
                goto died                                                                                              \
           }

proctype Client(byte c)
{
        byte first;

entering:
        atomic {
                over[c] = 0;
                reply[c] = 0;
                line!NODE(c);
                printf("MSC: client %d enters, node %d\n", c, NODE(c))
        };
waiting:
        do
        :: atomic { line?[eval(NODE(c))] -> break }
        :: atomic { !THERE(NODE(c)) -> goto passed }
#if PASS
        :: atomic {
                pass[c] == 0 && nempty(line) && THERE(NODE(c)) ->
                line?<first>;
                if
                :: OWNER(first) != c && !written[first] -> pass[c] = first + 1
                :: else
                fi;
                first = 0
           }
#endif
        CRASH
        od;
confirming:
        atomic {
                confirm[c] = NODE(c) + 1;
                reply[c] = 0;
#if !ANSWERED
                holds[c] = 1;
                assert(HOLDERS <= 1) /* MUTEX */
#endif
        };
        do
        :: atomic {
                reply[c] == DONE ->
                confirm[c] = 0;
                reply[c] = 0;
                if
                :: over[c] -> goto passed
                :: else ->
                        holds[c] = 1;
                        printf("MSC: client %d HOLDS with node %d\n", c, NODE(c));
                        assert(HOLDERS <= 1) /* MUTEX */
                fi;
                break
           }
        :: atomic { reply[c] == GONE -> confirm[c] = 0; reply[c] = 0; holds[c] = 0; goto passed }
        :: atomic {
                losses > 0 && late[c] == 0 ->
                losses--;
                printf("MSC: client %d loses its connection\n", c);
                late[c] = confirm[c]; /* it was not done yet, or is done twice */
                confirm[c] = 0;
                reply[c] = 0;
                goto waiting
           }
        CRASH
        od;
        do
        :: atomic { holds[c] = 0; delete_node(NODE(c)); goto out } /* it gives it back, or finds that it is lost */
        CRASH
        od;
passed:
        atomic {
                holds[c] = 0;
                if
                :: entry[c] < ENTRIES - 1 -> entry[c]++; goto entering
                :: else -> goto out
                fi
        };
died:
        skip;
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
