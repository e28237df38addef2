/* notify.c - how a service manager is notified that we are ready, and of what we do: datagrams to the socket that it
 * names in NOTIFY_SOCKET (sd_notify(3)). Without that variable nothing happens here. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "run.h"

static struct {
        struct sockaddr_un address;
        socklen_t size; /* 0: nobody wants to know */
        bool passed;    /* COMMAND says itself whether it is ready */
        bool ready;
        bool stopping;
        bool failed; /* and that was said */
} manager;

/* A manager that hangs must not cost us the lease. */
enum { PATIENCE_US = 100000 };

/* A path, or "@name": an abstract address, which begins with a NUL and ends where it ends. */
static bool read_address(const char *text)
{
        size_t length = strlen(text);

        if ((*text != '/' && *text != '@') || !text[1] || length >= sizeof(manager.address.sun_path))
                return false;
        manager.address.sun_family = AF_UNIX;
        memcpy(manager.address.sun_path, text, length + 1);
        manager.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (*text == '/'));
        if (*text == '@')
                manager.address.sun_path[0] = 0;
        return true;
}

void notify_begin(bool pass)
{
        const char *text = getenv("NOTIFY_SOCKET");

        if (!text || !*text)
                return;
        manager.passed = pass;
        if (!read_address(text))
                warn("NOTIFY_SOCKET is neither a path nor an abstract address that fits: %s", text);
        if (!pass)
                unsetenv("NOTIFY_SOCKET");
}

bool notify_wanted(void)
{
        return manager.size > 0;
}

static bool send_message(const char *message)
{
        struct timeval patience = {.tv_usec = PATIENCE_US};
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        bool sent;

        if (fd < 0)
                return false;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        sent = sendto(fd, message, strlen(message), MSG_NOSIGNAL, (const struct sockaddr *)&manager.address,
                      manager.size) >= 0;
        if (!sent && !manager.failed)
                warn("cannot notify the service manager: %s", strerror(errno));
        manager.failed |= !sent;
        close(fd);
        return sent;
}

/* A line is a message of its own there. */
__attribute__((format(printf, 2, 0))) static void send_state(const char *state, const char *format, va_list list)
{
        char text[1024], shown[4 * sizeof(text)], datagram[sizeof(shown) + 64];

        vsnprintf(text, sizeof(text), format, list);
        escape_for_terminal(text, shown, sizeof(shown));
        snprintf(datagram, sizeof(datagram), "%sSTATUS=%s", state, shown);
        if (send_message(datagram) && *state)
                manager.ready = true;
}

void notify_status(const char *format, ...)
{
        va_list list;

        if (!notify_wanted())
                return;
        va_start(list, format);
        send_state("", format, list);
        va_end(list);
}

void notify_ready(const char *format, ...)
{
        va_list list;

        if (!notify_wanted())
                return;
        va_start(list, format);
        send_state(manager.ready || manager.passed ? "" : "READY=1\n", format, list);
        va_end(list);
}

void notify_stopping(void)
{
        if (!notify_wanted() || manager.stopping || manager.passed)
                return;
        manager.stopping = send_message("STOPPING=1");
}
