// worker.mjs KIND PORT... - one lock of a client of the npm registry, on one server or several. Reads orders, one line each,
// and answers each with one line: take NAME TTL_MS | wait NAME TTL_MS | extend TTL_MS | release  ->  yes | no | error TEXT
import { createRequire } from "node:module";
import readline from "node:readline";

// The modules lie where the test installed them, not beside this file.
const require = createRequire(process.env.NODE_MODULES_OF + "/");
const Redis = require("ioredis");
const [kind, ...ports] = process.argv.slice(2);
const servers = ports.map((port) => new Redis({ port: Number(port), host: "127.0.0.1", maxRetriesPerRequest: 1 }));
servers.forEach((server) => server.on("error", () => {}));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// redlock: the key is the whole name, extension is by hand. Its own retries keep what the tries before them got on some of the
// servers, and take that for somebody else's: a split vote may then last for a ttl and longer. A try that is refused as a
// whole gives everything back, so here every try is one of its own.
function redlock() {
    const { default: Redlock, ExecutionError, ResourceLockedError } = require("redlock");
    const settings = { retryDelay: 10, retryJitter: 10, automaticExtensionThreshold: 1 };
    const client = new Redlock(servers, settings);
    client.on("error", () => {});
    let lock;
    const refused = (error) => {
        if (error instanceof ExecutionError || error instanceof ResourceLockedError) return false;
        throw error;
    };
    const take = async (name, ttl) => {
        lock = await client.acquire(["lock:" + name], ttl, { retryCount: 0 });
        return true;
    };
    return {
        take: (name, ttl) => take(name, ttl).catch(refused),
        wait: async (name, ttl) => {
            while (!(await take(name, ttl).catch(refused))) await pause(5 + Math.random() * 10);
            return true;
        },
        extend: (ttl) => lock.extend(ttl).then((longer) => ((lock = longer), true), refused),
        release: () => lock.release().then(() => true, refused),
    };
}

// redis-semaphore: the key is mutex:NAME; a release that finds nothing is silent, so we look whether it was still ours.
function semaphore() {
    const { Mutex, RedlockMutex } = require("redis-semaphore");
    let mutex;
    const make = (name, lockTimeout, acquireAttemptsLimit) => {
        const options = { lockTimeout, acquireTimeout: 1e9, acquireAttemptsLimit, retryInterval: 10, refreshInterval: 0 };
        mutex = servers.length > 1 ? new RedlockMutex(servers, name, options) : new Mutex(servers[0], name, options);
        mutex.key = "mutex:" + name;
        return mutex;
    };
    const ours = async () => {
        const values = await Promise.allSettled(servers.map((server) => server.get(mutex.key)));
        return values.filter(({ value }) => value === mutex.identifier).length * 2 > servers.length;
    };
    return {
        take: (name, ttl) => make(name, ttl, 1).tryAcquire(),
        wait: (name, ttl) => make(name, ttl, 1e9).acquire().then(() => true),
        extend: () => ours(),
        release: async () => {
            const was = await ours();
            await mutex.release();
            return was;
        },
    };
}

const client = { redlock, semaphore }[kind]();
for await (const line of readline.createInterface({ input: process.stdin })) {
    const [order, ...words] = line.split(" ");
    const values = words.map((word) => (/^\d+$/.test(word) ? Number(word) : word));
    let answer;
    try {
        answer = (await client[order](...values)) ? "yes" : "no";
    } catch (error) {
        answer = "error " + String(error.message).replaceAll("\n", " ");
    }
    process.stdout.write(answer + "\n");
}
process.exit(0);
