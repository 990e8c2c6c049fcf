package dev.archon.sdk.tools;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.registry.Tool;
import dev.archon.sdk.types.TaskRef;
import java.util.function.Consumer;

/**
 * A tool that other agents may lease and execute here. Callers may make {@code maxCallsPerMinute} calls with one lease and
 * {@code totalPerMinute} with all leases together (0: any number), {@code maxConcurrent} of them at a time; a call takes at most
 * {@code timeout} seconds.
 */
public record SharedTool(
    Tool tool, Execute execute, int maxCallsPerMinute, int totalPerMinute, int maxConcurrent, double timeout) {
  static final double MAX_SECONDS = 3600.0;
  private static final int MAX_RATE = 10_000;
  private static final int MAX_NAME = 128;

  /** Executes a call with valid arguments, on a thread that is interrupted if the call ends. */
  @FunctionalInterface
  public interface Execute {
    /** Returns one JSON value as text. An exception becomes an error result. */
    String execute(String argumentsJson, Call call) throws Exception;
  }

  /**
   * A call, as the owner of the tool sees it. {@code task} is the attempt that the tool was leased for, and {@code instanceId} the
   * instance that leased it: both in the words of the caller, null and empty if it named none.
   */
  public record Call(String toolName, TaskRef task, String instanceId, Consumer<String> progress, double deadline) {
    /** Sends progress to the caller, a text for people. */
    public void report(String text) {
      progress.accept(text);
    }

    /** Returns the seconds that the call has left, never below 0. */
    public double remaining() {
      return Math.max(0, deadline - System.nanoTime() / 1e9);
    }
  }

  /** Throws INVALID_ARGUMENT if the tool has no name, its schema is no JSON Schema of an object, or a limit is out of range. */
  public SharedTool {
    String name = tool.name();
    if (name.isEmpty() || name.length() > MAX_NAME) {
      throw ArchonException.invalid("name", "the name of a shared tool must have 1 to " + MAX_NAME + " characters");
    }
    if (maxCallsPerMinute < 0 || maxCallsPerMinute > MAX_RATE || totalPerMinute < 0 || totalPerMinute > MAX_RATE) {
      throw ArchonException.invalid("max_calls_per_minute", "must be 0 to " + MAX_RATE + "; 0 is any number");
    }
    if (maxConcurrent < 1) {
      throw ArchonException.invalid("max_concurrent", "must be at least 1");
    }
    if (!(timeout > 0 && timeout <= MAX_SECONDS)) {
      throw ArchonException.invalid("timeout", "must be above 0 s and at most " + MAX_SECONDS + " s");
    }
    ArgumentCheck.of(tool);
  }

  /** Shares a tool on the default terms: 60 calls per minute and lease, 600 in all, 16 at a time. */
  public static SharedTool of(Tool tool, Execute execute) {
    return new SharedTool(tool, execute, 60, 600, 16, MAX_SECONDS);
  }
}
