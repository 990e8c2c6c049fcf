package dev.archon.sdk.agent;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Part;
import java.util.List;
import java.util.Map;

/** A message of the session history. {@code role} is system, user, assistant or tool; {@code parts} precede {@code text}. */
public record HistoryMessage(String role, String text, List<Part> parts, Map<String, String> metadata) {
  private static final int MAX_TURN = 512 * 1024;
  private static final int MAX_CHARS = 60_000;

  /** Copies the parts and the metadata. */
  public HistoryMessage {
    parts = List.copyOf(parts);
    metadata = Map.copyOf(metadata);
  }

  /** Returns a message in words. */
  public static HistoryMessage of(String role, String text) {
    return new HistoryMessage(role, text, List.of(), Map.of());
  }

  static HistoryMessage of(dev.archon.api.agent.v1.HistoryMessage message) {
    List<Part> others = message.getPartsList().stream().filter(part -> !Wire.isText(part)).map(Part::of).toList();
    return new HistoryMessage(message.getRole(), Wire.textOf(message.getPartsList()), others, message.getMetadataMap());
  }

  dev.archon.api.agent.v1.HistoryMessage proto() {
    dev.archon.api.agent.v1.HistoryMessage.Builder message =
        dev.archon.api.agent.v1.HistoryMessage.newBuilder()
            .setRole(Texts.clean(role))
            .addAllParts(Part.messages(parts))
            .putAllMetadata(metadata);
    if (!text.isEmpty()) {
      message.addPartsBuilder().setText(Texts.clean(text));
    }
    return message.build();
  }

  /** Returns the messages that one answer adds. Throws FRAME_TOO_LARGE above 512 KiB. */
  static List<dev.archon.api.agent.v1.HistoryMessage> turn(List<HistoryMessage> messages) {
    List<dev.archon.api.agent.v1.HistoryMessage> turn = messages.stream().map(HistoryMessage::proto).toList();
    int size = turn.stream().mapToInt(dev.archon.api.agent.v1.HistoryMessage::getSerializedSize).sum();
    if (size > MAX_TURN) {
      String text =
          String.format("a turn of %,d bytes is too large for the session history; the limit is %,d", size, MAX_TURN);
      throw ArchonException.of(Reasons.FRAME_TOO_LARGE, text).build();
    }
    return turn;
  }

  /** Returns the text, with its middle left out if it exceeds 60,000 characters. */
  static String shortened(String text) {
    int length = Texts.characters(text);
    if (length <= MAX_CHARS) {
      return text;
    }
    int half = MAX_CHARS / 2;
    String end = text.substring(text.offsetByCodePoints(text.length(), -half));
    return Texts.head(text, half) + String.format("%n[... %,d characters left out ...]%n", length - 2 * half) + end;
  }
}
