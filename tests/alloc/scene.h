/* scene.h - one scenario that touches most of the API (scene.c), another one for the recipes (scene_recipes.c), and
 * what must be so after one of them was played while something failed (after.c). */
#ifndef SCENE_H
#define SCENE_H

#include <stdbool.h>
#include <stdint.h>

struct baseline {
        struct peer *witness; /* holds a lock all the while */
        int descriptors;
        long outstanding;
        int looks, replay; /* the scene is played after each so-many-th look; 1 */
};

/* PAWL_OK, or the first error that was told. Everything is closed again. */
int play(const char *place, uint32_t drive);
/* The part of the scenario that was played last: for notes. */
const char *played(void);
/* Plays it once, with nothing failing. */
struct baseline begin(const char *place, uint32_t drive);
/* Nothing is lost: no memory, no descriptor, not the witness's lock; and the scenario can be played. */
bool is_as_before(struct baseline *baseline, const char *place, uint32_t drive);
int count_descriptors(void);
/* What a failed system call may be called. */
bool is_clean(int code);

#endif
