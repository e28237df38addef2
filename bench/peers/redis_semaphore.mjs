// redis_semaphore.mjs PORT... - drives npm's redis-semaphore for the benchmark; with several ports, as a quorum.
import Redis from 'ioredis';
import { Mutex, RedlockMutex } from 'redis-semaphore';
import { serve } from './jobs.mjs';

const options = { lockTimeout: 10000, acquireTimeout: 60000 };
const ports = process.argv.slice(2).map(Number);

serve({
        connect: () => ports.map((port) => new Redis(port, '127.0.0.1')),
        take: async (servers, name, inside) => {
                const mutex = servers.length > 1 ? new RedlockMutex(servers, name, options)
                                                 : new Mutex(servers[0], name, options);

                await mutex.acquire();
                await inside();
                await mutex.release();
        },
        disconnect: (servers) => servers.forEach((server) => server.disconnect()),
});
