/* scenes.c - the list of all scenes: a new one is a file scene_X.c and its name here and in meson.build. */
#include "stage.h"

extern const struct scene scene_plain, scene_naive;

const struct scene *const scenes[] = {&scene_plain, &scene_naive, NULL};
