package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.AssignTask;
import dev.archon.api.common.v1.TaskRef;
import dev.archon.sdk.types.Message;
import dev.archon.sdk.types.MessageType;
import java.util.List;

/** The messages of an attempt to other agents of its run, and theirs to it. */
public abstract sealed class TaskMessages extends TaskInput permits Task {
  private final Messenger messenger;

  TaskMessages(TaskRef ref, AssignTask assigned, AttemptLink link, String role, boolean isStateful) {
    super(ref, assigned, role, isStateful);
    messenger = new Messenger(link);
  }

  Messenger messenger() {
    return messenger;
  }

  long messagesRead() {
    return messenger.inbox().readSeq();
  }

  /**
   * Sends a message to agents of the run, and returns once the run's journal has it: it is delivered once to each attempt that reads
   * it, also after a crash. Throws NO_RECEIVER, MESSAGE_NOT_ALLOWED, TOO_MANY_MESSAGES, INVALID_ARGUMENT, and NOT_SERVED if the
   * caller of this task does not support messages.
   */
  public Sent send(OutgoingMessage message) throws InterruptedException {
    return messenger.send(message, false);
  }

  /** Answers a message with a {@code task_response}. Throws the errors of {@link #send}. */
  public Sent reply(Message message, String text) throws InterruptedException {
    OutgoingMessage answer = OutgoingMessage.to(message.senderTaskId(), text).ofType(MessageType.TASK_RESPONSE);
    return send(answer.answering(message.messageId()));
  }

  /**
   * Subscribes to the messages for this task, its step and its role, and to topics ({@code broadcast}, {@code type:TYPE}). Throws
   * INVALID_ARGUMENT for another topic, and NOT_SERVED if the caller does not support messages.
   */
  public void subscribe(String... topics) throws InterruptedException {
    messenger.subscribe(List.of(topics));
  }

  /** Returns the next message, from the first of the run on, and subscribes at the first call; waits as long as it takes. */
  public Message receive() throws InterruptedException {
    return receive(Double.MAX_VALUE);
  }

  /** Returns the next message; null if none comes within so many seconds. */
  public Message receive(double seconds) throws InterruptedException {
    messenger.subscribe(List.of());
    return messenger.inbox().next(0, seconds);
  }
}
