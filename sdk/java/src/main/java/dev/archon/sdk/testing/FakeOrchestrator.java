package dev.archon.sdk.testing;

import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.AssignTask;
import dev.archon.api.agent.v1.DelegateResult;
import dev.archon.api.agent.v1.Input;
import dev.archon.api.agent.v1.MessageResult;
import dev.archon.api.agent.v1.OrchestratorFrame;
import dev.archon.api.agent.v1.TaskResult;
import dev.archon.api.common.v1.Part;
import dev.archon.api.common.v1.TaskState;
import dev.archon.sdk.agent.Question;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Message;
import dev.archon.sdk.types.TaskRef;
import java.util.List;

/**
 * Gives an agent tasks, as an orchestrator does, and answers its handler's requests.
 *
 * <pre>{@code
 * try (FakeOrchestrator peer = new FakeOrchestrator(server.address())) {
 *   peer.open();
 *   TaskRef task = peer.ref("task-1");
 *   peer.assign(task, "Make lunch.");
 *   assertEquals("Soup.", peer.result(task).text());
 * }
 * }</pre>
 *
 * <p>Methods that wait throw AssertionError after five seconds, with the frames that came instead.
 */
public final class FakeOrchestrator implements AutoCloseable {
  private final FrameOrchestrator frames;
  private long delivered;

  /** Connects to the agent at host:port. */
  public FakeOrchestrator(String address) {
    frames = new FrameOrchestrator(address);
  }

  /** The end of an attempt: the answer, a failure, or a question to a person. */
  public record Result(TaskResult proto) {
    /** Returns COMPLETED, FAILED, CANCELED, REJECTED or INPUT_REQUIRED. */
    public dev.archon.sdk.types.TaskState state() {
      return dev.archon.sdk.types.TaskState.of(proto.getStateValue());
    }

    /** Returns the text of the answer. */
    public String text() {
      return Wire.textOf(proto.getOutputList());
    }

    /** Returns the failure, as the error that callers get; null if there is none. */
    public ArchonException error() {
      return proto.hasFailure() ? Failures.fromFailure(proto.getFailure()) : null;
    }

    /** Returns the question with which the attempt has ended; null if it ended otherwise. */
    public Question question() {
      return proto.hasInputRequest() ? Question.of(proto.getInputRequest(), proto.getCheckpoint()) : null;
    }
  }

  /** A part of a task that its handler delegates to a role, or to any role with a capability. */
  public record Delegated(String delegationId, String role, String capability, String text) {}

  /** Returns the orchestrator's end frame by frame. */
  public FrameOrchestrator frames() {
    return frames;
  }

  /** Opens the session. Returns how many tasks the agent takes at a time. */
  public int open() throws InterruptedException {
    return frames.open().getMaxTasks();
  }

  /** Returns a reference to the first attempt at a task. */
  public TaskRef ref(String taskId) {
    return TaskRef.of(frames.ref(taskId, 1));
  }

  /** Assigns a task with a text. */
  public void assign(TaskRef task, String text) {
    frames.assign(task.proto(), text);
  }

  /** Assigns a task. */
  public void assign(TaskRef task, AssignTask.Builder assigned) {
    frames.assign(task.proto(), assigned);
  }

  /** Cancels an attempt. */
  public void cancel(TaskRef task) {
    frames.cancel(task.proto(), "enough");
  }

  /** Waits for the result of an attempt, and acks it. */
  public Result result(TaskRef task) throws InterruptedException {
    return new Result(frames.result(task.proto()));
  }

  /** Waits for the next question that the handler asks. */
  public Question question(TaskRef task) throws InterruptedException {
    AgentFrame frame = frames.receive(task.proto(), AgentFrame.FrameCase.ASK);
    return Question.of(frame.getAsk(), com.google.protobuf.ByteString.EMPTY);
  }

  /** Answers a question of the handler. */
  public void answer(TaskRef task, String inputId, String text) {
    Input input = Input.newBuilder().setInputId(inputId).addParts(Part.newBuilder().setText(text)).build();
    send(task, OrchestratorFrame.newBuilder().setInput(input));
  }

  /** Waits for the next delegation. */
  public Delegated delegation(TaskRef task) throws InterruptedException {
    var asked = frames.receive(task.proto(), AgentFrame.FrameCase.DELEGATE).getDelegate();
    return new Delegated(asked.getDelegationId(), asked.getRole(), asked.getCapability(), Wire.textOf(asked.getInputList()));
  }

  /** Ends a delegation with an answer. */
  public void complete(TaskRef task, String delegationId, String text) {
    DelegateResult.Builder result = DelegateResult.newBuilder().setDelegationId(delegationId);
    result.getResultBuilder()
        .setState(TaskState.TASK_STATE_COMPLETED)
        .addOutput(Part.newBuilder().setText(text));
    send(task, OrchestratorFrame.newBuilder().setDelegateResult(result));
  }

  /** Ends a delegation with an error. */
  public void fail(TaskRef task, String delegationId, ArchonException error) {
    DelegateResult.Builder result = DelegateResult.newBuilder().setDelegationId(delegationId);
    result.getResultBuilder().setState(TaskState.TASK_STATE_FAILED).setFailure(Failures.toFailure(error));
    send(task, OrchestratorFrame.newBuilder().setDelegateResult(result));
  }

  /** Waits for the next message to other agents, and accepts it. */
  public Message sent(TaskRef task) throws InterruptedException {
    var message = frames.receive(task.proto(), AgentFrame.FrameCase.SEND_MESSAGE).getSendMessage();
    MessageResult accepted =
        MessageResult.newBuilder().setMessageId(message.getMessageId()).setSeq(++delivered).build();
    send(task, OrchestratorFrame.newBuilder().setMessageResult(accepted));
    return Message.of(message);
  }

  /** Waits for the next subscription to messages, and returns the topics that it adds. */
  public List<String> topics(TaskRef task) throws InterruptedException {
    return List.copyOf(
        frames.receive(task.proto(), AgentFrame.FrameCase.SUBSCRIBE).getSubscribe().getTopicsList());
  }

  /** Delivers a message of another agent to an attempt that has subscribed to messages. */
  public void deliver(TaskRef task, Message message) {
    delivered = Math.max(delivered + 1, message.seq());
    var numbered = message.proto().toBuilder().setSeq(message.seq() != 0 ? message.seq() : delivered);
    send(task, OrchestratorFrame.newBuilder().setMessage(numbered));
  }

  private void send(TaskRef task, OrchestratorFrame.Builder frame) {
    frames.send(frames.stamped(task.proto(), frame));
  }

  /** Returns the text that the handler has streamed so far. */
  public String written(TaskRef task) {
    return frames.written(task.proto());
  }

  /** Breaks the stream off. Idempotent. */
  @Override
  public void close() {
    frames.close();
  }
}
