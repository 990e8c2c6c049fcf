package dev.archon.sdk.tools;

import dev.archon.api.tool.v1.ToolResult;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Executions and results by idempotency key, so that a repeated call does not act a second time. Guarded by its owner's lock. */
final class KeptResults {
  private static final int MAX_KEPT = 10_000;
  private static final long MAX_KEPT_BYTES = 32L * 1024 * 1024;
  private static final double KEPT_SECONDS = 3600.0;

  private record Kept(String arguments, Execution execution, ToolResult result, double at, long size) {}

  private final Map<List<String>, Kept> kept = new LinkedHashMap<>();
  private long bytes;

  /** Returns the execution in progress, or the result, of an earlier call; null if there was none. Throws REQUEST_ID_REUSED. */
  Object find(List<String> key, String arguments) {
    Kept known = kept.get(key);
    if (known != null && known.result != null && known.at + KEPT_SECONDS <= System.nanoTime() / 1e9) {
      forget(key);
      return null;
    }
    if (known == null) {
      return null;
    }
    if (!known.arguments.equals(arguments)) {
      String text = "the idempotency key '" + key.get(key.size() - 1) + "' was used before with other arguments";
      throw ArchonException.of(Reasons.REQUEST_ID_REUSED, text).build();
    }
    return known.result != null ? known.result : known.execution;
  }

  void begin(List<String> key, String arguments, Execution execution) {
    kept.put(key, new Kept(arguments, execution, null, System.nanoTime() / 1e9, 0));
  }

  /** Keeps the result in place of the execution, and forgets the oldest ones above the bounds. */
  void keep(List<String> key, ToolResult result) {
    Kept known = kept.remove(key);
    if (known == null) {
      return;
    }
    long size = result.getSerializedSize() + known.arguments.length() + 200L;
    kept.put(key, new Kept(known.arguments, null, result, System.nanoTime() / 1e9, size));
    bytes += size;
    Iterator<Kept> oldest = kept.values().iterator();
    while ((kept.size() > MAX_KEPT || bytes > MAX_KEPT_BYTES) && oldest.hasNext()) {
      Kept each = oldest.next();
      if (each.result != null) {
        bytes -= each.size;
        oldest.remove();
      }
    }
  }

  void forget(List<String> key) {
    Kept known = kept.remove(key);
    if (known != null) {
      bytes -= known.size;
    }
  }
}
