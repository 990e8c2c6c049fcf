package dev.archon.examples;

import dev.archon.sdk.agent.AgentServer;

/** The smallest agent. */
final class Reviewer {
  private Reviewer() {}

  public static void main(String[] arguments) throws InterruptedException {
    System.exit(
        AgentServer.builder("reviewer")
            .description("Reviews a text.")
            .handler(task -> "I have read " + task.text().length() + " characters.")
            .build()
            .run());
  }
}
