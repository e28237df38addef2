// program.cc - a C++ program that uses every struct of options: compiled with all warnings as errors, and run.
#include <pawl.h>
#include <pawl/barrier.h>
#include <pawl/election.h>
#include <pawl/flight.h>
#include <pawl/guard.h>
#include <pawl/handle.h>
#include <pawl/limit.h>
#include <pawl/once.h>
#include <pawl/rw.h>
#include <pawl/txn.h>
#include <pawl/version.h>

#include <cstdio>

// PAWL_OK, or what failed first.
static int take_and_return(pawl_client *client)
{
        pawl_lock *lock = nullptr, *other = nullptr;
        pawl_why why = {};
        auto options = pawl_lock_defaults();

        options.wait_ms = 5000;
        options.why = &why;
        int code = pawl_acquire(client, "from/c++", &options, &lock);
        if (code != PAWL_OK) {
                std::fprintf(stderr, "%s\n", why.text);
                return code;
        }
        options.wait_ms = PAWL_NO_WAIT;
        code = pawl_acquire_async(client, "from/c++", &options, nullptr, nullptr, &other);
        if (code == PAWL_OK && pawl_wait(other, 5000) != PAWL_BUSY)
                code = PAWL_MISUSE;
        if (code == PAWL_OK && pawl_release(other) != PAWL_CANCELLED) // refused, and still to be released
                code = PAWL_MISUSE;
        const int released = pawl_release(lock);
        return code == PAWL_OK ? released : code;
}

int main(int, char **argv)
{
        const uint32_t sizes[] = {pawl_barrier_defaults().size, pawl_election_defaults().size, pawl_observe_defaults().size,
                                  pawl_flight_defaults().size,  pawl_guard_defaults().size,    pawl_swap_defaults().size,
                                  pawl_limit_defaults().size,   pawl_once_defaults().size,     pawl_txn_defaults().size,
                                  pawl_update_defaults().size,  pawl_break_defaults().size};
        pawl_client *client = nullptr;
        auto options = pawl_open_defaults();

        for (uint32_t size : sizes)
                if (size <= sizeof(size))
                        return 2;
        options.ttl_ms = 5000;
        if (pawl_open(argv[1], &options, &client) != PAWL_OK)
                return 3;
        const int code = take_and_return(client);
        pawl_close(client);
        std::fprintf(stderr, "%s\n", pawl_strerror(code));
        return code == PAWL_OK ? 0 : 1;
}
