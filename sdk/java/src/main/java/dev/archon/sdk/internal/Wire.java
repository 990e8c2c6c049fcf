package dev.archon.sdk.internal;

import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import dev.archon.api.common.v1.Part;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.util.Locale;
import java.util.stream.Collectors;

/** Conversions between values and the messages that all areas of the contract share: times and texts of parts. */
public final class Wire {
  /** The largest message that senders send; receivers refuse a larger one with a typed error. */
  public static final int MAX_CHECKED_BYTES = 4 * 1024 * 1024;

  /** Bytes of a message that content leaves for all other fields. */
  public static final int CONTENT_ROOM = 4096;

  /** The media type of JSON values. */
  public static final String JSON_TYPE = "application/json";

  private static final double MAX_FIELD = 253_402_300_799.0;
  private static final double MAX_SECONDS = 1e9;

  private Wire() {}

  /** Returns the seconds of a duration. */
  public static double seconds(Duration message) {
    int micros = message.getNanos() / 1000;
    return message.getSeconds() + micros / 1e6;
  }

  /** Returns the seconds since the Unix epoch. */
  public static double seconds(Timestamp message) {
    int micros = message.getNanos() / 1000;
    return message.getSeconds() + micros / 1e6;
  }

  /** Returns a duration in whole microseconds. Throws INVALID_ARGUMENT if the number is not finite or too large. */
  public static Duration duration(double seconds) {
    if (!(Math.abs(seconds) <= MAX_SECONDS)) {
      throw notSeconds(seconds);
    }
    long micros = Math.round(seconds * 1e6);
    return Duration.newBuilder()
        .setSeconds(micros / 1_000_000)
        .setNanos((int) (micros % 1_000_000) * 1000)
        .build();
  }

  /** Returns a timestamp of seconds since the Unix epoch. */
  public static Timestamp timestamp(double seconds) {
    if (!(seconds >= 0 && seconds <= MAX_FIELD)) {
      throw notSeconds(seconds);
    }
    long whole = (long) seconds;
    long micros = Math.round((seconds - whole) * 1e6);
    if (micros == 1_000_000) {
      whole++;
      micros = 0;
    }
    return Timestamp.newBuilder().setSeconds(whole).setNanos((int) micros * 1000).build();
  }

  private static ArchonException notSeconds(double seconds) {
    return ArchonException.of(Reasons.INVALID_ARGUMENT, seconds + " is not a valid number of seconds").build();
  }

  /** Returns the text parts and the JSON values, joined by empty lines. */
  public static String textOf(Iterable<Part> parts) {
    StringBuilder text = new StringBuilder();
    boolean isFirst = true;
    for (Part part : parts) {
      if (isText(part)) {
        text.append(isFirst ? "" : "\n\n").append(part.hasText() ? part.getText() : part.getDataJson());
        isFirst = false;
      }
    }
    return text.toString();
  }

  /** Returns whether the part is text, or a JSON value, which is read as text. */
  public static boolean isText(Part part) {
    if (part.hasText()) {
      return true;
    }
    String type = part.getMediaType().split(";", 2)[0].strip().toLowerCase(Locale.ROOT);
    return part.hasDataJson() && (type.isEmpty() || type.equals(JSON_TYPE));
  }

  /** Returns texts, data and URLs as they are, a line each, and the file name or media type of other parts in brackets. */
  public static String partsText(Iterable<Part> parts) {
    return java.util.stream.StreamSupport.stream(parts.spliterator(), false)
        .map(Wire::partText)
        .filter(text -> !text.isEmpty())
        .collect(Collectors.joining("\n"));
  }

  private static String partText(Part part) {
    String text =
        switch (part.getContentCase()) {
          case TEXT -> part.getText().strip();
          case DATA_JSON -> part.getDataJson();
          case URL -> part.getUrl();
          default ->
              part.getFilename().isEmpty()
                  ? "[" + (part.getMediaType().isEmpty() ? "content" : part.getMediaType()) + "]"
                  : "";
        };
    return part.getFilename().isEmpty() ? text : ("[" + part.getFilename() + "] " + text).stripTrailing();
  }

  /** Returns the name of an enum's value in lower case and without its prefix; empty if it is unset or unknown. */
  public static String enumName(com.google.protobuf.ProtocolMessageEnum value, String prefix) {
    String name = ((Enum<?>) value).name();
    if (name.equals("UNRECOGNIZED") || value.getNumber() == 0) {
      return "";
    }
    return name.substring(prefix.length()).toLowerCase(Locale.ROOT);
  }
}
