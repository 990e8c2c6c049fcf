package dev.archon.sdk.runview;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.types.Message;
import java.util.ArrayList;
import java.util.List;

/** A message of a task; with a failure it was refused. */
public final class MessageView {
  private final Message message;
  private final String taskId;
  private final ArchonException failure;
  final List<String> readers = new ArrayList<>();

  MessageView(Message message, String taskId, ArchonException failure) {
    this.message = message;
    this.taskId = taskId;
    this.failure = failure;
  }

  /** Returns the message. */
  public Message message() {
    return message;
  }

  /** Returns the task that sent it. */
  public String taskId() {
    return taskId;
  }

  /** Returns why it was refused; null if it was not. */
  public ArchonException failure() {
    return failure;
  }

  /** Returns the ids of the tasks whose results say that they have read it. */
  public List<String> readers() {
    return List.copyOf(readers);
  }
}
