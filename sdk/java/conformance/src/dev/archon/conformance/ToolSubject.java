package dev.archon.conformance;

import static dev.archon.conformance.Subject.object;
import static dev.archon.conformance.Subject.text;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.archon.sdk.context.TraceContext;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.registry.Tool;
import dev.archon.sdk.tools.LeasedTool;
import dev.archon.sdk.tools.SharedTool;
import dev.archon.sdk.tools.SharedToolResult;
import dev.archon.sdk.tools.ToolClient;
import dev.archon.sdk.types.TaskRef;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The tools that the subject shares, and its calls of the tools of others. */
final class ToolSubject {
  private static final String SCHEMA =
      """
      {"type": "object", "required": ["text"], "additionalProperties": false, "properties": {
      "text": {"type": "string"}, "report": {"type": "string"}, "sleep": {"type": "number", "minimum": 0},
      "fail": {"type": "string"}, "panic": {"type": "string"}}}""";
  private static final Map<String, Integer> BEGUN = new ConcurrentHashMap<>();

  private ToolSubject() {}

  /** Returns the tools that the subject shares; none unless its environment asks for them. */
  static List<SharedTool> shared() {
    if (System.getenv("SUBJECT_TOOLS") == null) {
      return List.of();
    }
    Tool work = Tool.of("work", "Does some work.", SCHEMA);
    Tool look = Tool.of("look", "Does some work.", SCHEMA).asIdempotent();
    Tool rare = Tool.of("rare", "Does some work.", SCHEMA);
    return List.of(
        new SharedTool(work, ToolSubject::use, 600, 600, 16, 3600),
        new SharedTool(look, ToolSubject::use, 600, 600, 16, 3600),
        new SharedTool(rare, ToolSubject::use, 2, 600, 1, 3600));
  }

  private static String use(String argumentsJson, SharedTool.Call call) throws Exception {
    JsonObject given = JsonParser.parseString(argumentsJson).getAsJsonObject();
    int number = BEGUN.merge(text(given, "text"), 1, Integer::sum);
    if (given.has("report")) {
      call.report(text(given, "report"));
    }
    if (given.has("sleep")) {
      Thread.sleep((long) (given.get("sleep").getAsDouble() * 1000));
    }
    if (given.has("fail")) {
      throw ArchonException.of(Reasons.UNAVAILABLE, text(given, "fail")).build();
    }
    if (given.has("panic")) {
      throw new IllegalStateException(text(given, "panic"));
    }
    String task = call.task() == null ? "" : call.task().taskId();
    String trace = TraceContext.current().traceparent();
    return Subject.compact(object("text", text(given, "text"), "calls", number, "task", task, "trace", trace));
  }

  /** Leases a tool of another agent, and calls it once. */
  static JsonElement call(JsonObject line) throws InterruptedException {
    TaskRef task = null;
    if (line.has("task")) {
      JsonObject ref = line.getAsJsonObject("task");
      task = new TaskRef(text(ref, "task_id"), text(ref, "run_id"), ref.get("attempt").getAsInt(), 0);
    }
    JsonArray progress = new JsonArray();
    try (ToolClient client = new ToolClient(System.getenv("ARCHON_REGISTRY"), "tester");
        LeasedTool tool = client.lease(text(line, "tool"), text(line, "role"), task)) {
      double seconds = line.has("timeout") ? line.get("timeout").getAsDouble() : 30;
      String arguments = Subject.compact(line.get("arguments"));
      SharedToolResult result = tool.execute(arguments, seconds, text(line, "idempotency_key"), progress::add);
      JsonElement content = result.contentJson().isEmpty() ? JsonNull.INSTANCE : JsonParser.parseString(result.contentJson());
      String status = result.status().name().toLowerCase(java.util.Locale.ROOT);
      return object("status", status, "content", content, "error", result.errorMessage(), "progress", progress);
    }
  }
}
