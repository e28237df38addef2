/* scenes.c - the list of all scenes: a new one is a file scene_X.c and its name here and in meson.build. */
#include "stage.h"

extern const struct scene scene_plain, scene_naive, scene_once, scene_election, scene_limit, scene_rw, scene_barrier,
        scene_flight, scene_polite, scene_txn_ordered, scene_txn_back_off, scene_txn_wait_die, scene_txn_wound_wait;

const struct scene *const scenes[] = {&scene_plain,          &scene_naive,
                                      &scene_once,           &scene_election,
                                      &scene_limit,          &scene_rw,
                                      &scene_barrier,        &scene_flight,
                                      &scene_polite,         &scene_txn_ordered,
                                      &scene_txn_back_off,   &scene_txn_wait_die,
                                      &scene_txn_wound_wait, NULL};
