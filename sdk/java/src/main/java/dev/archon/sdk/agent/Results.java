package dev.archon.sdk.agent;

import com.google.protobuf.ByteString;
import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.TaskResult;
import dev.archon.api.common.v1.TaskState;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.errors.TaskRejectedException;
import dev.archon.sdk.internal.Frames;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Part;
import java.util.List;

/** The outcome of a handler as a TaskResult. */
final class Results {
  private static final int MAX_CHECKPOINT = 1024 * 1024;
  private static final String CRASH = "tool.crash";

  private Results() {}

  /** Returns the result of an answer, of a question to a person, or of the error that ended the attempt. */
  static TaskResult of(Task task, Reply reply, Throwable error, boolean wasHalted) {
    if (error != null) {
      return failed(task, error, wasHalted);
    }
    try {
      if (reply instanceof Question question) {
        return inputRequired(task, question);
      }
      return completed(task, reply == null ? Answer.of("") : (Answer) reply);
    } catch (RuntimeException unusable) {
      return failed(task, unusable, false);
    }
  }

  static byte[] checkedCheckpoint(byte[] data) {
    if (data.length > MAX_CHECKPOINT) {
      String text =
          String.format("a checkpoint of %,d bytes is larger than the limit of %,d", data.length, MAX_CHECKPOINT);
      throw ArchonException.of(Reasons.FRAME_TOO_LARGE, text).build();
    }
    return data;
  }

  private static TaskResult completed(Task task, Answer answer) {
    TaskResult.Builder result =
        TaskResult.newBuilder()
            .setState(TaskState.TASK_STATE_COMPLETED)
            .setUsage(answer.usage() == null ? task.usageMessage() : answer.usage().proto())
            .setNoPublish(!answer.publish())
            .addAllUsed(task.usedRefs())
            .addAllOutput(Part.messages(answer.parts()))
            .setMessagesRead(task.messagesRead());
    answer.metadata().forEach((key, value) -> result.putMetadata(Texts.clean(key), Texts.clean(value)));
    if (answer.text() != null && !answer.text().isEmpty()) {
      result.addOutputBuilder().setText(Texts.clean(answer.text()));
    }
    for (Item item : answer.items()) {
      result.addItemsBuilder()
          .addAllParts(item.messages())
          .setPolicy(item.policy().proto())
          .putAllMetadata(item.metadata());
    }
    if (task.remembers()) {
      result.setConversationVersion(task.conversationVersion());
      List<HistoryMessage> turn = answer.newHistory();
      if (turn == null) {
        turn =
            List.of(
                HistoryMessage.of("user", HistoryMessage.shortened(task.text())),
                HistoryMessage.of("assistant", HistoryMessage.shortened(Wire.textOf(result.getOutputList()))));
      }
      result.addAllNewHistory(HistoryMessage.turn(turn));
    }
    return result.build();
  }

  private static TaskResult inputRequired(Task task, Question question) {
    String id = question.inputId().isEmpty() ? "q" + task.attempt() : question.inputId();
    return TaskResult.newBuilder()
        .setState(TaskState.TASK_STATE_INPUT_REQUIRED)
        .setUsage(task.usageMessage())
        .setCheckpoint(ByteString.copyFrom(checkedCheckpoint(question.checkpoint())))
        .setInputRequest(question.proto(id))
        .build();
  }

  private static TaskResult failed(Task task, Throwable error, boolean wasHalted) {
    TaskState state = TaskState.TASK_STATE_FAILED;
    if (error instanceof TaskRejectedException) {
      state = TaskState.TASK_STATE_REJECTED;
    } else if (wasHalted && error instanceof ArchonException halted && halted.is(Reasons.CANCELLED)) {
      state = TaskState.TASK_STATE_CANCELED;
    }
    return TaskResult.newBuilder()
        .setState(state)
        .setFailure(Failures.toFailure(Failures.of(error, CRASH)))
        .setUsage(task.usageMessage())
        .build();
  }

  /** Returns the frame's content. Items that make it too large are left out; without them it fails the task. */
  static byte[] content(Task task, TaskResult result, Attempt attempt) {
    TaskResult[] tries = {result, result.toBuilder().clearItems().build()};
    ArchonException tooLarge = null;
    for (TaskResult each : tries) {
      byte[] content = Frames.content(AgentFrame.RESULT_FIELD_NUMBER, each);
      try {
        attempt.channel().checkSize(content, attempt.limit());
        return content;
      } catch (ArchonException error) {
        tooLarge = error;
      }
    }
    return Frames.content(AgentFrame.RESULT_FIELD_NUMBER, failed(task, tooLarge, false));
  }
}
