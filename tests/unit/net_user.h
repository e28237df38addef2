/* net_user.h - somebody who uses a connection and keeps account of it, for the tests of net. */
#ifndef NET_USER_H
#define NET_USER_H

#include "net/net.h"
#include "tap.h"

extern struct loop loop;

/* What the connection told, and what is to be done when it does. */
struct user {
        struct net net; /* first */
        struct net_target target;
        int ups, downs, hearings;
        struct pawl_why why;
        char *said; /* everything that was heard */
        size_t size;
        bool close_when_up, close_when_heard, fail_when_heard, connect_when_down, free_when_heard;
        const char *say_when_heard;
        bool in_call; /* the test is inside a call of net: nothing may be told */
};

void begin(struct user *user);
void end(struct user *user);
/* Begins to connect, and sees that nothing is told before it returns. */
void connect_within(struct user *user, int64_t limit);
void say(struct user *user, const char *text);
void turn_once(void);

/* Turns the loop until it is so, but not for ever. */
#define TURN_UNTIL(condition)                                                                                          \
        do {                                                                                                           \
                int64_t patience = loop_now(&loop) + 30 * SECOND;                                                      \
                while (!(condition) && loop_now(&loop) < patience)                                                     \
                        turn_once();                                                                                   \
                REQUIRE(condition);                                                                                    \
        } while (0)

/* The server's part. */
int listen_tcp(uint16_t *port, int backlog);
int take(int listener);

/* How many are open in this process. */
size_t descriptors(void);

#endif
