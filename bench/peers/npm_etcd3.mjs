// npm_etcd3.mjs PORT - drives npm's etcd3 for the benchmark. Its lock does not wait, so it takes no turns.
import { Etcd3 } from 'etcd3';
import { serve } from './jobs.mjs';

const port = process.argv[2];

serve({
        connect: () => new Etcd3({ hosts: 'http://127.0.0.1:' + port }),
        take: async (client, name, inside) => {
                const lock = client.lock(name).ttl(10);

                await lock.acquire();
                await inside();
                await lock.release();
        },
        disconnect: (client) => client.close(),
});
