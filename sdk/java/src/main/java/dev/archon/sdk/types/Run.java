package dev.archon.sdk.types;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Wire;
import java.util.List;
import java.util.stream.Collectors;

/**
 * A run as it was when the orchestrator was asked. What the methods do not have is in {@link #proto}, also of fields that are newer than
 * this version.
 */
public record Run(dev.archon.api.orchestrator.v1.Run proto) {
  /** A final answer: of a role, or of a step of the plan. */
  public record RunAnswer(String role, String text, List<Part> parts, String taskId, String stepId) {}

  /** A task of a run. */
  public record RunTask(String taskId, String role, TaskState state, int attempt, String instanceId, String stepId) {}

  /** A question of a run to a person. */
  public record RunQuestion(String inputId, String taskId, String role, String text, String schemaJson, boolean isApproval) {}

  /** Returns the run's id. */
  public String runId() {
    return proto.getRunId();
  }

  /** Returns the run's state. */
  public TaskState state() {
    return TaskState.of(proto.getStateValue());
  }

  /** Returns whether the run is paused. */
  public boolean paused() {
    return proto.getPaused();
  }

  /** Returns the user's session; empty if the submit named none. */
  public String sessionId() {
    return proto.getSessionId();
  }

  /** Returns the number of the last event. */
  public long lastSeq() {
    return proto.getLastSeq();
  }

  /** Returns the run's usage. */
  public Usage usage() {
    return Usage.of(proto.getUsage());
  }

  /** Returns why the run failed; null if it did not. */
  public ArchonException failure() {
    return proto.hasFailure() ? Failures.fromFailure(proto.getFailure()) : null;
  }

  /** Returns the tasks, in the order of their creation. */
  public List<RunTask> tasks() {
    return proto.getTasksList().stream()
        .map(
            task ->
                new RunTask(
                    task.getTaskId(),
                    task.getRole(),
                    TaskState.of(task.getStateValue()),
                    task.getAttempt(),
                    task.getInstanceId(),
                    task.getStepId()))
        .toList();
  }

  /** Returns the final answers, by the roles that no other role depends on. */
  public List<RunAnswer> answers() {
    return proto.getAnswersList().stream()
        .map(
            answer ->
                new RunAnswer(
                    answer.getRole(),
                    Wire.textOf(answer.getPartsList()),
                    Part.of(answer.getPartsList()),
                    answer.getTaskId(),
                    answer.getStepId()))
        .toList();
  }

  /** Returns the open questions to people, oldest first. */
  public List<RunQuestion> questions() {
    return proto.getQuestionsList().stream().map(Run::question).toList();
  }

  /** Returns the question that a message has. */
  public static RunQuestion question(dev.archon.api.orchestrator.v1.Question question) {
    return new RunQuestion(
        question.getInputId(),
        question.getTaskId(),
        question.getRole(),
        Wire.partsText(question.getPromptList()),
        question.getSchemaJson(),
        question.getKind() == dev.archon.api.common.v1.QuestionKind.QUESTION_KIND_APPROVAL);
  }

  /**
   * Returns the text of the final answers; if there are several, each below the name of its role. Throws MESSAGE_TOO_LARGE if they are
   * missing because the run was too large for the response: watch it.
   */
  public String text() {
    List<RunAnswer> answers = answers();
    if (proto.getTruncated() && answers.isEmpty()) {
      String text = "the answers of run " + runId() + " are too large for one response: watch it to get each by itself";
      throw ArchonException.of(io.grpc.Status.Code.RESOURCE_EXHAUSTED, text)
          .reason(Reasons.MESSAGE_TOO_LARGE)
          .metadata("run_id", runId())
          .build();
    }
    if (answers.size() == 1) {
      return answers.get(0).text();
    }
    return answers.stream()
        .map(each -> each.role() + (each.stepId().isEmpty() ? "" : " (" + each.stepId() + ")") + ":\n" + each.text())
        .collect(Collectors.joining("\n\n"));
  }
}
