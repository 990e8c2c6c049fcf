package dev.archon.sdk.runview;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.types.TaskState;
import dev.archon.sdk.types.Usage;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** One task, as the events of its run tell it. Times are in seconds since the epoch; 0 if the event has not occurred. */
public final class TaskView {
  final String taskId;
  final String role;
  final double created;
  String parentTaskId = "";
  String stepId = "";
  List<String> predecessors = List.of();
  TaskState state = TaskState.SUBMITTED;
  double ended;
  final List<AttemptView> attempts = new ArrayList<>();
  final List<QuestionView> questions = new ArrayList<>();
  ArchonException failure;
  ArchonException lastFailure;
  ArchonException stopping;
  String text = "";
  String thinking = "";
  long written;
  final Map<String, String> toolCalls = new LinkedHashMap<>();
  long checkpointBytes;
  long resultSeq;
  long version;
  boolean reused;

  TaskView(String taskId, String role, double created) {
    this.taskId = taskId;
    this.role = role;
    this.created = created;
  }

  /** Returns the task's id. */
  public String taskId() {
    return taskId;
  }

  /** Returns the role that the task is for. */
  public String role() {
    return role;
  }

  /** Returns the display name: the role, and the step of the plan. */
  public String label() {
    return stepId.isEmpty() ? role : role + " (" + stepId + ")";
  }

  /** Returns when the task was created. */
  public double created() {
    return created;
  }

  /** Returns the task that delegated this one; empty if none did. */
  public String parentTaskId() {
    return parentTaskId;
  }

  /** Returns the step of the plan that the task executes; empty if none. */
  public String stepId() {
    return stepId;
  }

  /** Returns the task's state. */
  public TaskState state() {
    return state;
  }

  /** Returns when the task ended. */
  public double ended() {
    return ended;
  }

  /** Returns the attempts. */
  public List<AttemptView> attempts() {
    return List.copyOf(attempts);
  }

  /** Returns the last attempt; null before the first. */
  public AttemptView attempt() {
    return attempts.isEmpty() ? null : attempts.get(attempts.size() - 1);
  }

  /** Returns all questions. */
  public List<QuestionView> questions() {
    return List.copyOf(questions);
  }

  /** Returns the open question, of which a task has one at a time; null if there is none. */
  public QuestionView question() {
    QuestionView last = questions.isEmpty() ? null : questions.get(questions.size() - 1);
    return last != null && last.ended == 0 ? last : null;
  }

  /** Returns the failure that the task ended with; null if it did not fail. */
  public ArchonException failure() {
    return failure;
  }

  /** Returns the last failure of the task or of an attempt; null if there is none. */
  public ArchonException lastFailure() {
    return lastFailure;
  }

  /** Returns why the task is being stopped; null if it is not. */
  public ArchonException stopping() {
    return stopping;
  }

  /** Returns the last 2,000 characters of the last attempt's text. */
  public String text() {
    return text;
  }

  /** Returns the last 2,000 characters of the model's thinking, until text or a tool call follows it. */
  public String thinking() {
    return thinking;
  }

  /** Returns the names of the tools that are executing, by call id. */
  public Map<String, String> toolCalls() {
    return Map.copyOf(toolCalls);
  }

  /** Returns the event with the result; 0 before it. */
  public long resultSeq() {
    return resultSeq;
  }

  /** Returns the version of the answer in shared memory; 0 if it is not published. */
  public long version() {
    return version;
  }

  /** Returns whether the answer was taken over from a forked run. */
  public boolean reused() {
    return reused;
  }

  /** Returns the usage of all attempts, as far as events have it. */
  public Usage usage() {
    return attempts.stream().map(each -> each.usage).filter(each -> each != null).reduce(Usage.NONE, Usage::plus);
  }

  void end(double now, TaskState how, ArchonException why) {
    state = how;
    ended = now;
    failure = why;
    if (attempt() != null) {
      Outcome outcome =
          switch (how) {
            case COMPLETED -> Outcome.COMPLETED;
            case CANCELED -> Outcome.CANCELED;
            case REJECTED -> Outcome.REJECTED;
            default -> Outcome.FAILED;
          };
      attempt().end(now, outcome, why);
    }
    closeQuestion(now);
  }

  void closeQuestion(double now) {
    if (question() != null) {
      question().ended = now;
    }
  }
}
