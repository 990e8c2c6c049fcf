package dev.archon.examples;

import dev.archon.sdk.agent.OutgoingMessage;
import dev.archon.sdk.agent.Task;
import dev.archon.sdk.types.Message;
import dev.archon.sdk.types.MessageType;

/** Messages between agents. */
final class Messages {
  private Messages() {}

  static String report(Task task) throws InterruptedException {
    task.send(OutgoingMessage.broadcast("half way").ofType(MessageType.STATUS_UPDATE));
    Message answer = task.request("librarian", "Which books are overdue?", 30);
    return answer.text();
  }

  static String answerQuestions(Task task) throws InterruptedException {
    int count = 0;
    task.subscribe("broadcast");
    for (Message message = task.receive(60); message != null; message = task.receive(60)) {
      if (message.type() == MessageType.TASK_REQUEST) {
        task.reply(message, "none");
        count++;
      }
    }
    return count + " questions answered";
  }
}
