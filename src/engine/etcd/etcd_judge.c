/* etcd_judge.c - what the answers of etcd_examine.c mean for locks, and the command that mends what is wrong. Each judge_X
 * looks at one thing and tells at least whether it is fine, if that can be known. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/quote.h"
#include "etcd_examine.h"

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static void tell(const struct examination *examination, enum pawl_severity severity, const char *mend,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
static void tell(const struct examination *examination, enum pawl_severity severity, const char *mend,
                 const char *format, ...)
{
        char what[1024];
        struct pawl_finding finding = {
                .severity = severity, .where = examination->etcd->where, .what = what, .mend = mend};
        va_list args;

        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        examination->inquiry->finding(examination->inquiry, &finding);
}

/* One of the endpoints is a way over the network. */
static bool is_local(const struct etcd *etcd)
{
        for (size_t i = 0; i < etcd->channel.endpoint_count; i++) {
                const char *host = etcd->channel.endpoints[i].host;

                if (strcmp(host, "localhost") != 0 && strncmp(host, "127.", 4) != 0 && strcmp(host, "::1") != 0)
                        return false;
        }
        return true;
}

char *examine_cli_options(const struct net_tls_options *options)
{
        const struct {
                const char *option, *value;
        } words[] = {
                {"--cacert", options->ca_file},
                {"--cert", options->cert_file},
                {"--key", options->cert_file && !options->key_file ? options->cert_file : options->key_file},
                {"--insecure-skip-tls-verify", options->insecure ? "true" : NULL},
        };
        char text[4096] = "", word[1024];
        size_t at = 0;

        for (size_t i = 0; i < sizeof(words) / sizeof(*words) && at < sizeof(text); i++) {
                if (!words[i].value)
                        continue;
                quote_for_shell(words[i].value, word, sizeof(word));
                at += (size_t)snprintf(text + at, sizeof(text) - at, " %s=%s", words[i].option, word);
        }
        return strdup(text);
}

/* etcdctl as it reaches the cluster. For an administrator, not for our own user: who that is, it finds in ETCDCTL_USER. */
static size_t put_etcdctl(const struct examination *examination, char *room, size_t size)
{
        const struct etcd *etcd = examination->etcd;
        size_t at = (size_t)snprintf(room, size, "etcdctl --endpoints=");

        for (size_t i = 0; i < etcd->channel.endpoint_count && at < size; i++)
                at += (size_t)snprintf(room + at, size - at, "%s%s%s", i ? "," : "", etcd->tls ? "https://" : "",
                                       etcd->channel.endpoints[i].where);
        if (at < size && etcd->cli_options)
                at += (size_t)snprintf(room + at, size - at, "%s", etcd->cli_options);
        return at;
}

/* Commands of etcdctl, one after the other: each one an argument, the last one NULL. */
static const char *commands(struct examination *examination, const char *first, ...)
{
        char *mend = examination->mend;
        size_t size = sizeof(examination->mend), at = 0;
        const char *next = first;
        va_list args;

        va_start(args, first);
        for (; next && at < size; next = va_arg(args, const char *)) {
                at += (size_t)snprintf(mend + at, size - at, "%s", at ? "; " : "");
                if (at < size)
                        at += put_etcdctl(examination, mend + at, size - at);
                if (at < size)
                        at += (size_t)snprintf(mend + at, size - at, " %s", next);
        }
        va_end(args);
        return at < size ? mend : "";
}

/* ---- what it is -------------------------------------------------------------------------------------------------- */

struct version {
        int major, minor, patch;
};

static bool read_version(const char *text, struct version *version)
{
        version->patch = 0;
        return sscanf(text, "%d.%d.%d", &version->major, &version->minor, &version->patch) >= 2;
}

/* Of its own line (3.4, 3.5) before the one in which it was mended; those after 3.5 have all of it. */
static bool is_before(const struct version *version, int patch_34, int patch_35)
{
        if (version->major != 3)
                return version->major < 3;
        if (version->minor == 4)
                return version->patch < patch_34;
        return version->minor < 4 || (version->minor == 5 && version->patch < patch_35);
}

