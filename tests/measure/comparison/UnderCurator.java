// SPDX-License-Identifier: Apache-2.0
// UnderCurator HOST:PORT KEY TIMEOUT_MS JOB...: runs JOB under Curator's InterProcessMutex, again
// and again. As soon as its listener hears that the connection is SUSPENDED or LOST, as its
// documentation recommends to watch, the job is killed and this program ends.
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryOneTime;

class UnderCurator {
  private static Process job;

  private static synchronized Process begin(List<String> command) throws IOException {
    return job = new ProcessBuilder(command).inheritIO().start();
  }

  private static synchronized void end() {
    if (job != null) job.destroyForcibly();
    Runtime.getRuntime().halt(1);
  }

  public static void main(String[] arguments) throws Exception {
    int timeout = Integer.parseInt(arguments[2]);
    List<String> command = Arrays.asList(arguments).subList(3, arguments.length);
    CuratorFramework client = CuratorFrameworkFactory.newClient(
        arguments[0], timeout, timeout, new RetryOneTime(100));
    client.getConnectionStateListenable().addListener((c, state) -> {
      if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) end();
    });
    client.start();
    InterProcessMutex mutex = new InterProcessMutex(client, "/locks/" + arguments[1]);
    try {
      while (true) {
        mutex.acquire();
        try {
          begin(command).waitFor();
        } finally {
          mutex.release();
        }
      }
    } finally {
      end();
    }
  }
}
