package dev.archon.sdk;

import dev.archon.sdk.runview.RunView;
import dev.archon.sdk.types.Run;
import dev.archon.sdk.types.RunEvent;
import java.util.function.Consumer;

/** A run that was submitted. */
public final class RunHandle {
  private final Client client;
  private final Run run;

  RunHandle(Client client, Run run) {
    this.client = client;
    this.run = run;
  }

  /** Returns the id that the orchestrator gave the run. */
  public String runId() {
    return run.runId();
  }

  /** Returns the run as it was when it was submitted. */
  public Run run() {
    return run;
  }

  /** Returns the run's events from the first one on. Close the watch. */
  public RunWatch events() {
    return client.watch(runId(), 0);
  }

  /** Calls a consumer with the run's view after each event, until the run has ended. Returns the last view. */
  public RunView follow(Consumer<RunView> consumer) {
    RunView view = new RunView();
    try (RunWatch events = events()) {
      for (RunEvent event : events) {
        view.apply(event);
        consumer.accept(view);
      }
    }
    return view;
  }

  /** Waits until the run has ended, in whatever state. Throws DEADLINE_EXCEEDED after so many seconds. */
  public Run result(double seconds) throws InterruptedException {
    return client.waitFor(runId(), seconds);
  }

  /** Requests that the run be cancelled. */
  public Run cancel(String reason) throws InterruptedException {
    return client.cancel(runId(), reason);
  }
}
