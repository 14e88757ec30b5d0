import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** Runs an HDFS cluster with one data node until stdin ends. Copies a directory to /log, and prints the HTTP address. */
public class MiniHdfs {
    public static void main(String[] args) throws Exception {
        Configuration conf = new Configuration();
        conf.set("dfs.datanode.hostname", "127.0.0.1");
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf, new File(args[0])).numDataNodes(1).build();
        try {
            cluster.waitActive();
            cluster.getFileSystem().copyFromLocalFile(new Path(args[1]), new Path("/log"));
            System.out.println("ready " + cluster.getNameNode().getHttpAddress().getPort());
            System.out.flush();
            while (System.in.read() >= 0) { }
        } finally {
            cluster.shutdown();
        }
    }
}