static void judge_version(struct examination *examination)
{
        const char *text = examination->version;
        bool many = examination->members > 1;
        struct version version;

        if (!read_version(text, &version))
                return;
        if (version.major == 3 && version.minor == 5 && version.patch < 3)
                tell(examination, PAWL_DANGER, "upgrade to the latest etcd 3.5",
                     "etcd %s may forget on one member what it has confirmed, after a crash (etcd 3.5.0 to 3.5.2)",
                     text);
        else if (many && is_before(&version, 31, 13))
                tell(examination, PAWL_WARNING,
                     version.minor == 4 ? "upgrade to etcd 3.4.31 or later" : "upgrade to etcd 3.5.13 or later",
                     "a leader of etcd %s that hangs, and is replaced meanwhile, may end all leases that are alive "
                     "(etcd#15247): their locks are lost, and for a moment the next holds one that the first believes "
                     "in; "
                     "only tokens protect",
                     text);
        else if (!many && is_before(&version, 21, 5))
                tell(examination, PAWL_WARNING,
                     version.minor == 4 ? "upgrade to etcd 3.4.21 or later" : "upgrade to etcd 3.5.5 or later",
                     "etcd %s confirms before it has written if it is the only member: a crash may forget locks "
                     "(etcd#14370)",
                     text);
        else
                tell(examination, PAWL_FINE, "", "etcd %s has no known defect that concerns locks", text);
        if (examination->etcd->tls && is_before(&version, 25, 8))
                tell(examination, PAWL_ADVICE,
                     version.minor == 4 ? "upgrade to etcd 3.4.25 or later" : "upgrade to etcd 3.5.8 or later",
                     "with TLS, many reads on one connection of etcd %s hold back news: waiters may be served late "
                     "(etcd#15402)",
                     text);
}

static void judge_members(struct examination *examination)
{
        size_t members = examination->members;
        char promote[64];

        if (examination->learner) {
                snprintf(promote, sizeof(promote), "member promote %" PRIx64, examination->member);
                tell(examination, PAWL_DANGER, commands(examination, promote, (char *)NULL),
                     "the member that answers is a learner: it serves no locks");
        }
        if (members == 0)
                return;
        if (members == 1)
                tell(examination, PAWL_ADVICE, "add two members: etcdctl member add",
                     "it is one server: while it is down no lock can be taken or renewed");
        else if (members % 2 == 0)
                tell(examination, PAWL_ADVICE, "add or remove one member: etcdctl member add, etcdctl member remove",
                     "%zu members bear no more failures than %zu: an odd number is better", members, members - 1);
        else
                tell(examination, PAWL_FINE, "", "%zu members: it bears the failure of %zu", members,
                     (members - 1) / 2);
        if (examination->learners > 0)
                tell(examination, PAWL_ADVICE, "", "%zu more are learners, which do not count", examination->learners);
        if (examination->etcd->channel.endpoint_count < members)
                tell(examination, PAWL_ADVICE, "name all members in the URL: etcd://HOST1,HOST2,HOST3",
                     "the URL names %zu of %zu members: if those fail, the others are not found",
                     examination->etcd->channel.endpoint_count, members);
}

static void judge_leader(struct examination *examination)
{
        if (examination->no_status.code)
                return;
        if (examination->leader == 0)
                tell(examination, PAWL_DANGER, commands(examination, "endpoint status --cluster", (char *)NULL),
                     "it has no leader: more than half of the members must see each other");
        else
                tell(examination, PAWL_FINE, "", "it has a leader");
}

/* ---- room -------------------------------------------------------------------------------------------------------- */

#define DEFAULT_QUOTA (INT64_C(2) << 30)

static const char *make_room(struct examination *examination, bool disarm)
{
        char compact[48];

        snprintf(compact, sizeof(compact), "compact %" PRId64, examination->revision);
        return commands(examination, compact, "defrag", disarm ? "alarm disarm" : NULL, (char *)NULL);
}

static void judge_room(struct examination *examination)
{
        int64_t quota = examination->db_quota > 0 ? examination->db_quota : DEFAULT_QUOTA;

        if (examination->no_space)
                tell(examination, PAWL_DANGER, make_room(examination, true),
                     "its database is full (alarm NOSPACE): no lock can be taken until there is room, and the alarm "
                     "is taken back");
        else if (examination->db_size > quota / 10 * 8)
                tell(examination, PAWL_WARNING, make_room(examination, false),
                     "its database is nearly full: %" PRId64 " of %" PRId64 " MB%s", examination->db_size >> 20,
                     quota >> 20, examination->db_quota > 0 ? "" : " (if --quota-backend-bytes was not set)");
        else if (!examination->no_status.code)
                tell(examination, PAWL_FINE, "", "its database has room: %" PRId64 " of %" PRId64 " MB",
                     examination->db_size >> 20, quota >> 20);
        if (examination->corrupt)
                tell(examination, PAWL_DANGER, commands(examination, "alarm list", (char *)NULL),
                     "a member's data differ from the others' (alarm CORRUPT): remove that member and add it again");
}

