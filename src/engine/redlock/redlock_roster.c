/* redlock_roster.c - which servers have a vote, as a value and as the text that each of them keeps. No I/O here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock.h"

static uint64_t digest(uint64_t hash, const char *text)
{
        for (; *text; text++)
                hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
        return hash ^ hash >> 29;
}

static bool is_id(const char *text)
{
        return strlen(text) == ID_LENGTH && strspn(text, "0123456789abcdef") == ID_LENGTH;
}

void roster_sit(struct seat *seat, uint32_t turn, const char *id, const char *where)
{
        seat->turn = turn;
        snprintf(seat->id, sizeof(seat->id), "%s", id);
        snprintf(seat->where, sizeof(seat->where), "%s", where);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static bool read_seat(struct seat *seat, const char *word)
{
        char *end;
        unsigned long turn = strtoul(word, &end, 10);
        char id[ID_LENGTH + 1];

        if (end - word != 8 || *end != '-' || strlen(end) < ID_LENGTH + 3 || end[1 + ID_LENGTH] != '-')
                return false;
        snprintf(id, sizeof(id), "%.*s", ID_LENGTH, end + 1);
        if (!is_id(id) || strlen(end + ID_LENGTH + 2) > WHERE_MAX)
                return false;
        roster_sit(seat, (uint32_t)turn, id, end + ID_LENGTH + 2);
        return true;
}

bool roster_read(struct roster *roster, char own[ID_LENGTH + 1], const char *text)
{
        char copy[ROSTER_TEXT_MAX];
        char *rest, *word;

        roster->count = 0;
        if (strlen(text) >= sizeof(copy))
                return false;
        strcpy(copy, text);
        word = strtok_r(copy, " ", &rest);
        if (!word || !is_id(word))
                return false;
        strcpy(own, word);
        word = strtok_r(NULL, " ", &rest);
        if (!word || !is_id(word))
                return false;
        strcpy(roster->set, word);
        while ((word = strtok_r(NULL, " ", &rest))) {
                if (roster->count == NODES_MOST || !read_seat(&roster->seats[roster->count], word)) {
                        roster->count = 0;
                        return false;
                }
                roster->count++;
        }
        return roster->count > 0;
}

void roster_write(const struct roster *roster, const char *own, char text[ROSTER_TEXT_MAX])
{
        size_t at = (size_t)snprintf(text, ROSTER_TEXT_MAX, "%s %s", own, roster->set);

        for (uint32_t i = 0; i < roster->count; i++) {
                const struct seat *seat = &roster->seats[i];

                at += (size_t)snprintf(text + at, ROSTER_TEXT_MAX - at, " %08u-%s-%s", seat->turn % 100000000, seat->id,
                                       seat->where);
        }
}

uint64_t roster_tag(const struct roster *roster)
{
        char text[ROSTER_TEXT_MAX];
        uint64_t tag;

        roster_write(roster, "", text);
        tag = digest(UINT64_C(14695981039346656037), text);
        return tag ? tag : 1;
}

void roster_list(const struct roster *roster, char *text, size_t size)
{
        size_t at = 0;

        text[0] = '\0';
        for (uint32_t i = 0; i < roster->count && at < size; i++)
                at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", roster->seats[i].where);
}

/* ---- as a value -------------------------------------------------------------------------------------------------- */

static int compare_seats(const struct seat *one, const struct seat *two)
{
        int order;

        if (one->turn != two->turn)
                return one->turn < two->turn ? -1 : 1;
        order = strcmp(one->id, two->id);
        return order ? order : strcmp(one->where, two->where);
}

void roster_join(struct roster *roster, const struct roster *other)
{
        if (roster->count != other->count || strcmp(roster->set, other->set) != 0)
                return;
        for (uint32_t i = 0; i < roster->count; i++)
                if (compare_seats(&roster->seats[i], &other->seats[i]) < 0)
                        roster->seats[i] = other->seats[i];
}

int roster_seat(const struct roster *roster, const char *id)
{
        for (uint32_t i = 0; i < roster->count; i++)
                if (strcmp(roster->seats[i].id, id) == 0)
                        return (int)i;
        return -1;
}

bool roster_is_at(const struct seat *seat, const char *where)
{
        return strncmp(seat->where, where, WHERE_MAX) == 0;
}

static int by_id(const void *one, const void *two)
{
        return strcmp(((const struct seat *)one)->id, ((const struct seat *)two)->id);
}

void roster_first(struct roster *roster)
{
        uint64_t hash = UINT64_C(14695981039346656037);

        qsort(roster->seats, roster->count, sizeof(roster->seats[0]), by_id);
        for (uint32_t i = 0; i < roster->count; i++)
                hash = digest(hash, roster->seats[i].id);
        snprintf(roster->set, sizeof(roster->set), "%016llx", (unsigned long long)hash);
}
