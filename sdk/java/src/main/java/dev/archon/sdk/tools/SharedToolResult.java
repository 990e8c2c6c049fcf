package dev.archon.sdk.tools;

import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import dev.archon.api.tool.v1.ToolResult;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The result of a call: one JSON value, or an error message in one sentence. {@code seconds} is the time that the tool itself took.
 * {@code metadata} of a failed call may have {@code code}, {@code reason} and {@code kind} of the failure.
 */
public record SharedToolResult(
    ToolStatus status, String contentJson, String errorMessage, double seconds, Map<String, String> metadata) {
  static final int MAX_RESULT_BYTES = 2 * 1024 * 1024;
  private static final int MAX_ERROR = 4 * 1024;
  private static final int MAX_METADATA = 16;
  private static final int MAX_METADATA_TEXT = 256;

  /** Returns a success with a JSON value. */
  public static SharedToolResult json(String json) {
    return new SharedToolResult(ToolStatus.SUCCESS, json, "", 0, Map.of());
  }

  /** Returns a failure of the tool. */
  public static SharedToolResult error(String message) {
    return new SharedToolResult(ToolStatus.ERROR, "", message, 0, Map.of());
  }

  /** Returns the failure that an error is. */
  public static SharedToolResult error(ArchonException error) {
    Map<String, String> metadata = Map.of("code", error.code().name(), "reason", error.reason(), "kind", error.kind());
    return new SharedToolResult(ToolStatus.ERROR, "", String.valueOf(error.getMessage()), 0, metadata);
  }

  /** Returns whether the call succeeded. */
  public boolean ok() {
    return status == ToolStatus.SUCCESS;
  }

  SharedToolResult took(double value) {
    return new SharedToolResult(status, contentJson, errorMessage, value, metadata);
  }

  ToolResult proto() {
    ToolResult.Builder message =
        ToolResult.newBuilder()
            .setStatusValue(status.number())
            .setContentJson(ok() ? Texts.clean(contentJson) : "")
            .setErrorMessage(Texts.clean(Texts.head(errorMessage, MAX_ERROR)))
            .setExecutionTime(Wire.duration(Math.max(0, seconds)));
    metadata.entrySet().stream()
        .limit(MAX_METADATA)
        .forEach(entry -> message.putMetadata(shown(entry.getKey()), shown(entry.getValue())));
    return message.build();
  }

  private static String shown(String text) {
    return Texts.clean(Texts.head(text, MAX_METADATA_TEXT));
  }

  /** Returns the result that a message has, which may come from anybody. Throws UNKNOWN if it is no result. */
  static SharedToolResult of(ToolResult message) {
    ToolStatus status = ToolStatus.of(message.getStatusValue());
    if (status == null) {
      throw crash("the owner of the tool answered without a status");
    }
    Map<String, String> metadata = new LinkedHashMap<>();
    message.getMetadataMap().entrySet().stream()
        .limit(MAX_METADATA)
        .forEach(entry -> metadata.put(entry.getKey(), Texts.head(entry.getValue(), MAX_METADATA_TEXT)));
    String content = message.getContentJson();
    if (status == ToolStatus.SUCCESS) {
      if (!content.isEmpty() && !isJson(content)) {
        throw crash("the owner of the tool answered with a content that is not JSON");
      }
      return new SharedToolResult(status, content, "", Wire.seconds(message.getExecutionTime()), metadata);
    }
    String error = Texts.head(message.getErrorMessage(), MAX_ERROR);
    String shown = error.isEmpty() ? "the tool ended with the status " + status : error;
    return new SharedToolResult(status, "", shown, Wire.seconds(message.getExecutionTime()), metadata);
  }

  static boolean isJson(String text) {
    try {
      return JsonParser.parseString(text) != null;
    } catch (JsonParseException | StackOverflowError malformed) {
      return false;
    }
  }

  private static ArchonException crash(String text) {
    return ArchonException.of(Reasons.UNKNOWN, text).kind("tool.crash").build();
  }
}
