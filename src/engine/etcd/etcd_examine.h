/* etcd_examine.h - between etcd_examine.c, which asks the cluster about itself, and etcd_judge.c, which knows what the
 * answers mean for locks. */
#ifndef PAWL_ETCD_EXAMINE_H
#define PAWL_ETCD_EXAMINE_H

#include "etcd.h"

/* What was learned. A why with a code: it could not be. */
struct examination {
        struct etcd_ask ask;
        struct list listed; /* in etcd->examinations */
        struct etcd *etcd;
        struct inquiry *inquiry;
        size_t step;
        char version[32];
        int64_t revision, db_size, db_used, db_quota; /* quota 0: not told */
        uint64_t member, leader;
        bool learner;
        struct pawl_why no_status;
        size_t members, learners;
        struct pawl_why no_members;
        bool no_space, corrupt;
        struct pawl_why no_alarms;
        bool compacted; /* what was long ago is not kept for ever */
        struct pawl_why no_compaction;
        int64_t lease; /* of the probe */
        struct pawl_why no_probe;
        uint64_t base; /* of init: what is written */
        int64_t base_revision;
        int64_t answered_in; /* ns, the fastest of all; -1: none */
        char mend[4096];     /* the command being told */
};

/* So many revisions back nothing needs to be kept. */
enum { KEPT_REVISIONS = 100000 };

/* Tells what all of it means. */
void judge_all(struct examination *examination);
/* Tells that it cannot be asked. */
void judge_absence(struct examination *examination, const struct pawl_why *why);

#endif
