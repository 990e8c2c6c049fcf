package dev.archon.sdk;

import dev.archon.api.agent.v1.OrchestratorFrame;
import dev.archon.sdk.agent.AgentServer;
import dev.archon.sdk.agent.AgentSettings;
import dev.archon.sdk.agent.Answer;
import dev.archon.sdk.agent.ReplyHandler;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.testing.FrameOrchestrator;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;

/** A real server, and an orchestrator that drives it frame by frame. */
abstract class AgentRules {
  AgentServer server;
  final CountDownLatch begun = new CountDownLatch(1);
  final CountDownLatch release = new CountDownLatch(1);

  FrameOrchestrator serve(int maxTasks, ReplyHandler handler) throws Exception {
    server =
        AgentServer.builder("worker")
            .maxTasks(maxTasks)
            .replyHandler(handler)
            .settings(AgentSettings.local())
            .environment(new Environment(Map.of()))
            .build();
    server.start();
    return new FrameOrchestrator(server.address());
  }

  @AfterEach
  void stop() throws Exception {
    release.countDown();
    server.stop(0);
  }

  /** Waits in a handler until the test ends it; {@code begun} tells that it does: a task that is cancelled before never begins. */
  Answer waitForRelease() throws InterruptedException {
    begun.countDown();
    release.await();
    return Answer.of("done");
  }

  static OrchestratorFrame.Builder frame() {
    return OrchestratorFrame.newBuilder();
  }
}
