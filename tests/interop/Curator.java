// Curator.java - one lock of Apache Curator. Arguments: HOST:PORT/CHROOT SESSION_MS KIND, where KIND is mutex, read, write, or
// leader, which is elected. Reads orders, one line each, and answers each with one line:
//   take NAME | wait NAME | release  ->  yes | no | error TEXT
//   who NAME                         ->  the leader's id and those of all who take part, with | between them
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryForever;

public class Curator {
    private static InterProcessLock lock;

    /** An election as if it were a lock: who leads has it. */
    private static class Office extends LeaderSelectorListenerAdapter implements InterProcessLock {
        private final CountDownLatch elected = new CountDownLatch(1);
        private final CountDownLatch over = new CountDownLatch(1);
        private final LeaderSelector selector;

        Office(CuratorFramework client, String path) {
            selector = new LeaderSelector(client, path, this);
            selector.setId("a selector");
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            elected.countDown();
            over.await();
        }

        @Override
        public void acquire() throws Exception {
            selector.start();
            elected.await();
        }

        @Override
        public boolean acquire(long time, TimeUnit unit) throws Exception {
            selector.start();
            return elected.await(time, unit);
        }

        @Override
        public void release() {
            over.countDown();
        }

        @Override
        public boolean isAcquiredInThisProcess() {
            return selector.hasLeadership();
        }

        String who() throws Exception {
            StringBuilder all = new StringBuilder(selector.getLeader().getId());
            for (Participant participant : selector.getParticipants()) {
                all.append('|').append(participant.getId());
            }
            return all.toString();
        }
    }

    private static InterProcessLock make(CuratorFramework client, String kind, String path) {
        if (kind.equals("leader")) {
            return new Office(client, path);
        }
        if (kind.equals("mutex")) {
            return new InterProcessMutex(client, path);
        }
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
        return kind.equals("read") ? both.readLock() : both.writeLock();
    }

    private static boolean obey(CuratorFramework client, String kind, String[] words) throws Exception {
        if (words[0].equals("release")) {
            lock.release();
            return true;
        }
        lock = make(client, kind, "/" + words[1]);
        if (words[0].equals("take")) {
            return lock.acquire(0, TimeUnit.MILLISECONDS);
        }
        lock.acquire();
        return true;
    }

    public static void main(String[] arguments) throws Exception {
        int session = Integer.parseInt(arguments[1]);
        CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], session, 20000, new RetryForever(50));
        client.start();
        client.blockUntilConnected();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String answer;
            try {
                String[] words = line.split(" ");
                if (words[0].equals("who")) {
                    answer = new Office(client, "/" + words[1]).who();
                } else {
                    answer = obey(client, arguments[2], words) ? "yes" : "no";
                }
            } catch (Exception error) {
                answer = "error " + error;
            }
            System.out.println(answer);
        }
        client.close();
    }
}
