/* SetCounter DATA_DIR PATH NUMBER - sets the counter of a node, from which sequential children get their numbers, in the data
 * of a server that does not run: reads them as the server would, and writes a snapshot. */
import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.server.DataNode;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

public class SetCounter {
    public static void main(String[] words) throws Exception {
        File directory = new File(words[0]);
        FileTxnSnapLog data = new FileTxnSnapLog(directory, directory);
        DataTree tree = new DataTree();
        ConcurrentHashMap<Long, Integer> sessions = new ConcurrentHashMap<>();

        data.restore(tree, sessions, (header, record, digest) -> { });
        DataNode node = tree.getNode(words[1]);
        synchronized (node) {
            node.stat.setCversion(Integer.parseInt(words[2]));
        }
        data.save(tree, sessions, true);
        data.close();
    }
}
