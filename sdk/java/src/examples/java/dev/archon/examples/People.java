package dev.archon.examples;

import dev.archon.sdk.agent.Answer;
import dev.archon.sdk.agent.GivenAnswer;
import dev.archon.sdk.agent.Question;
import dev.archon.sdk.agent.Reply;
import dev.archon.sdk.agent.Task;
import dev.archon.sdk.types.QuestionTerms;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Asking people. */
final class People {
  private People() {}

  static String paint(Task task) throws InterruptedException {
    String colour = task.ask("Which colour?");
    return "It is " + colour + " now.";
  }

  static Reply publish(Task task) {
    GivenAnswer answer = task.answers().get("publish");
    if (answer == null) {
      return Question.of("Publish this draft?")
          .withId("publish")
          .asApproval("{\"draft\": 7}")
          .withTerms(new QuestionTerms(List.of("ann"), 3_600, "default", "reject"))
          .withCheckpoint("draft 7".getBytes(StandardCharsets.UTF_8));
    }
    return Answer.of(answer.decision().equals("approve") ? "published" : "kept back: " + answer.text());
  }
}
