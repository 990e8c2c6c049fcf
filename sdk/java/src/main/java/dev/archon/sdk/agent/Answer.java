package dev.archon.sdk.agent;

import dev.archon.sdk.types.Part;
import dev.archon.sdk.types.Usage;
import java.util.List;
import java.util.Map;

/**
 * The answer of a handler. {@code parts} precede {@code text}. {@code usage} replaces the usage that was counted, unless it is
 * null; {@code newHistory} is a stateful role's addition to its session history, null for the question and the answer;
 * {@code items} are published right after the answer, and left out if the result would be too large with them.
 */
public record Answer(
    String text,
    List<Part> parts,
    Usage usage,
    boolean publish,
    Map<String, String> metadata,
    List<HistoryMessage> newHistory,
    List<Item> items)
    implements Reply {
  /** Copies the lists. */
  public Answer {
    parts = List.copyOf(parts);
    metadata = Map.copyOf(metadata);
    newHistory = newHistory == null ? null : List.copyOf(newHistory);
    items = List.copyOf(items);
  }

  /** Returns a text. */
  public static Answer of(String text) {
    return new Answer(text, List.of(), null, true, Map.of(), null, List.of());
  }

  /** Returns parts. */
  public static Answer of(List<Part> parts) {
    return new Answer("", parts, null, true, Map.of(), null, List.of());
  }

  /** Returns one JSON value. */
  public static Answer json(String json) {
    return of(List.of(Part.json(json)));
  }

  /** Returns this answer with metadata. */
  public Answer withMetadata(Map<String, String> value) {
    return new Answer(text, parts, usage, publish, value, newHistory, items);
  }

  /** Returns this answer with items to publish. */
  public Answer withItems(List<Item> value) {
    return new Answer(text, parts, usage, publish, metadata, newHistory, value);
  }

  /** Returns this answer with the messages that it adds to the history. */
  public Answer withHistory(List<HistoryMessage> value) {
    return new Answer(text, parts, usage, publish, metadata, value, items);
  }

  /** Returns this answer, which is not published to the shared memory. */
  public Answer unpublished() {
    return new Answer(text, parts, usage, false, metadata, newHistory, items);
  }
}
