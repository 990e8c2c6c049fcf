package dev.archon.conformance;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.FieldViolation;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** The subject of the conformance scenarios: an agent or a client over the SDK, by its first argument. */
public final class Subject {
  private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
  private static final PrintStream OUT = System.out;

  private Subject() {}

  public static void main(String[] arguments) throws Exception {
    System.setOut(System.err); // nothing else may be written to standard output
    String mode = arguments.length > 0 ? arguments[0] : "";
    switch (mode) {
      case "agent" -> System.exit(AgentSubject.run());
      case "client" -> System.exit(ClientSubject.run());
      case "echo" -> System.exit(Echo.run());
      default -> {
        System.err.println("usage: subject agent|client|echo");
        System.exit(2);
      }
    }
  }

  /** Writes a line. */
  static void tell(JsonObject line) {
    byte[] bytes = (GSON.toJson(line) + "\n").getBytes(StandardCharsets.UTF_8);
    synchronized (OUT) {
      OUT.write(bytes, 0, bytes.length);
      OUT.flush();
    }
  }

  static JsonObject object(Object... pairs) {
    JsonObject made = new JsonObject();
    for (int at = 0; at < pairs.length; at += 2) {
      made.add((String) pairs[at], json(pairs[at + 1]));
    }
    return made;
  }

  static JsonElement json(Object value) {
    return value instanceof JsonElement element ? element : GSON.toJsonTree(value);
  }

  static String text(JsonObject object, String name) {
    return object.has(name) && !object.get(name).isJsonNull() ? object.get(name).getAsString() : "";
  }

  static String compact(JsonElement value) {
    return GSON.toJson(value);
  }

  /** Returns all that an error has. */
  static JsonObject error(ArchonException error) {
    JsonArray violations = new JsonArray();
    for (FieldViolation each : error.fieldViolations()) {
      JsonArray pair = new JsonArray();
      pair.add(each.field());
      pair.add(each.description());
      violations.add(pair);
    }
    JsonElement delay = error.retryDelay().isPresent() ? new JsonPrimitive(error.retryDelay().getAsDouble()) : null;
    return object(
        "code", error.code().name(),
        "reason", error.reason(),
        "message", error.getMessage(),
        "kind", error.kind(),
        "retry", error.retry().name(),
        "retry_delay", delay,
        "metadata", error.metadata(),
        "violations", violations);
  }
}
