// SPDX-License-Identifier: Apache-2.0
// Curator's locks by commands on stdin, one answer line each: `java -cp JARS CuratorLocks.java
// HOST:PORT`.
//   acquire KIND PATH MS   KIND mutex, read or write: yes or no; the lock is kept under KIND and
//   PATH
//   release KIND PATH      released
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

class CuratorLocks {
  static InterProcessLock lock(CuratorFramework client, String kind, String path) {
    if (kind.equals("mutex")) return new InterProcessMutex(client, path);
    InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
    return kind.equals("read") ? both.readLock() : both.writeLock();
  }

  public static void main(String[] arguments) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.newClient(
        arguments[0], 20000, 20000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    System.out.println("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    Map<String, InterProcessLock> locks = new HashMap<>();
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      String name = words[1] + " " + words[2];
      if (words[0].equals("acquire")) {
        InterProcessLock lock = lock(client, words[1], words[2]);
        boolean taken = lock.acquire(Long.parseLong(words[3]), TimeUnit.MILLISECONDS);
        if (taken) locks.put(name, lock);
        System.out.println(taken ? "yes" : "no");
      } else {
        locks.remove(name).release();
        System.out.println("released");
      }
    }
    client.close();
  }
}
