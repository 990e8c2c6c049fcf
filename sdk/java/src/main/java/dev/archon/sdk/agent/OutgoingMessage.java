package dev.archon.sdk.agent;

import dev.archon.sdk.types.MessageType;
import dev.archon.sdk.types.Part;
import java.util.OptionalDouble;

/**
 * A message to send. {@code to} is a role, a step or a task of the run; empty: all that have subscribed to {@code broadcast} or to
 * {@code type:TYPE}. {@code content} is a text or a JSON value. After {@code ttl} seconds it is not delivered any more. A later
 * attempt that sends the same message does not send it twice: two are the same if they have the same {@code messageId} or, if that
 * is empty, the same receiver, type and content for the n-th time.
 */
public record OutgoingMessage(
    String to, MessageType type, Part content, String correlationId, OptionalDouble ttl, String messageId) {
  /** Returns a notification. */
  public static OutgoingMessage to(String receiver, String text) {
    Part content = Part.text(text);
    return new OutgoingMessage(receiver, MessageType.NOTIFICATION, content, "", OptionalDouble.empty(), "");
  }

  /** Returns a notification to all subscribers. */
  public static OutgoingMessage broadcast(String text) {
    return to("", text);
  }

  /** Returns this message with another type. */
  public OutgoingMessage ofType(MessageType value) {
    return new OutgoingMessage(to, value, content, correlationId, ttl, messageId);
  }

  /** Returns this message with one JSON value as its content. */
  public OutgoingMessage withJson(String json) {
    return new OutgoingMessage(to, type, Part.json(json), correlationId, ttl, messageId);
  }

  /** Returns this message as an answer to another one. */
  public OutgoingMessage answering(String id) {
    return new OutgoingMessage(to, type, content, id, ttl, messageId);
  }

  /** Returns this message with a time to live in seconds. */
  public OutgoingMessage withTtl(double seconds) {
    return new OutgoingMessage(to, type, content, correlationId, OptionalDouble.of(seconds), messageId);
  }

  /** Returns this message with an id of its own. */
  public OutgoingMessage withId(String id) {
    return new OutgoingMessage(to, type, content, correlationId, ttl, id);
  }
}
