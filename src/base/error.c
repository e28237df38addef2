/* error.c - codes as text. The table is in pawl.h. */
#include "pawl.h"

#define ERROR_TEXT(name, number, text)                                                                                 \
        case PAWL_##name:                                                                                              \
                return text;
#define ERROR_NAME(name, number, text)                                                                                 \
        case PAWL_##name:                                                                                              \
                return "PAWL_" #name;

const char *pawl_strerror(int code)
{
        switch (code) {
                PAWL_ERRORS(ERROR_TEXT)
        default:
                return "unknown error";
        }
}

const char *pawl_error_name(int code)
{
        switch (code) {
                PAWL_ERRORS(ERROR_NAME)
        default:
                return "PAWL_UNKNOWN";
        }
}

const char *pawl_reason_text(int reason)
{
        switch (reason) {
        case PAWL_REASON_NONE:
                return "not lost";
        case PAWL_REASON_EXPIRED:
                return "the lease ran out";
        case PAWL_REASON_TAKEN:
                return "the store says it is no longer ours";
        case PAWL_REASON_BROKEN:
                return "broken by an administrator";
        case PAWL_REASON_SESSION:
                return "the session with the store ended";
        case PAWL_REASON_CLOSED:
                return "the client was closed";
        default:
                return "unknown reason";
        }
}

const char *pawl_how_text(int how)
{
        switch (how) {
        case PAWL_HOW_RELEASED:
                return "released";
        case PAWL_HOW_EXPIRED:
                return "expired";
        case PAWL_HOW_DIED:
                return "died";
        case PAWL_HOW_BROKEN:
                return "broken";
        default:
                return "unknown";
        }
}
