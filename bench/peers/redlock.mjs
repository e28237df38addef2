// redlock.mjs PORT... - drives npm's redlock for the benchmark; with several ports, as a quorum.
import Redis from 'ioredis';
import Redlock from 'redlock';
import { serve } from './jobs.mjs';

const ttl = 10000;
const ports = process.argv.slice(2).map(Number);

serve({
        connect: () => {
                const servers = ports.map((port) => new Redis(port, '127.0.0.1'));

                return { servers, redlock: new Redlock(servers, { retryCount: -1 }) };
        },
        take: async ({ redlock }, name, inside) => {
                const lock = await redlock.lock(name, ttl);

                await inside();
                await lock.unlock();
        },
        disconnect: ({ servers }) => servers.forEach((server) => server.disconnect()),
});
