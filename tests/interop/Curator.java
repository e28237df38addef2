// Curator.java - one lock of Apache Curator. Arguments: HOST:PORT/CHROOT SESSION_MS KIND, where KIND is mutex, read or write.
// Reads orders, one line each, and answers each with one line:
//   take NAME | wait NAME | release  ->  yes | no | error TEXT
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryForever;

public class Curator {
    private static InterProcessLock lock;

    private static InterProcessLock make(CuratorFramework client, String kind, String path) {
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
                answer = obey(client, arguments[2], line.split(" ")) ? "yes" : "no";
            } catch (Exception error) {
                answer = "error " + error;
            }
            System.out.println(answer);
        }
        client.close();
    }
}
