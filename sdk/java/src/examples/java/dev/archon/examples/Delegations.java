package dev.archon.examples;

import dev.archon.sdk.agent.Delegated;
import dev.archon.sdk.agent.Delegation;
import dev.archon.sdk.agent.Task;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.util.concurrent.CompletableFuture;

/** Delegation. */
final class Delegations {
  private Delegations() {}

  static String compare(Task task) throws Exception {
    CompletableFuture<Delegated> design = task.delegateAsync(Delegation.to("designer", task.text()));
    CompletableFuture<Delegated> risks =
        task.delegateAsync(Delegation.toCapability("risk.assess", task.text()).withTimeout(120));
    return design.get().text() + "\n\n" + risks.get().text();
  }

  static String withFallback(Task task) throws InterruptedException {
    try {
      return task.delegate("translator", task.text()).text();
    } catch (ArchonException error) {
      if (error.is(Reasons.UNKNOWN_ROLE) || error.is(Reasons.DELEGATION_TIMEOUT)) {
        return task.text();
      }
      throw error;
    }
  }
}
