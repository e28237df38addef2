/* CuratorPeer PORT - drives Curator's InterProcessMutex for the benchmark: jobs on stdin, figures on stdout (bench/peer.h). */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

public final class CuratorPeer {
        private static final int SESSION_MS = 10000;
        private static final long WARM_UP_NS = 4000000000L;
        private static String hosts;
        private static volatile boolean stop;
        private static int last = -1; /* these two are guarded by the lock under test */
        private static volatile int changes;

        private static CuratorFramework connect() throws Exception {
                CuratorFramework client =
                        CuratorFrameworkFactory.newClient(hosts, SESSION_MS, SESSION_MS, new RetryOneTime(100));

                client.start();
                client.blockUntilConnected();
                return client;
        }

        /* Microseconds for each of n. */
        private static double pair(CuratorFramework client, int n) throws Exception {
                InterProcessMutex mutex = new InterProcessMutex(client, "/peer:pair");
                long begin = System.nanoTime();

                for (int i = 0; i < n; i++) {
                        mutex.acquire();
                        mutex.release();
                }
                return (System.nanoTime() - begin) / 1000.0 / n;
        }

        private static void waiter(CuratorFramework client, int me, int hold, int pause) {
                InterProcessMutex mutex = new InterProcessMutex(client, "/peer:turns");

                try {
                        while (!stop) {
                                mutex.acquire();
                                if (last != me)
                                        changes++;
                                last = me;
                                if (hold > 0)
                                        Thread.sleep(hold);
                                mutex.release();
                                if (pause > 0)
                                        Thread.sleep(pause);
                        }
                } catch (Exception failure) {
                        System.err.println("curator: " + failure);
                        System.exit(1);
                }
        }

        /* Owner changes a second; each waiter has a thread, a connection and a session of its own. */
        private static double takeTurns(int waiters, double seconds, int hold, int pause) throws Exception {
                List<CuratorFramework> clients = new ArrayList<>();
                List<Thread> threads = new ArrayList<>();

                stop = false;
                for (int i = 0; i < waiters; i++)
                        clients.add(connect());
                changes = 0;
                long begin = System.nanoTime();
                for (int i = 0; i < waiters; i++) {
                        final int me = i;

                        threads.add(new Thread(() -> waiter(clients.get(me), me, hold, pause)));
                        threads.get(me).start();
                }
                Thread.sleep((long)(seconds * 1000));
                double rate = changes * 1e9 / (System.nanoTime() - begin);
                stop = true;
                for (Thread thread : threads)
                        thread.join();
                for (CuratorFramework client : clients)
                        client.close();
                return rate;
        }

        private static double run(CuratorFramework client, String[] job) throws Exception {
                int count = Integer.parseInt(job[1]);

                if (job[0].equals("pair"))
                        return pair(client, count);
                if (job[0].equals("turns"))
                        return takeTurns(count, Double.parseDouble(job[2]), 0, 0);
                return takeTurns(count, Double.parseDouble(job[2]), 1, 5);
        }

        /* Java compiles while it runs: what is slow at first is not Curator. */
        private static void warmUp(CuratorFramework client, String[] job) throws Exception {
                for (long begin = System.nanoTime(); System.nanoTime() - begin < WARM_UP_NS;)
                        run(client, job);
        }

        public static void main(String[] arguments) throws Exception {
                hosts = "127.0.0.1:" + arguments[0];
                CuratorFramework client = connect();
                BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in));
                boolean warm = Boolean.getBoolean("quick");

                for (String line = jobs.readLine(); line != null; line = jobs.readLine(), warm = true) {
                        if (!warm)
                                warmUp(client, line.split(" "));
                        System.out.println(run(client, line.split(" ")));
                }
                client.close();
                System.exit(0);
        }
}
