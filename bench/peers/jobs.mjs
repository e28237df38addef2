// jobs.mjs - what the peers on Node share: jobs on stdin, figures on stdout (bench/peer.h). A peer gives a function that
// takes and returns one lock: pair(client, name, inside), where inside is run while it is held.
import { createInterface } from 'node:readline';
import { performance } from 'node:perf_hooks';

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function pairs(take, client, name, n) {
        for (let i = 0; i < n; i++)
                await take(client, name, () => {});
}

async function pair(peer, n) {
        const begin = performance.now();

        await pairs(peer.take, peer.client, 'peer:pair', n);
        return (performance.now() - begin) / n * 1000;
}

async function threads(peer, count, n) {
        const begin = performance.now();
        const all = [];

        for (let i = 0; i < count; i++)
                all.push(pairs(peer.take, peer.client, 'peer:' + i, n));
        await Promise.all(all);
        return count * n / (performance.now() - begin) * 1000;
}

// Each waiter with a connection of its own.
async function takeTurns(peer, waiters, seconds, hold, pause) {
        const state = { last: -1, changes: 0, stop: false };
        const clients = Array.from({ length: waiters }, peer.connect);
        const begin = performance.now();

        async function waiter(me) {
                while (!state.stop) {
                        await peer.take(clients[me], 'peer:turns', async () => {
                                state.changes += state.last !== me;
                                state.last = me;
                                if (hold)
                                        await sleep(hold);
                        });
                        if (pause)
                                await sleep(pause);
                }
        }
        const all = clients.map((_, me) => waiter(me));
        await sleep(seconds * 1000);
        const rate = state.changes / (performance.now() - begin) * 1000;
        state.stop = true;
        await Promise.all(all);
        clients.forEach(peer.disconnect);
        return rate;
}

const jobs = {
        pair,
        threads,
        turns: (peer, waiters, seconds) => takeTurns(peer, waiters, seconds, 0, 0),
        polite: (peer, waiters, seconds) => takeTurns(peer, waiters, seconds, 1, 5),
};

// peer: connect() gives a client, take(client, name, inside), disconnect(client).
export async function serve(peer) {
        peer.client = peer.connect();
        for await (const line of createInterface({ input: process.stdin })) {
                const [job, ...numbers] = line.split(' ');

                console.log(await jobs[job](peer, ...numbers.map(Number)));
        }
        process.exit(0);
}
