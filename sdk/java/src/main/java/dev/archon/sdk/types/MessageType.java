package dev.archon.sdk.types;

import java.util.Locale;

/** The purpose of a message between agents. One of an unknown type, as of a later version, is a notification. */
public enum MessageType {
  TASK_REQUEST,
  TASK_RESPONSE,
  STATUS_UPDATE,
  ERROR,
  INFORMATION_SHARE,
  CONTEXT_REQUEST,
  HELP_REQUEST,
  NOTIFICATION;

  /** Returns the name in topics, such as {@code help_request}. */
  public String label() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** Returns the topic of messages of this type, such as {@code type:help_request}. */
  public String topic() {
    return "type:" + label();
  }

  /** Returns the number in the contract. */
  public int number() {
    return ordinal() + 1;
  }

  /** Returns the type with a number in the contract. */
  public static MessageType of(int number) {
    return number < 1 || number > values().length ? NOTIFICATION : values()[number - 1];
  }
}
