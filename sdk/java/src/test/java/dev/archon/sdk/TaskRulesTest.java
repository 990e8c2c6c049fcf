package dev.archon.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.AgentFrame.FrameCase;
import dev.archon.api.agent.v1.AssignTask;
import dev.archon.api.agent.v1.BudgetGrant;
import dev.archon.api.agent.v1.UpdateMemory;
import dev.archon.api.common.v1.Budget;
import dev.archon.api.common.v1.ContextItem;
import dev.archon.api.common.v1.ErrorReason;
import dev.archon.api.common.v1.MemoryRef;
import dev.archon.api.common.v1.Part;
import dev.archon.api.common.v1.TaskRef;
import dev.archon.api.common.v1.TaskState;
import dev.archon.sdk.agent.AgentServer;
import dev.archon.sdk.agent.AgentSettings;
import dev.archon.sdk.agent.Answer;
import dev.archon.sdk.agent.Item;
import dev.archon.sdk.agent.OutgoingMessage;
import dev.archon.sdk.agent.Question;
import dev.archon.sdk.agent.ReplyHandler;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.testing.FrameOrchestrator;
import dev.archon.sdk.types.PropagationPolicy;
import dev.archon.sdk.types.Usage;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The rules of the contract about tasks that concern an agent, by their numbers. */
@Timeout(20)
class TaskRulesTest extends AgentRules {
  @Test
  @DisplayName("C6: items are published before the result and with it; newer answers replace those of their role")
  void c6Publishing() throws Exception {
    ReplyHandler handler =
        task -> {
          task.publish("early");
          task.awaitUpdates(1);
          String seen = task.context().get(0).text();
          return Answer.of(seen).withItems(List.of(new Item("late", PropagationPolicy.TOOL_RESULTS, List.of(), Map.of())));
        };
    try (FrameOrchestrator peer = serve(1, handler)) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, AssignTask.newBuilder().addContext(item("old")));
      assertEquals("early", peer.receive(task, FrameCase.PUBLISH).getPublish().getParts(0).getText());
      UpdateMemory update = UpdateMemory.newBuilder().addContext(item("new")).build();
      peer.send(peer.stamped(task, frame().setUpdateMemory(update)));
      var result = peer.result(task);
      assertEquals("new", FrameOrchestrator.text(result));
      assertEquals("late", result.getItems(0).getParts(0).getText());
    }
  }

  private static ContextItem item(String text) {
    MemoryRef ref = MemoryRef.newBuilder().setRole("upstream").build();
    return ContextItem.newBuilder().setRef(ref).addParts(Part.newBuilder().setText(text)).build();
  }

  @Test
  @DisplayName("C7: a question ends the attempt, or is asked by the frame ask while the clock stands still")
  void c7People() throws Exception {
    ReplyHandler handler =
        task ->
            task.text().equals("end")
                ? Question.of("which?").withCheckpoint("c".getBytes(StandardCharsets.UTF_8))
                : Answer.of(task.ask("which?"));
    try (FrameOrchestrator peer = serve(2, handler)) {
      peer.open();
      TaskRef ends = peer.ref("ends", 1);
      peer.assign(ends, "end");
      var result = peer.result(ends);
      assertEquals(TaskState.TASK_STATE_INPUT_REQUIRED, result.getState());
      assertEquals("c", result.getCheckpoint().toStringUtf8());
      TaskRef asks = peer.ref("asks", 1);
      peer.assign(asks, AssignTask.newBuilder().setRemaining(Wire.duration(0.3)));
      String id = peer.receive(asks, FrameCase.ASK).getAsk().getInputId();
      Thread.sleep(500); // longer than the time of the task, which stands still
      var input = dev.archon.api.agent.v1.Input.newBuilder().setInputId(id).addParts(Part.newBuilder().setText("blue"));
      peer.send(peer.stamped(asks, frame().setInput(input)));
      assertEquals("blue", FrameOrchestrator.text(peer.result(asks)));
    }
  }

  @Test
  @DisplayName("C8: a delegation is answered once; a refusal affects that delegation alone")
  void c8Delegation() throws Exception {
    ReplyHandler handler =
        task -> {
          ArchonException refused = assertThrows(ArchonException.class, () -> task.delegate("nobody", "x"));
          return Answer.of(task.delegate("writer", "y").text() + " " + refused.reason());
        };
    try (FrameOrchestrator peer = serve(1, handler)) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      var first = peer.receive(task, FrameCase.DELEGATE).getDelegate();
      var failed = dev.archon.api.agent.v1.DelegateResult.newBuilder().setDelegationId(first.getDelegationId());
      failed.getResultBuilder()
          .setState(TaskState.TASK_STATE_FAILED)
          .setFailure(Failures.toFailure(ArchonException.of(Reasons.UNKNOWN_ROLE, "no such role").build()));
      peer.send(peer.stamped(task, frame().setDelegateResult(failed)));
      var second = peer.receive(task, FrameCase.DELEGATE).getDelegate();
      var done = dev.archon.api.agent.v1.DelegateResult.newBuilder().setDelegationId(second.getDelegationId());
      done.getResultBuilder().setState(TaskState.TASK_STATE_COMPLETED).addOutput(Part.newBuilder().setText("written"));
      peer.send(peer.stamped(task, frame().setDelegateResult(done)));
      assertEquals("written UNKNOWN_ROLE", FrameOrchestrator.text(peer.result(task)));
    }
  }

  @Test
  @DisplayName("C8: cancelling a delegation tells the orchestrator")
  void c8CancelDelegation() throws Exception {
    ReplyHandler handler =
        task -> {
          var delegated = task.delegateAsync(dev.archon.sdk.agent.Delegation.to("slow", "x"));
          release.await();
          delegated.cancel(true);
          return Answer.of("without");
        };
    try (FrameOrchestrator peer = serve(1, handler)) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      String id = peer.receive(task, FrameCase.DELEGATE).getDelegate().getDelegationId();
      release.countDown();
      assertEquals(id, peer.receive(task, FrameCase.CANCEL_DELEGATION).getCancelDelegation().getDelegationId());
    }
  }

  @Test
  @DisplayName("C9: more of the budget is requested before a call that needs it, and a refusal is BUDGET_EXHAUSTED")
  void c9Budget() throws Exception {
    ReplyHandler handler =
        task -> {
          task.reserve(50, 0, 1);
          ArchonException refused = assertThrows(ArchonException.class, () -> task.reserve(1_000, 0, 1));
          return Answer.of(refused.reason());
        };
    try (FrameOrchestrator peer = serve(1, handler)) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, AssignTask.newBuilder().setBudget(Budget.newBuilder().setMaxTokens(60)));
      var request = peer.receive(task, FrameCase.BUDGET_REQUEST).getBudgetRequest();
      assertEquals(990, request.getBudget().getMaxTokens());
      peer.send(peer.stamped(task, frame().setBudgetGrant(BudgetGrant.newBuilder().setRequestId(request.getRequestId()))));
      assertEquals(Reasons.BUDGET_EXHAUSTED, FrameOrchestrator.text(peer.result(task)));
    }
  }

  @Test
  @DisplayName("C12: model and tool calls are records before the result, whose usage has them")
  void c12Records() throws Exception {
    ReplyHandler handler =
        task -> {
          task.recordModelCall("m", "{\"q\":1}", "{}", 1, 0.5, Usage.tokens(3, 4));
          task.recordToolCall("t", "{}", "1", 1, 0.1);
          return Answer.of("x");
        };
    try (FrameOrchestrator peer = serve(1, handler)) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      assertEquals("m", peer.receive(task, FrameCase.RECORD).getRecord().getTarget());
      assertEquals(2, peer.receive(task, FrameCase.RECORD).getSequence());
      AgentFrame result = peer.receive(task, FrameCase.RESULT);
      assertEquals(3, result.getSequence());
      assertEquals(4, result.getResult().getUsage().getOutputTokens());
      assertEquals(1, result.getResult().getUsage().getModelCalls());
    }
  }

  @Test
  @DisplayName("C13: a message is answered by its number; received ones come once, and the result has the last number read")
  void c13Messages() throws Exception {
    ReplyHandler handler =
        task -> {
          long seq = task.send(OutgoingMessage.to("other", "hello")).seq();
          return Answer.of(seq + " " + task.receive().text() + " " + task.receive().text());
        };
    try (FrameOrchestrator peer = serve(1, handler)) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      var sent = peer.receive(task, FrameCase.SEND_MESSAGE).getSendMessage();
      var reply = dev.archon.api.agent.v1.MessageResult.newBuilder().setMessageId(sent.getMessageId()).setSeq(7);
      peer.send(peer.stamped(task, frame().setMessageResult(reply)));
      peer.receive(task, FrameCase.SUBSCRIBE);
      for (long seq : new long[] {8, 8, 9}) {
        var message =
            dev.archon.api.agent.v1.PeerMessage.newBuilder().setSeq(seq).addContent(Part.newBuilder().setText("m" + seq));
        peer.send(peer.stamped(task, frame().setMessage(message)));
      }
      var result = peer.result(task);
      assertEquals("7 m8 m9", FrameOrchestrator.text(result));
      assertEquals(9, result.getMessagesRead());
    }
  }

  @Test
  @DisplayName("C13: direct messages are handed to their handler, and a request id counts once")
  void c13Direct() throws Exception {
    List<String> taken = new java.util.concurrent.CopyOnWriteArrayList<>();
    CountDownLatch both = new CountDownLatch(2);
    server =
        AgentServer.builder("worker")
            .handler(task -> "x")
            .onDirect(
                message -> {
                  taken.add(message.text());
                  both.countDown();
                })
            .settings(AgentSettings.local())
            .environment(new Environment(Map.of()))
            .build();
    server.start();
    var channel = io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder.forTarget(server.address()).usePlaintext().build();
    var stub = dev.archon.api.agent.v1.AgentServiceGrpc.newBlockingStub(channel);
    var request = dev.archon.api.agent.v1.DeliverRequest.newBuilder().setRequestId("r");
    request.addMessagesBuilder().setMessageId("m1").addContentBuilder().setText("one");
    request.addMessagesBuilder().setMessageId("m2").addContentBuilder().setText("two");
    for (int time = 0; time < 2; time++) {
      assertEquals(List.of("m1", "m2"), List.copyOf(stub.deliver(request.build()).getAcceptedMessageIdsList()));
    }
    both.await();
    assertEquals(List.of("one", "two"), taken);
    channel.shutdownNow();
  }

  @Test
  @DisplayName("an exception of a handler is a typed failure without its text")
  void unexpectedException() throws Exception {
    ReplyHandler handler =
        task -> {
          throw new IllegalStateException("secret");
        };
    try (FrameOrchestrator peer = serve(1, handler)) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      var failure = peer.result(task).getFailure();
      assertEquals(ErrorReason.ERROR_REASON_INTERNAL, failure.getReason());
      assertEquals("tool.crash", failure.getKind());
      assertFalse(failure.toString().contains("secret"));
    }
  }
}
