/* session_report.pml - what a client of ZooKeeper may believe of its session: src/engine/zookeeper/zk_proof.h, decision
 * 0101.
 *
 * A client, the server it is connected to, and the leader. The leader ends the session TTL ticks after it last heard of it,
 * or later. It hears of it by reports only: at least every INTERVAL ticks it asks the server, which answers whether the
 * session was active since its last report. Requests go by the server to the leader and back; requests, reports and answers
 * between two servers keep their order, and take any time. At any moment the server and its client may be cut off from the
 * leader, and what is on its way is lost. (A quorum confirms what the leader answers: the other servers are not in the
 * model.)
 *
 * RULE: how the client counts.
 *   1  a write proves that the session lasts TTL - INTERVAL from when it was sent
 *   2  the same, but counted from the last sign of life that was sent INTERVAL before it, if that is earlier by more
 *   3  three round trips to the leader: see zk_proof.h
 * For 3, each 1; switched off they give a counter-example:
 *   PAUSE  the second is sent more than INTERVAL after the first was answered
 *   THIRD  the third is waited for
 *
 * Times are ages, so that the search ends: how long ago something was, up to TTL.
 *
 * Checked: when the leader ends the session, the client has stopped to believe in it. */
#ifndef RULE
#define RULE 3
#endif
#ifndef TTL
#define TTL 4
#endif
#ifndef INTERVAL
#define INTERVAL 1
#endif
#ifndef PAUSE
#define PAUSE 1
#endif
#ifndef THIRD
#define THIRD 1
#endif

mtype = { ASK, ANSWER, REPORT, REQUEST };
mtype = { IDLE, TO_SERVER, AT_LEADER, TO_CLIENT };

bool cut;
chan to_server = [3] of { mtype };
chan to_leader = [3] of { mtype };

/* The leader, and the server. */
byte touched; /* the leader heard of it so long ago */
byte asked;   /* and asked so long ago */
bool noted;   /* by the server, since its last report */

/* The client. */
mtype request = IDLE;
byte sent;
bool is_ping;     /* RULE 2: the server answers that itself */
byte left = TTL;  /* so long does it believe in its session */
byte sign = TTL, sign_before = TTL; /* RULE 2 */
byte phase;       /* RULE 3: 1: there is a sign of life, 2: it was reported */
byte first;       /* that was sent so long ago */
byte answered;    /* and answered */
bool spaced;      /* what is under way was sent long enough after it */

inline believe(since, length) {
        if
        :: length > since && length - since > left -> left = length - since
        :: else
        fi
}

inline send(ping) {
        request = TO_SERVER;
        sent = 0;
        is_ping = ping;
        spaced = RULE == 3 && phase == 1 && (!PAUSE || answered > INTERVAL);
        if
        :: RULE == 2 -> sign_before = sign; sign = 0
        :: else
        fi
}

inline count_prompt() {
        if
        :: sign_before >= sent + INTERVAL -> believe(sign_before, TTL)
        :: else
        fi
}

inline count_three() {
        if
        :: phase == 2 || (phase == 1 && spaced && !THIRD) -> believe(first, TTL); phase = 0
        :: phase == 1 && spaced && THIRD -> phase = 2
        :: else
        fi;
        if
        :: phase == 0 -> first = sent; answered = 0; phase = 1
        :: else
        fi
}

inline take_answer() {
        request = IDLE;
        if
        :: is_ping
        :: !is_ping && RULE == 1 -> believe(sent, TTL - INTERVAL)
        :: !is_ping && RULE == 2 -> count_prompt()
        :: !is_ping && RULE == 3 -> count_three()
        fi;
        sent = 0;
        spaced = false
}

inline age(what) {
        what = (what < TTL -> what + 1 : TTL)
}

inline pass_time() {
        age(touched);
        age(asked);
        if
        :: request != IDLE -> age(sent)
        :: else
        fi;
        if
        :: RULE == 2 -> age(sign); age(sign_before)
        :: phase > 0 -> age(first); age(answered)
        :: else
        fi;
        left = (left > 0 -> left - 1 : 0)
}

active proctype world() {
        mtype message;

        do
        /* The client. */
        :: atomic { request == IDLE && !cut -> send(false); printf("MSC: the client sends a write\n") }
        :: atomic { RULE == 2 && request == IDLE && !cut -> send(true); printf("MSC: the client sends a ping\n") }
        :: atomic { request == TO_CLIENT -> take_answer(); printf("MSC: it is answered, and believed for %d ticks\n", left) }
        /* Its server. */
        :: atomic { request == TO_SERVER && is_ping -> noted = true; request = TO_CLIENT }
        :: atomic { request == TO_SERVER && !is_ping && !cut && nfull(to_leader) ->
                noted = true; to_leader!REQUEST; request = AT_LEADER; printf("MSC: the server passes it on\n") }
        :: atomic { nempty(to_server) && nfull(to_leader) ->
                to_server?message;
                if
                :: message == ASK && noted -> to_leader!REPORT; noted = false; printf("MSC: the server reports it\n")
                :: message == ASK && !noted -> printf("MSC: the server has nothing to report\n")
                :: else -> request = TO_CLIENT
                fi;
                message = 0 }
        /* The leader. */
        :: atomic { nempty(to_leader) && nfull(to_server) ->
                to_leader?message;
                if
                :: message == REPORT -> touched = 0; printf("MSC: the leader has heard of it\n")
                :: else -> to_server!ANSWER; printf("MSC: the leader answers\n")
                fi;
                message = 0 }
        :: atomic { !cut && asked > 0 && nfull(to_server) -> to_server!ASK; asked = 0; printf("MSC: the leader asks\n") }
        :: atomic { touched == TTL ->
                printf("MSC: the leader ends the session, believed for %d\n", left);
                assert(left == 0);
                break }
        /* The network, and time. */
        :: atomic { !cut ->
                cut = true;
                do
                :: nempty(to_server) -> to_server?message
                :: nempty(to_leader) -> to_leader?message
                :: else -> break
                od;
                message = 0;
                noted = false;
                asked = 0;
                printf("MSC: they are cut off\n") }
        :: atomic { cut || asked < INTERVAL -> pass_time(); printf("MSC: a tick\n") }
        od
}
