package dev.archon.examples;

import dev.archon.sdk.Client;
import dev.archon.sdk.ConverseStream;
import dev.archon.sdk.RunHandle;
import dev.archon.sdk.RunWatch;
import dev.archon.sdk.Strategy;
import dev.archon.sdk.Submission;
import dev.archon.sdk.runview.RunView;
import dev.archon.sdk.types.Budget;
import dev.archon.sdk.types.Run;
import dev.archon.sdk.types.RunEvent;
import java.util.ArrayList;
import java.util.List;

/** The client. */
final class Clients {
  private Clients() {}

  static String answer(Client client) throws InterruptedException {
    return client.run(Submission.of("Review the plan.").roles("reviewer").timeout(60));
  }

  static List<String> narrate(Client client) throws InterruptedException {
    Submission submission =
        Submission.of("The clerk must see overdue books.").strategy(Strategy.PIPELINE).budget(Budget.tokens(50_000));
    RunHandle handle = client.submit(submission);
    List<String> lines = new ArrayList<>();
    try (RunWatch events = handle.events()) {
      for (RunEvent event : events) {
        if (event.proto().hasResult()) {
          lines.add(event.proto().getResult().getRole() + " has ended");
        }
      }
    }
    Run run = client.get(handle.runId());
    lines.add(run.failure() == null ? run.text() : run.failure().toString());
    return lines;
  }

  static RunView follow(RunHandle handle) {
    return handle.follow(
        view ->
            view.tasks()
                .values()
                .forEach(task -> System.out.println(task.label() + ": " + task.state() + " " + view.waitingFor(task))));
  }

  static void answerAll(Client client) throws InterruptedException {
    for (Run.RunQuestion question : client.listQuestions()) {
      System.out.println(question.role() + " asks: " + question.text());
    }
  }

  static int many(Client client, List<String> goals) throws InterruptedException {
    int ended = 0;
    try (ConverseStream stream = client.converse()) {
      for (String goal : goals) {
        stream.submit(Submission.of(goal));
      }
      stream.done();
      for (RunEvent event = stream.next(); event != null; event = stream.next()) {
        ended += event.isLast() ? 1 : 0;
      }
    }
    return ended;
  }
}
