package dev.archon.examples;

import dev.archon.sdk.agent.AgentServer;
import dev.archon.sdk.agent.Task;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.trace.Span;

/** Deadlines and tracing. */
final class Deadlines {
  private Deadlines() {}

  static String inTime(Task task) throws InterruptedException {
    double left = task.remaining().orElse(600);
    if (left < 5) {
      return "a short answer";
    }
    Span.current().setAttribute("com.example.thorough", true);
    Thread.sleep(1_000); // is interrupted if the task is cancelled
    return "a long answer";
  }

  static AgentServer traced(OpenTelemetry telemetry) {
    return AgentServer.builder("reviewer").handler(Deadlines::inTime).openTelemetry(telemetry).build();
  }
}
