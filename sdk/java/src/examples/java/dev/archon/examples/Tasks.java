package dev.archon.examples;

import dev.archon.sdk.agent.Answer;
import dev.archon.sdk.agent.ContextItem;
import dev.archon.sdk.agent.Reply;
import dev.archon.sdk.agent.Task;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.errors.TaskRejectedException;
import dev.archon.sdk.types.Usage;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Tasks and answers. */
final class Tasks {
  private Tasks() {}

  static Reply summarize(Task task) throws InterruptedException {
    StringBuilder material = new StringBuilder(task.text());
    for (ContextItem item : task.context()) {
      material.append("\n\n").append(item.role()).append(": ").append(item.text());
    }
    task.write("Reading ... ");
    task.save("read".getBytes(StandardCharsets.UTF_8));
    String summary = ask(task, material.toString());
    return Answer.of(summary).withMetadata(Map.of("com.example/words", Integer.toString(summary.split(" ").length)));
  }

  static String ask(Task task, String prompt) throws InterruptedException {
    task.reserve(prompt.length() / 4 + 500, 0, 1);
    double started = System.currentTimeMillis() / 1000.0;
    String reply = "A summary."; // of your model
    Usage usage = Usage.tokens(prompt.length() / 4, 3).withCost(120);
    task.recordModelCall("my-model", "{\"prompt\": \"...\"}", "{\"reply\": \"...\"}", started, 0.8, usage);
    return reply;
  }

  static String careful(Task task) {
    if (task.text().isBlank()) {
      throw new TaskRejectedException("there is nothing to review");
    }
    if (task.text().length() > 100_000) {
      throw ArchonException.of(Reasons.RESOURCE_EXHAUSTED, "the model is busy").retryDelay(5).build();
    }
    return "fine";
  }
}
