package dev.archon.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.archon.sdk.agent.Answer;
import dev.archon.sdk.testing.FakeAgent;
import dev.archon.sdk.testing.FakeOrchestrator;
import dev.archon.sdk.types.TaskRef;
import org.junit.jupiter.api.Test;

/** Tests of handlers against a fake orchestrator. */
class ReviewerTest {
  @Test
  void theColourIsAsked() throws Exception {
    try (FakeAgent agent = new FakeAgent("painter").reply(task -> Answer.of(People.paint(task)));
        FakeOrchestrator peer = new FakeOrchestrator(agent.start())) {
      peer.open();
      TaskRef task = peer.ref("task-1");
      peer.assign(task, "Paint the door.");
      peer.answer(task, peer.question(task).inputId(), "blue");
      assertEquals("It is blue now.", peer.result(task).text());
    }
  }

  @Test
  void theTranslatorIsMissing() throws Exception {
    try (FakeAgent agent = new FakeAgent("editor").reply(task -> Answer.of(Delegations.withFallback(task)));
        FakeOrchestrator peer = new FakeOrchestrator(agent.start())) {
      peer.open();
      TaskRef task = peer.ref("task-1");
      peer.assign(task, "Bonjour");
      FakeOrchestrator.Delegated delegation = peer.delegation(task);
      assertEquals("translator", delegation.role());
      peer.complete(task, delegation.delegationId(), "Hello");
      assertEquals("Hello", peer.result(task).text());
    }
  }
}
