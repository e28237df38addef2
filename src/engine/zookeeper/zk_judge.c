/* zk_judge.c - what the answers of zk_examine.c mean for locks, and the command that mends what is wrong. Each judge_X
 * looks at one thing and tells at least whether it is fine, if that can be known. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/quote.h"
#include "zk_examine.h"

#define DEFAULT_TTL (10 * SECOND)

enum { NAMES_MANY = 20000 };

/* ---- telling --------------------------------------------------------------------------------------------------- */

static void tell(const struct zk_examination *examination, const struct zk_said *said, enum pawl_severity severity,
                 const char *mend, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* said NULL: of the ensemble. */
static void tell(const struct zk_examination *examination, const struct zk_said *said, enum pawl_severity severity,
                 const char *mend, const char *format, ...)
{
        char what[1024];
        struct pawl_finding finding = {
                .severity = severity, .where = said ? said->where : examination->zk->where, .what = what, .mend = mend};
        va_list args;

        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        examination->inquiry->finding(examination->inquiry, &finding);
}

static bool is_local(const struct zk *zk)
{
        for (size_t i = 0; i < zk->server_count; i++) {
                const char *host = zk->servers[i].host;

                if (strcmp(host, "localhost") != 0 && strncmp(host, "127.", 4) != 0 && strcmp(host, "::1") != 0)
                        return false;
        }
        return true;
}

/* This URL without a password, as a word for a shell. */
static void url_of(const struct zk *zk, char *word, size_t size)
{
        char url[1024];

        snprintf(url, sizeof(url), "%s://%s%s", zk->tls ? "zks" : "zk", zk->where, zk->chroot);
        quote_for_shell(url, word, size);
}

static const char *pawl_init_command(struct zk_examination *examination, const char *rest)
{
        char url[1100];

        if (examination->zk->auth) {
                snprintf(examination->mend, sizeof(examination->mend), "pawl init%s, with this URL and its user", rest);
        } else {
                url_of(examination->zk, url, sizeof(url));
                snprintf(examination->mend, sizeof(examination->mend), "pawl -e %s init%s", url, rest);
        }
        return examination->mend;
}

/* A line of zoo.cfg, which needs a restart of the servers. */
static const char *setting(struct zk_examination *examination, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
static const char *setting(struct zk_examination *examination, const char *format, ...)
{
        char line[256];
        va_list args;

        va_start(args, format);
        vsnprintf(line, sizeof(line), format, args);
        va_end(args);
        snprintf(examination->mend, sizeof(examination->mend),
                 "%s in zoo.cfg of each server, then restart them in turn", line);
        return examination->mend;
}

static const char *without_place(const char *where, const struct pawl_why *why)
{
        size_t length = strlen(where);

        if (strncmp(why->text, where, length) == 0 && strncmp(why->text + length, ": ", 2) == 0)
                return why->text + length + 2;
        return *why->text ? why->text : "it does not answer";
}

/* ---- reading answers ------------------------------------------------------------------------------------------- */

/* What stands behind the key at the beginning of a line, or NULL. */
static const char *find(const struct zk_said *said, enum zk_word word, const char *key)
{
        const char *text = said->answers[word];
        size_t length = strlen(key);

        while (text && *text) {
                if (strncmp(text, key, length) == 0)
                        return text + length;
                text = strchr(text, '\n');
                text = text ? text + 1 : NULL;
        }
        return NULL;
}

static int64_t number(const struct zk_said *said, enum zk_word word, const char *key)
{
        const char *text = find(said, word, key);
        char *end;
        long long value = text ? strtoll(text, &end, 10) : -1;

        return text && end != text ? value : -1;
}

static bool mode_is(const struct zk_said *said, const char *mode)
{
        const char *text = find(said, WORD_SRVR, "Mode: ");

        return text && strncmp(text, mode, strlen(mode)) == 0;
}

/* "srvr is not executed because it is not in the whitelist." */
static bool is_refused(const struct zk_said *said, enum zk_word word)
{
        return !said->answers[word] || strstr(said->answers[word], "is not in the whitelist") != NULL;
}

/* ---- each server ----------------------------------------------------------------------------------------------- */

static void judge_version(struct zk_examination *examination, const struct zk_said *said)
{
        const char *text = find(said, WORD_SRVR, "Zookeeper version: ");
        int major = 0, minor = 0, patch = 0;

        if (!text || sscanf(text, "%d.%d.%d", &major, &minor, &patch) < 2)
                return;
        if (major < 3 || (major == 3 && minor < 5))
                tell(examination, said, PAWL_DANGER, "update it to ZooKeeper 3.8 or later",
                     "it is ZooKeeper %d.%d.%d, which does not know all requests of ours: locks need 3.5", major, minor,
                     patch);
        else if (major == 3 && minor < 8)
                tell(examination, said, PAWL_ADVICE, "update it to ZooKeeper 3.8 or later",
                     "it is ZooKeeper %d.%d.%d, which nobody mends any more%s", major, minor, patch,
                     minor < 6 ? "; a lock whose node is deleted by hand is missed only when it is given back" : "");
        else
                tell(examination, said, PAWL_FINE, "", "it is ZooKeeper %d.%d.%d", major, minor, patch);
}

static void judge_mode(struct zk_examination *examination, const struct zk_said *said)
{
        if (said->answers[WORD_SRVR] && strstr(said->answers[WORD_SRVR], "not currently serving requests"))
                tell(examination, said, PAWL_DANGER, "start the other servers: a majority of them must run",
                     "it has no quorum and serves nobody");
        else if (mode_is(said, "read-only"))
                tell(examination, said, PAWL_DANGER, "start the other servers: a majority of them must run",
                     "it has no quorum and can only be read");
        else if (mode_is(said, "observer"))
                tell(examination, said, PAWL_FINE, "", "it is an observer: it serves locks, but does not vote");
        else if (mode_is(said, "leader"))
                tell(examination, said, PAWL_FINE, "", "it leads");
        else if (mode_is(said, "follower"))
                tell(examination, said, PAWL_FINE, "", "it follows the leader");
}

static void judge_load(struct zk_examination *examination, const struct zk_said *said)
{
        int64_t most = number(said, WORD_CONF, "maxClientCnxns=");
        int64_t open = number(said, WORD_MNTR, "zk_open_file_descriptor_count\t");
        int64_t files = number(said, WORD_MNTR, "zk_max_file_descriptor_count\t");
        int64_t waiting = number(said, WORD_SRVR, "Outstanding: ");
        int64_t rejected = number(said, WORD_MNTR, "zk_large_requests_rejected\t");

        if (most > 0 && most <= 60)
                tell(examination, said, PAWL_ADVICE, setting(examination, "maxClientCnxns=1000"),
                     "it takes %" PRId64 " connections from one address (maxClientCnxns): a client has one for each "
                     "ttl in use, and one for each lease that outlives its process",
                     most);
        if (open > 0 && files > 0 && open > files / 10 * 9)
                tell(examination, said, PAWL_WARNING, "raise LimitNOFILE of its service",
                     "%" PRId64 " of its %" PRId64 " descriptors are in use", open, files);
        if (waiting > 1000)
                tell(examination, said, PAWL_WARNING, "",
                     "%" PRId64 " requests wait there: it is overloaded, or its disk is slow", waiting);
        if (rejected > 0)
                tell(examination, said, PAWL_ADVICE,
                     "-Dzookeeper.largeRequestMaxBytes=-1 in its JVMFLAGS, or more memory",
                     "it has refused %" PRId64 " large requests", rejected);
}

static void judge_server(struct zk_examination *examination, const struct zk_said *said)
{
        if (!said->answers[WORD_SRVR]) {
                tell(examination, said, examination->connected ? PAWL_WARNING : PAWL_DANGER, "",
                     "it cannot be reached: %s",
                     said->reached ? "it takes the connection, and does not answer"
                                   : without_place(said->where, &said->why));
                return;
        }
        if (is_refused(said, WORD_SRVR)) {
                tell(examination, said, PAWL_ADVICE, setting(examination, "4lw.commands.whitelist=srvr,conf,mntr"),
                     "it does not say what it is: srvr is not in its 4lw.commands.whitelist");
                return;
        }
        tell(examination, said, PAWL_FINE, "", "it answers, in %.2f ms", (double)said->answered_in / 1e6);
        judge_version(examination, said);
        judge_mode(examination, said);
        judge_load(examination, said);
}

/* ---- the ensemble ---------------------------------------------------------------------------------------------- */

/* One whose settings are known, or NULL. */
static const struct zk_said *who_tells(const struct zk_examination *examination, enum zk_word word)
{
        for (size_t i = 0; i < examination->zk->server_count; i++)
                if (examination->said[i].reached && !is_refused(&examination->said[i], word))
                        return &examination->said[i];
        return NULL;
}

static int count_voters(const struct zk_said *said)
{
        int count = 0;

        for (const char *at = said->answers[WORD_CONF]; at && *at;) {
                const char *end = strchr(at, '\n');
                size_t length = end ? (size_t)(end - at) : strlen(at);

                if (strncmp(at, "server.", 7) == 0 && !memmem(at, length, ":observer", 9))
                        count++;
                at = end ? end + 1 : NULL;
        }
        return count;
}

static void judge_ensemble(struct zk_examination *examination)
{
        const struct zk_said *said = who_tells(examination, WORD_SRVR), *teller = who_tells(examination, WORD_CONF);
        int voters = teller ? count_voters(teller) : 0;

        if (said && mode_is(said, "standalone"))
                tell(examination, NULL, PAWL_ADVICE, "make it an ensemble of three",
                     "it is one server: while that is down there are no locks, and with its disk they are lost");
        else if (voters == 1 || voters == 2)
                tell(examination, NULL, PAWL_WARNING, "make it an ensemble of three",
                     "%d server(s) vote: none may fail", voters);
        else if (voters > 0 && voters % 2 == 0)
                tell(examination, NULL, PAWL_ADVICE, "add one, or make one an observer",
                     "%d servers vote, which bear no more failures than %d", voters, voters - 1);
        else if (voters > 0)
                tell(examination, NULL, PAWL_FINE, "", "%d servers vote: %d may fail", voters, (voters - 1) / 2);
        if (voters > 1 && examination->zk->server_count == 1)
                tell(examination, NULL, PAWL_WARNING, "put all of them into the URL: zk://h1,h2,h3/path",
                     "the URL has one of %d servers: when that fails, clients do not find the others", voters);
}

/* What a session proves depends on the tick: zk_proof.h. */
static void judge_tick(struct zk_examination *examination, const struct zk_said *said, int64_t tick, int64_t least)
{
        int64_t told = examination->zk->tick / MS;

        if (told > 0 && told < tick)
                tell(examination, said, PAWL_WARNING, "",
                     "its tickTime is %" PRId64 " ms, and the URL says tick=%" PRId64
                     "ms: two clients could hold one lock; say tick=%" PRId64 "ms",
                     tick, told, tick);
        else if (told == 0 && least > 0 && least < 2 * tick)
                tell(examination, said, PAWL_WARNING, "",
                     "minSessionTimeout=%" PRId64 " is less than two ticks of %" PRId64
                     " ms, so clients cannot tell how often servers report sessions: say tick=%" PRId64
                     "ms in the URL of all clients",
                     least, tick, tick);
}

static void judge_bounds(struct zk_examination *examination)
{
        const struct zk_said *said = who_tells(examination, WORD_CONF);
        const struct zk *zk = examination->zk;
        int64_t least = said ? number(said, WORD_CONF, "minSessionTimeout=") : -1;
        int64_t most = said ? number(said, WORD_CONF, "maxSessionTimeout=") : -1;
        int64_t tick = said ? number(said, WORD_CONF, "tickTime=") : -1, slack = zk->slack / MS;

        if (!said) {
                if (examination->connected && examination->granted < examination->wanted)
                        tell(examination, NULL, PAWL_WARNING, setting(examination, "maxSessionTimeout=40000"),
                             "sessions are %" PRId64 " ms at most: longer leases are refused",
                             examination->granted / MS);
                if (who_tells(examination, WORD_SRVR))
                        tell(examination, NULL, PAWL_ADVICE,
                             setting(examination, "4lw.commands.whitelist=srvr,conf,mntr"),
                             "its session bounds and members were not looked at: conf is not in its "
                             "4lw.commands.whitelist");
                return;
        }
        if (most > 0 && most < DEFAULT_TTL / MS + slack)
                tell(examination, said, PAWL_WARNING, setting(examination, "maxSessionTimeout=40000"),
                     "leases are %" PRId64 " ms at most (maxSessionTimeout, less slack=%" PRId64
                     "ms); the default of 10 s is refused",
                     most - slack, slack);
        else
                tell(examination, said, PAWL_FINE, "", "leases of up to %" PRId64 " ms are possible", most - slack);
        if (least > 10000)
                tell(examination, said, PAWL_ADVICE, setting(examination, "minSessionTimeout=4000"),
                     "who dies is noticed after %" PRId64 " ms at the earliest (minSessionTimeout)", least);
        judge_tick(examination, said, tick, least);
}

/* ---- the namespace --------------------------------------------------------------------------------------------- */

static const char *set_acl(struct zk_examination *examination)
{
        const struct zk *zk = examination->zk;
        char server[300], path[ZK_CHROOT_MAX + 64];

        quote_for_shell(examination->said[0].where, server, sizeof(server));
        quote_for_shell(*zk->chroot ? zk->chroot : "/", path, sizeof(path));
        snprintf(examination->mend, sizeof(examination->mend),
                 "printf 'addauth digest USER:PASSWORD\\nsetAcl -R %%s auth::cdrwa\\n' %s | zkCli.sh "
                 "-server %s",
                 path, server);
        return examination->mend;
}

static void judge_path(struct zk_examination *examination)
{
        const struct zk *zk = examination->zk;

        if (!*zk->chroot)
                tell(examination, NULL, PAWL_ADVICE, "put a path into the URL: zk://HOSTS/locks",
                     "locks are children of the root, beside everything else that is there");
        if (examination->chroot == ZK_NO_NODE && zk->make_chroot && !strchr(zk->chroot + 1, '/'))
                tell(examination, NULL, PAWL_FINE, "", "%s is not there yet: the first lock makes it", zk->chroot);
        else if (examination->chroot == ZK_NO_NODE)
                tell(examination, NULL, PAWL_DANGER, pawl_init_command(examination, ""), "%s is not there", zk->chroot);
        else if (examination->number == ZK_OK && examination->restores > 0)
                tell(examination, NULL, PAWL_FINE, "", "tokens go on above restore %" PRIu64, examination->restores);
}

/* The servers show neither how many empty containers they remove nor how many there are, but every name has a node here. */
static void judge_names(struct zk_examination *examination)
{
        const char *path = *examination->zk->chroot ? examination->zk->chroot : "/";

        if (examination->names <= NAMES_MANY)
                return;
        snprintf(examination->mend, sizeof(examination->mend),
                 "if most of them are unused: -Dznode.container.maxPerMinute=100000 in the SERVER_JVMFLAGS of each "
                 "server, "
                 "then restart them in turn");
        tell(examination, NULL, PAWL_ADVICE, examination->mend,
             "%" PRId32
             " names stand below %s: the servers remove the nodes of unused ones, at most 10,000 a minute by "
             "default",
             examination->names, path);
}

static void judge_rights(struct zk_examination *examination)
{
        static const char *const needs[PROBES] = {
                [PROBE_LINE] = "make a line",  [PROBE_CLAIM] = "stand in it", [PROBE_READ] = "read who does",
                [PROBE_WRITE] = "write there", [PROBE_LIST] = "list it",      [PROBE_LEAVE] = "leave it",
                [PROBE_REMOVE] = "remove it",
        };
        const char *sentence;

        if (!examination->probed)
                return;
        for (size_t i = 0; i < PROBES; i++) {
                int error = examination->probes[i];

                if (error == ZK_OK || error == ZK_NODE_EXISTS)
                        continue;
                if (i == PROBE_LINE && error == ZK_UNIMPLEMENTED) { /* judge_version says it */
                        return;
                }
                zk_error(error, &sentence);
                tell(examination, NULL, PAWL_DANGER, error == ZK_NO_AUTH ? set_acl(examination) : "",
                     "we may not %s below %s: %s", needs[i], *examination->zk->chroot ? examination->zk->chroot : "/",
                     sentence);
                return;
        }
        tell(examination, NULL, PAWL_FINE, "", "we may do what locks need below %s",
             *examination->zk->chroot ? examination->zk->chroot : "/");
        if (examination->written_in > 100 * MS)
                tell(examination, NULL, PAWL_ADVICE, setting(examination, "dataLogDir= on a disk of its own"),
                     "a write takes %.0f ms: its disk is slow or busy", (double)examination->written_in / 1e6);
        else
                tell(examination, NULL, PAWL_FINE, "", "a write takes %.2f ms", (double)examination->written_in / 1e6);
}

static void judge_access(struct zk_examination *examination)
{
        const struct zk *zk = examination->zk;
        const char *path = *zk->chroot ? zk->chroot : "/";

        if (!zk->auth)
                tell(examination, NULL, is_local(zk) ? PAWL_ADVICE : PAWL_WARNING,
                     "put a user into the URL, and the password in a file: zk://USER@HOST/PATH?passfile=FILE",
                     "whoever reaches it may take, give back and break locks: nodes are made for everybody "
                     "(world:anyone)");
        else if (examination->open)
                tell(examination, NULL, is_local(zk) ? PAWL_ADVICE : PAWL_WARNING, set_acl(examination),
                     "everybody may write to %s (world:anyone), so also delete what is in it", path);
        else if (examination->chroot == ZK_OK && examination->acl == ZK_OK)
                tell(examination, NULL, PAWL_FINE, "", "only its users may write to %s", path);
        if (!zk->tls && !is_local(zk))
                tell(examination, NULL, PAWL_WARNING, "use zks:// and servers with secureClientPort",
                     "everything goes over the network in clear: who listens can take locks%s",
                     zk->auth ? ", and has the password" : "");
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

void zk_judge(struct zk_examination *examination)
{
        const struct zk *zk = examination->zk;

        for (size_t i = 0; i < zk->server_count; i++)
                judge_server(examination, &examination->said[i]);
        judge_ensemble(examination);
        judge_bounds(examination);
        if (!examination->connected) {
                tell(examination, NULL, PAWL_DANGER,
                     examination->why.code == PAWL_DENIED
                             ? "put user and password in the URL: zk://USER:PASSWORD@HOST/PATH"
                             : "",
                     "no session: %s", without_place(zk->where, &examination->why));
                return;
        }
        judge_path(examination);
        judge_names(examination);
        judge_rights(examination);
        judge_access(examination);
}
