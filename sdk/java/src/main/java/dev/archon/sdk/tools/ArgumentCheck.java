package dev.archon.sdk.tools;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.Strictness;
import com.google.gson.stream.JsonReader;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.FieldViolation;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.registry.Tool;
import java.io.StringReader;
import java.util.List;

/** Reads the arguments of calls, and validates them against the schema of a tool. */
final class ArgumentCheck {
  private static final int MAX_BYTES = 1024 * 1024;

  private final String name;
  private final JsonObject schema;

  private ArgumentCheck(String name, JsonObject schema) {
    this.name = name;
    this.schema = schema;
  }

  /** Throws INVALID_ARGUMENT if the schema of the tool is invalid. */
  static ArgumentCheck of(Tool tool) {
    if (tool.inputSchemaJson().isEmpty()) {
      return new ArgumentCheck(tool.name(), null);
    }
    JsonElement schema = parse(tool.inputSchemaJson());
    if (schema == null || !schema.isJsonObject()) {
      throw ArchonException.invalid("input_schema_json", "the schema of tool " + tool.name() + " is not a JSON object");
    }
    String fault = JsonSchema.fault(schema);
    if (!fault.isEmpty()) {
      throw ArchonException.invalid("input_schema_json", "the schema of tool " + tool.name() + " is no JSON Schema: " + fault);
    }
    return new ArgumentCheck(tool.name(), schema.getAsJsonObject());
  }

  /** Returns the arguments of a call. Throws INVALID_ARGUMENT with each invalid field. */
  JsonObject read(String text) {
    if (text.length() > MAX_BYTES || Texts.bytes(text) > MAX_BYTES) {
      throw invalid(List.of(new FieldViolation("arguments_json", String.format("must have at most %,d bytes", MAX_BYTES))));
    }
    JsonElement arguments = parse(text.isEmpty() ? "{}" : text);
    if (arguments == null || !arguments.isJsonObject()) {
      throw invalid(List.of(new FieldViolation("arguments_json", "must be a JSON object")));
    }
    if (schema != null) {
      List<FieldViolation> violations = new JsonSchema(schema).violations(arguments);
      if (!violations.isEmpty()) {
        throw invalid(violations);
      }
    }
    return arguments.getAsJsonObject();
  }

  private static JsonElement parse(String text) {
    try {
      JsonReader reader = new JsonReader(new StringReader(text));
      reader.setStrictness(Strictness.STRICT);
      JsonElement value = JsonParser.parseReader(reader);
      return reader.peek() == com.google.gson.stream.JsonToken.END_DOCUMENT ? value : null;
    } catch (JsonParseException | java.io.IOException | StackOverflowError malformed) {
      return null;
    }
  }

  private ArchonException invalid(List<FieldViolation> violations) {
    StringBuilder details = new StringBuilder();
    violations.forEach(each -> details.append("; ").append(each.field()).append(": ").append(each.description()));
    ArchonException.Builder error =
        ArchonException.of(Reasons.INVALID_ARGUMENT, "invalid arguments for tool " + name + ": " + details.substring(2))
            .kind("tool.invalid_parameters");
    violations.forEach(each -> error.violation(each.field(), each.description()));
    return error.build();
  }
}
