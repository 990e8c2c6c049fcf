package dev.archon.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.AgentFrame.FrameCase;
import dev.archon.api.agent.v1.AssignTask;
import dev.archon.api.agent.v1.Discarded;
import dev.archon.api.agent.v1.Heartbeat;
import dev.archon.api.agent.v1.UpdateMemory;
import dev.archon.api.common.v1.ErrorReason;
import dev.archon.api.common.v1.Part;
import dev.archon.api.common.v1.TaskRef;
import dev.archon.api.common.v1.TaskState;
import dev.archon.sdk.agent.Answer;
import dev.archon.sdk.agent.ReplyHandler;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.testing.FrameOrchestrator;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The rules of the contract about sessions that concern an agent, by their numbers. */
@Timeout(20)
class SessionRulesTest extends AgentRules {
  @Test
  @DisplayName("C1: the remaining time counts down here, and ends the attempt with DEADLINE_EXCEEDED")
  void c1RemainingTime() throws Exception {
    try (FrameOrchestrator peer = serve(1, task -> waitForRelease())) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, AssignTask.newBuilder().setRemaining(Wire.duration(0.2)));
      assertEquals(ErrorReason.ERROR_REASON_DEADLINE_EXCEEDED, peer.result(task).getFailure().getReason());
    }
  }

  @Test
  @DisplayName("C2: credit is announced by ready; a task above it is rejected with a delay")
  void c2Credit() throws Exception {
    try (FrameOrchestrator peer = serve(1, task -> waitForRelease())) {
      assertEquals(1, peer.open().getMaxTasks());
      peer.assign(peer.ref("one", 1), "a");
      TaskRef second = peer.ref("two", 1);
      peer.assign(second, "b");
      AgentFrame reject = peer.receive(second, FrameCase.REJECT);
      assertEquals(ErrorReason.ERROR_REASON_NO_CAPACITY, reject.getReject().getFailure().getReason());
      assertTrue(reject.getReject().getFailure().hasRetryDelay());
      assertEquals(1, reject.getSequence());
    }
  }

  @Test
  @DisplayName("C2: an agent splits its capacity over its sessions")
  void c2Shares() throws Exception {
    try (FrameOrchestrator first = serve(4, task -> waitForRelease());
        FrameOrchestrator second = new FrameOrchestrator(server.address(), "orchestrator-2")) {
      assertEquals(4, first.open().getMaxTasks());
      assertEquals(2, second.open().getMaxTasks());
      assertEquals(2, first.receive(AgentFrame::hasCredit).getCredit().getMaxTasks());
    }
  }

  @Test
  @DisplayName("C3: a heartbeat is echoed while handlers block their threads")
  void c3Heartbeat() throws Exception {
    try (FrameOrchestrator peer = serve(1, task -> waitForRelease())) {
      peer.open();
      peer.assign(peer.ref("t", 1), "x");
      peer.send(frame().setHeartbeat(Heartbeat.newBuilder().setCounter(7)));
      assertEquals(7, peer.receive(AgentFrame::hasHeartbeat).getHeartbeat().getEcho());
    }
  }

  @Test
  @DisplayName("C4: an attempt outlives its stream, and another one with a result is parked and adopted")
  void c4SessionLoss() throws Exception {
    FrameOrchestrator first = serve(1, task -> waitForRelease());
    first.open();
    TaskRef task = first.ref("t", 1);
    first.assign(task, "x");
    first.send(frame().setHeartbeat(Heartbeat.newBuilder().setCounter(1)));
    first.receive(AgentFrame::hasHeartbeat);
    first.close();
    try (FrameOrchestrator second = new FrameOrchestrator(server.address())) {
      second.open();
      second.adopt(task, 0);
      assertEquals(1, second.receive(task, FrameCase.ADOPTED).getAdopted().getLastApplied());
      release.countDown();
      assertEquals("done", FrameOrchestrator.text(second.result(task)));
    }
  }

  @Test
  @DisplayName("C4: a newer stream of the same orchestrator replaces the older one; a second open is refused")
  void c4Replaced() throws Exception {
    try (FrameOrchestrator first = serve(1, task -> waitForRelease());
        FrameOrchestrator second = new FrameOrchestrator(server.address())) {
      first.open();
      second.open();
      assertEquals(Reasons.SESSION_REPLACED, first.awaitEnd().reason());
      second.send(frame().setOpen(second.opening()));
      AgentFrame failure = second.receive(AgentFrame::hasFailure);
      assertEquals(ErrorReason.ERROR_REASON_SESSION_ALREADY_OPEN, failure.getFailure().getReason());
    }
  }

  @Test
  @DisplayName("C4: an open that names another instance is refused")
  void c4WrongInstance() throws Exception {
    try (FrameOrchestrator peer = serve(1, task -> waitForRelease())) {
      peer.send(frame().setOpen(peer.opening().setInstanceId("other-1")));
      assertEquals(Reasons.WRONG_INSTANCE, peer.awaitEnd().reason());
    }
  }

  @Test
  @DisplayName("C4: a cancel_task interrupts the handler, and the result is CANCELED")
  void c4Cancel() throws Exception {
    CompletableFuture<Boolean> over = new CompletableFuture<>();
    ReplyHandler handler =
        task -> {
          try {
            return waitForRelease();
          } finally {
            over.complete(task.isOver());
          }
        };
    try (FrameOrchestrator peer = serve(1, handler)) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      begun.await();
      peer.cancel(task, "enough");
      assertEquals(TaskState.TASK_STATE_CANCELED, peer.result(task).getState());
      assertTrue(over.get(5, TimeUnit.SECONDS)); // the result does not wait for the handler
    }
  }

  @Test
  @DisplayName("C4: a lower epoch is refused with STALE_EPOCH")
  void c4StaleEpoch() throws Exception {
    try (FrameOrchestrator peer = serve(1, task -> waitForRelease())) {
      peer.open();
      peer.epoch(5);
      peer.assign(peer.ref("t", 1), "x");
      peer.epoch(4);
      peer.ack(peer.ref("t", 1), 1);
      AgentFrame failure = peer.receive(AgentFrame::hasFailure);
      assertEquals(ErrorReason.ERROR_REASON_STALE_EPOCH, failure.getFailure().getReason());
    }
  }

  @Test
  @DisplayName("C5: unacknowledged frames are sent again after an adoption, acknowledged ones are not")
  void c5Resend() throws Exception {
    ReplyHandler handler =
        task -> {
          task.save("one".getBytes(StandardCharsets.UTF_8));
          task.save("two".getBytes(StandardCharsets.UTF_8));
          return Answer.of("end");
        };
    try (FrameOrchestrator peer = serve(1, handler)) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      assertEquals(1, peer.receive(task, FrameCase.CHECKPOINT).getSequence());
      assertEquals(2, peer.receive(task, FrameCase.CHECKPOINT).getSequence());
      assertEquals(3, peer.receive(task, FrameCase.RESULT).getSequence());
      peer.adopt(task, 1);
      assertEquals(2, peer.receive(task, FrameCase.CHECKPOINT).getSequence());
      assertEquals(3, peer.receive(task, FrameCase.RESULT).getSequence());
    }
  }

  @Test
  @DisplayName("C5: a gap is answered by SEQUENCE_GAP with the expected sequence; an unknown task by NOT_HELD")
  void c5GapAndNotHeld() throws Exception {
    try (FrameOrchestrator peer = serve(1, task -> waitForRelease())) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      peer.send(frame().setTask(task).setSequence(5).setUpdateMemory(UpdateMemory.getDefaultInstance()));
      AgentFrame failure = peer.receive(AgentFrame::hasFailure);
      assertEquals(ErrorReason.ERROR_REASON_SEQUENCE_GAP, failure.getFailure().getReason());
      assertEquals("2", failure.getFailure().getMetadataOrThrow("expected"));
      TaskRef unknown = peer.ref("unknown", 1);
      peer.adopt(unknown, 0);
      AgentFrame reject = peer.receive(unknown, FrameCase.REJECT);
      assertEquals(ErrorReason.ERROR_REASON_NOT_HELD, reject.getReject().getFailure().getReason());
    }
  }

  @Test
  @DisplayName("C5: a discarded attempt is forgotten, and its handler interrupted")
  void c5Discarded() throws Exception {
    CountDownLatch interrupted = new CountDownLatch(1);
    ReplyHandler handler =
        task -> {
          try {
            return waitForRelease();
          } catch (InterruptedException stopped) {
            interrupted.countDown();
            throw stopped;
          }
        };
    try (FrameOrchestrator peer = serve(1, handler)) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      begun.await();
      peer.send(frame().setTask(task).setDiscarded(Discarded.getDefaultInstance()));
      interrupted.await();
      peer.adopt(task, 0);
      peer.receive(task, FrameCase.REJECT);
    }
  }

  @Test
  @DisplayName("C10: a result above the limit fails its task alone with FRAME_TOO_LARGE; a broken frame affects no other")
  void c10Frames() throws Exception {
    try (FrameOrchestrator peer = serve(2, task -> Answer.of("x".repeat(task.text().length() * 1_000)))) {
      peer.open(peer.opening().setMaxMessageBytes(200_000));
      TaskRef large = peer.ref("large", 1);
      peer.assign(large, "y".repeat(300));
      assertEquals(ErrorReason.ERROR_REASON_FRAME_TOO_LARGE, peer.result(large).getFailure().getReason());
      TaskRef small = peer.ref("small", 1);
      ByteString good =
          peer.stamped(small, frame().setAssignTask(AssignTask.newBuilder().addInput(Part.newBuilder().setText("y"))))
              .build()
              .toByteString();
      var out = ByteString.newOutput();
      out.write(new byte[] {0x0a, 0x02, (byte) 0xff, (byte) 0xff});
      out.write(new byte[] {0x0a, (byte) good.size()});
      good.writeTo(out);
      peer.sendRaw(out.toByteString().toByteArray());
      assertEquals(
          ErrorReason.ERROR_REASON_MALFORMED_MESSAGE, peer.receive(AgentFrame::hasFailure).getFailure().getReason());
      assertEquals(TaskState.TASK_STATE_COMPLETED, peer.result(small).getState());
    }
  }

  @Test
  @DisplayName("C11: an older protocol ends the stream; an unknown arm is UNKNOWN_FRAME; kinds that were not agreed are not sent")
  void c11Negotiation() throws Exception {
    ReplyHandler handler = task -> Answer.of(assertThrows(ArchonException.class, () -> task.publish("x")).reason());
    try (FrameOrchestrator peer = serve(1, handler);
        FrameOrchestrator old = new FrameOrchestrator(server.address(), "old")) {
      old.send(frame().setOpen(old.opening().setProtocol(0)));
      assertEquals(Reasons.PROTOCOL_MISMATCH, old.awaitEnd().reason());
      var ready = peer.open(peer.opening().clearFeatures().addFeatures("cancel").addFeatures("telepathy"));
      assertEquals(List.of("cancel"), ready.getFeaturesList());
      UnknownFieldSet future =
          UnknownFieldSet.newBuilder().addField(99, UnknownFieldSet.Field.newBuilder().addVarint(1).build()).build();
      peer.send(frame().setTask(peer.ref("t", 1)).setUnknownFields(future));
      assertEquals(ErrorReason.ERROR_REASON_UNKNOWN_FRAME, peer.receive(AgentFrame::hasFailure).getFailure().getReason());
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      assertEquals(Reasons.NOT_SERVED, FrameOrchestrator.text(peer.result(task)));
    }
  }

  @Test
  @DisplayName("Leaving: an agent that drains announces it, finishes its tasks, rejects new ones and ends its streams with OK")
  void leaving() throws Exception {
    try (FrameOrchestrator peer = serve(2, task -> waitForRelease())) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      peer.send(frame().setHeartbeat(Heartbeat.newBuilder().setCounter(1)));
      peer.receive(AgentFrame::hasHeartbeat);
      Thread stopping = new Thread(() -> assertFalse(stopQuietly() > 0));
      stopping.start();
      peer.receive(AgentFrame::hasDrain);
      assertEquals(0, peer.receive(AgentFrame::hasCredit).getCredit().getMaxTasks());
      TaskRef late = peer.ref("late", 1);
      peer.assign(late, "x");
      AgentFrame reject = peer.receive(late, FrameCase.REJECT);
      assertEquals(ErrorReason.ERROR_REASON_DRAINING, reject.getReject().getFailure().getReason());
      release.countDown();
      assertEquals("done", FrameOrchestrator.text(peer.result(task)));
      assertEquals(null, peer.awaitEnd());
      stopping.join();
    }
  }

  private int stopQuietly() {
    try {
      return server.stop(10);
    } catch (InterruptedException interrupted) {
      return 0;
    }
  }

  @Test
  @DisplayName("a server that has stopped leaves no thread behind")
  void noThreadIsLeftBehind() throws Exception {
    try (FrameOrchestrator peer = serve(1, task -> Answer.of("x"))) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      peer.result(task);
    }
    server.stop(1);
    for (int tries = 0; tries < 50 && !left().isEmpty(); tries++) {
      Thread.sleep(100);
    }
    assertEquals(List.of(), left());
  }

  private static List<String> left() {
    return Thread.getAllStackTraces().keySet().stream().map(Thread::getName).filter(n -> n.startsWith("archon-")).toList();
  }
}