static void judge_compaction(struct examination *examination)
{
        char compact[48];

        if (examination->no_compaction.code || examination->no_status.code)
                return;
        if (examination->compacted || examination->revision <= KEPT_REVISIONS) {
                tell(examination, PAWL_FINE, "", "it keeps no more than %d old revisions", KEPT_REVISIONS);
                return;
        }
        snprintf(compact, sizeof(compact), "compact %" PRId64, examination->revision);
        tell(examination, PAWL_WARNING, commands(examination, compact, (char *)NULL),
             "it has kept more than %d old revisions: every lock adds two, until its database is full; start it with "
             "--auto-compaction-retention=1h",
             KEPT_REVISIONS);
}

/* ---- who may do what --------------------------------------------------------------------------------------------- */

static const char *allow(struct examination *examination)
{
        const struct etcd *etcd = examination->etcd;
        char prefix[512], user[256], permission[600], grant[300];

        quote_for_shell(etcd->prefix, prefix, sizeof(prefix));
        quote_for_shell(etcd->user ? etcd->user : "USER", user, sizeof(user));
        snprintf(permission, sizeof(permission), "role grant-permission pawl readwrite %s --prefix=true", prefix);
        snprintf(grant, sizeof(grant), "user grant-role %s pawl", user);
        return commands(examination, "role add pawl", permission, grant, (char *)NULL);
}

static void judge_rights(struct examination *examination)
{
        const struct pawl_why *why = &examination->no_probe;
        const struct etcd *etcd = examination->etcd;

        if (!why->code)
                tell(examination, PAWL_FINE, "", "%s%s may write what locks need (%s*)",
                     etcd->user ? "user " : "whoever comes", etcd->user ? etcd->user : "", etcd->prefix);
        else if (why->code == PAWL_DENIED)
                tell(examination, PAWL_DANGER, allow(examination), "it refuses what locks need below %s: %s",
                     etcd->prefix, why->text);
        else if (!examination->no_space)
                tell(examination, PAWL_DANGER, "", "what locks need cannot be written: %s", why->text);
}

static void judge_access(struct examination *examination)
{
        const struct etcd *etcd = examination->etcd;

        if (!etcd->user && !etcd->has_certificate)
                tell(examination, is_local(etcd) ? PAWL_ADVICE : PAWL_WARNING,
                     commands(examination, "user add root:SECRET", "user grant-role root root", "auth enable",
                              (char *)NULL),
                     "it lets in whoever reaches it: enable authentication, and put a user in the URL");
        else if (etcd->user && !etcd->channel.grpc.token)
                tell(examination, PAWL_ADVICE, commands(examination, "auth enable", (char *)NULL),
                     "the URL names a user, but authentication is not enabled: it lets in whoever reaches it");
        else
                tell(examination, PAWL_FINE, "", "it knows who we are");
        if (!etcd->tls && !is_local(etcd))
                tell(examination, PAWL_WARNING, "use etcds:// and servers with --cert-file and --key-file",
                     "everything goes over the network in clear: who listens can take locks and the password");
}

static void judge_base(struct examination *examination)
{
        tell(examination, PAWL_FINE, "",
             "tokens begin with number %" PRIu64 "; after a snapshot was restored run `pawl init --yes`",
             examination->etcd->base);
}

static void judge_sight(struct examination *examination)
{
        const struct pawl_why *whys[] = {&examination->no_status, &examination->no_members, &examination->no_alarms,
                                         &examination->no_compaction};

        for (size_t i = 0; i < sizeof(whys) / sizeof(*whys); i++) {
                if (!whys[i]->code)
                        continue;
                tell(examination, PAWL_ADVICE, "", "not all was looked at: %s", whys[i]->text);
                return;
        }
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

void judge_all(struct examination *examination)
{
        tell(examination, PAWL_FINE, "", "it answers, in %.2f ms at best", (double)examination->answered_in / 1e6);
        judge_version(examination);
        judge_leader(examination);
        judge_members(examination);
        judge_rights(examination);
        judge_room(examination);
        judge_compaction(examination);
        judge_access(examination);
        judge_base(examination);
        judge_sight(examination);
}

void judge_absence(struct examination *examination, const struct pawl_why *why)
{
        const char *mend = "";

        if (why->code == PAWL_DENIED && examination->etcd->channel.grpc.token) /* it knows who we are */
                mend = allow(examination);
        else if (why->code == PAWL_DENIED && !examination->etcd->user)
                mend = "put user and password in the URL, or the password in a file: etcd://USER@HOST?passfile=FILE";
        else if (why->code == PAWL_CORRUPT)
                mend = "pawl init --yes";
        tell(examination, PAWL_DANGER, mend, "%s", why->text);
}
