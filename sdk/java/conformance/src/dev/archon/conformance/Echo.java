package dev.archon.conformance;

import dev.archon.sdk.agent.AgentServer;
import dev.archon.sdk.agent.ContextItem;
import dev.archon.sdk.agent.Task;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.stream.Collectors;

/**
 * Serves the role ECHO_ROLE as a process of its own. It answers with its context after ECHO_DELAY seconds; every execution appends lines
 * to the file ECHO_LEDGER, unless it is empty.
 */
final class Echo {
  private static final String ROLE = System.getenv("ECHO_ROLE");
  private static final String LEDGER = System.getenv("ECHO_LEDGER");

  private Echo() {}

  /** Serves until SIGTERM, and returns the exit code. */
  static int run() throws InterruptedException {
    return AgentServer.builder(ROLE).handler(Echo::echo).build().run();
  }

  private static String echo(Task task) throws Exception {
    note("begin", task);
    task.write(ROLE + " is thinking");
    Thread.sleep((long) (Double.parseDouble(System.getenv("ECHO_DELAY")) * 1000));
    note("end", task);
    return ROLE + task.context().stream().map(ContextItem::text).collect(Collectors.joining(", ", "(", ")"));
  }

  private static void note(String verb, Task task) throws IOException {
    if (LEDGER.isEmpty()) {
      return;
    }
    String line = String.join(" ", verb, ROLE, task.taskId(), "" + task.attempt(), "" + ProcessHandle.current().pid());
    Files.writeString(Path.of(LEDGER), line + "\n", StandardOpenOption.APPEND);
  }
}
