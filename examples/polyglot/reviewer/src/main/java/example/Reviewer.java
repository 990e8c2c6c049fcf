package example;

import dev.archon.sdk.agent.AgentServer;
import dev.archon.sdk.agent.Task;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import java.util.stream.Collectors;

/** The last role, in Java: a review of the code. */
public final class Reviewer {
  public static void main(String[] arguments) throws Exception {
    if (System.getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != null) {
      AutoConfiguredOpenTelemetrySdk.initialize();
    }
    AgentServer reviewer =
        AgentServer.builder("reviewer")
            .description("Reviews code.")
            .dependsOn("implementer")
            .handler(Reviewer::review)
            .build();
    System.exit(reviewer.run());
  }

  private static String review(Task task) {
    String code = task.context().stream().map(item -> item.text()).collect(Collectors.joining("\n"));
    long functions = code.lines().filter(line -> line.startsWith("function ")).count();
    return "Reviewed " + functions + " functions: each is empty, and all of them are small.\n" + code;
  }
}
