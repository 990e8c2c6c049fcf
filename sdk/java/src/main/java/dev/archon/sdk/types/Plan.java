package dev.archon.sdk.types;

import java.util.List;

/** A plan: its steps, and the dependencies among them. What the methods do not have is in {@link #proto}. */
public record Plan(dev.archon.api.common.v1.Plan proto) {
  /** A step of a plan. {@code taskId} and {@code state} are set once it is executed. */
  public record PlanStep(
      String stepId, String description, String role, List<String> dependencies, String taskId, TaskState state) {}

  /** Returns what the plan is to achieve. */
  public String goal() {
    return proto.getGoal();
  }

  /** Returns the number of the plan, from 1. */
  public int revision() {
    return proto.getRevision();
  }

  /** Returns the event that changed the plan last, which an edit names. */
  public long changeSeq() {
    return proto.getChangeSeq();
  }

  /** Returns the steps. */
  public List<PlanStep> steps() {
    return proto.getStepsList().stream()
        .map(
            step ->
                new PlanStep(
                    step.getStepId(),
                    step.getDescription(),
                    step.getRole(),
                    List.copyOf(step.getDependenciesList()),
                    step.getTaskId(),
                    TaskState.of(step.getStateValue())))
        .toList();
  }
}
