package dev.archon.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.Heartbeat;
import dev.archon.api.agent.v1.OrchestratorFrame;
import dev.archon.api.common.v1.TaskRef;
import dev.archon.sdk.agent.AgentServer;
import dev.archon.sdk.agent.AgentSettings;
import dev.archon.sdk.agent.Answer;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.testing.FrameOrchestrator;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Many tasks at once, cancelled at random, on streams that break; and a peer that does not read. */
@Timeout(40)
class StressTest {
  private static AgentServer server(int maxTasks, dev.archon.sdk.agent.ReplyHandler handler) throws Exception {
    AgentServer server =
        AgentServer.builder("worker")
            .maxTasks(maxTasks)
            .replyHandler(handler)
            .settings(AgentSettings.local())
            .environment(new Environment(Map.of()))
            .build();
    server.start();
    return server;
  }

  @Test
  void everyTaskHasOneResultWhateverIsCancelledAndBreaks() throws Exception {
    AtomicInteger running = new AtomicInteger();
    AgentServer server =
        server(
            200,
            task -> {
              running.incrementAndGet();
              try {
                task.write("working");
                Thread.sleep(task.taskId().hashCode() & 15);
                task.save(new byte[10]);
                return Answer.of(task.taskId());
              } finally {
                running.decrementAndGet();
              }
            });
    Random random = new Random(7);
    List<TaskRef> open = new ArrayList<>();
    int number = 0;
    for (int round = 0; round < 8; round++) {
      try (FrameOrchestrator peer = new FrameOrchestrator(server.address())) {
        peer.open();
        for (TaskRef task : open) {
          peer.adopt(task, 0);
        }
        List<TaskRef> begun = new ArrayList<>();
        for (int at = 0; at < 100; at++) {
          TaskRef task = peer.ref("task-" + number++, 1);
          begun.add(task);
          peer.assign(task, "x");
          if (random.nextInt(3) == 0) {
            peer.cancel(task, "enough");
          }
        }
        for (TaskRef task : open) {
          peer.result(task);
        }
        open.clear();
        List<TaskRef> ended = begun.subList(0, 50);
        for (TaskRef task : ended) {
          peer.result(task);
        }
        open.addAll(begun.subList(50, 100));
        peer.send(OrchestratorFrame.newBuilder().setHeartbeat(Heartbeat.newBuilder().setCounter(round + 1)));
        peer.receive(AgentFrame::hasHeartbeat);
      }
    }
    try (FrameOrchestrator peer = new FrameOrchestrator(server.address())) {
      peer.open();
      for (TaskRef task : open) {
        peer.adopt(task, 0);
        peer.result(task);
      }
    }
    assertEquals(0, server.stop(2));
    assertEquals(0, running.get());
  }

  @Test
  void aFloodOfProgressIsDroppedAndNotKept() throws Exception {
    AgentServer server =
        server(
            1,
            task -> {
              String piece = "x".repeat(1_000);
              for (int at = 0; at < 20_000 && !task.isCancelled(); at++) {
                task.write(piece);
              }
              return Answer.of("end");
            });
    try (FrameOrchestrator peer = new FrameOrchestrator(server.address())) {
      peer.open();
      TaskRef task = peer.ref("t", 1);
      peer.assign(task, "x");
      assertEquals("end", FrameOrchestrator.text(peer.result(task)));
      assertTrue(peer.written(task).length() > 0);
    } finally {
      server.stop(0);
    }
  }
}
