package dev.archon.sdk.testing;

import dev.archon.sdk.agent.AgentServer;
import dev.archon.sdk.agent.AgentSettings;
import dev.archon.sdk.agent.Answer;
import dev.archon.sdk.agent.ReplyHandler;
import dev.archon.sdk.agent.Task;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.errors.ArchonException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;

/**
 * A real {@link AgentServer} that plays a script: it answers the first task with the first reply, the second with the second, and so on. A
 * task beyond them fails with FAILED_PRECONDITION. It listens on a free port of 127.0.0.1 and reads nothing from the environment.
 */
public final class FakeAgent implements AutoCloseable {
  private final Deque<ReplyHandler> replies = new ArrayDeque<>();
  private final List<Task> tasks = new ArrayList<>();
  private final AgentServer server;

  /** Makes the agent of a role; it serves from {@link #start} on. */
  public FakeAgent(String role) {
    this(role, AgentSettings.local());
  }

  /** Makes the agent with settings, for example with a registry. */
  public FakeAgent(String role, AgentSettings settings) {
    server =
        AgentServer.builder(role)
            .description("a scripted agent")
            .settings(settings)
            .environment(new Environment(Map.of()))
            .replyHandler(
                task -> {
                  ReplyHandler reply;
                  synchronized (this) {
                    tasks.add(task);
                    reply = replies.poll();
                  }
                  if (reply == null) {
                    String text = "the script of " + role + " has no reply left for task " + task.taskId();
                    throw ArchonException.of(io.grpc.Status.Code.FAILED_PRECONDITION, text).reason("SCRIPT_EXHAUSTED").build();
                  }
                  return reply.handle(task);
                })
            .build();
  }

  /** Adds a text to the script. */
  public FakeAgent reply(String text) {
    return reply(task -> Answer.of(text));
  }

  /** Adds a failure to the script. */
  public FakeAgent reply(ArchonException error) {
    return reply(
        task -> {
          throw error;
        });
  }

  /** Adds a function of the task to the script. */
  public synchronized FakeAgent reply(ReplyHandler handler) {
    replies.add(handler);
    return this;
  }

  /** Starts serving. Returns host:port. */
  public String start() throws InterruptedException {
    return server.start();
  }

  /** Returns the server. */
  public AgentServer server() {
    return server;
  }

  /** Returns the tasks that it received, in order. */
  public synchronized List<Task> tasks() {
    return List.copyOf(tasks);
  }

  /** Returns how many replies no task has received yet. */
  public synchronized int unused() {
    return replies.size();
  }

  /** Stops at once. */
  @Override
  public void close() {
    try {
      server.stop(0);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
