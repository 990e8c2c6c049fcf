package dev.archon.examples;

import dev.archon.sdk.agent.AgentServer;
import dev.archon.sdk.registry.Tool;
import dev.archon.sdk.tools.LeasedTool;
import dev.archon.sdk.tools.SharedTool;
import dev.archon.sdk.tools.SharedToolResult;
import dev.archon.sdk.tools.ToolClient;

/** Shared tools. */
final class Tools {
  private static final String SCHEMA =
      """
      {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
      """;

  private Tools() {}

  static AgentServer owner() {
    Tool weather = Tool.of("weather", "The weather of a city.", SCHEMA).asIdempotent();
    return AgentServer.builder("meteorologist")
        .handler(task -> "It may rain.")
        .sharedTool(
            SharedTool.of(
                weather,
                (argumentsJson, call) -> {
                  call.report("asking the station");
                  return "{\"celsius\": 21}";
                }))
        .build();
  }

  static String caller(String registry) throws InterruptedException {
    try (ToolClient tools = new ToolClient(registry, "me");
        LeasedTool weather = tools.lease("weather")) {
      SharedToolResult result = weather.execute("{\"city\": \"Bern\"}");
      return result.ok() ? result.contentJson() : result.errorMessage();
    }
  }
}
