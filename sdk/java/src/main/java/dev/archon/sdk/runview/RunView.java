package dev.archon.sdk.runview;

import dev.archon.api.orchestrator.v1.MessageSent;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Message;
import dev.archon.sdk.types.Plan;
import dev.archon.sdk.types.RunEvent;
import dev.archon.sdk.types.TaskState;
import dev.archon.sdk.types.Usage;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/**
 * A run as its events tell it: states, attempts, questions, delegations, usage, and why tasks wait. {@link #apply} the events in order, from
 * the first one on. A view has no clock but the times of the events, in seconds since the epoch; 0 if an event has not occurred. For one
 * thread.
 */
public final class RunView {
  private final Map<String, TaskView> tasks = new LinkedHashMap<>();
  private final Map<String, TaskView> asking = new LinkedHashMap<>();
  private final List<MessageView> messages = new ArrayList<>();
  private final Map<String, Set<String>> topics = new HashMap<>();
  private final List<String[]> edges = new ArrayList<>();
  private String runId = "";
  private String strategy = "";
  private String givenPlanTask = "";
  private String owner = "";
  private TaskState state = TaskState.SUBMITTED;
  private ArchonException failure;
  private Plan plan;
  private double started;
  private double ended;
  private double cancelRequested;
  private boolean isPaused;
  private boolean isDispatched;
  private double stoppedFor;
  private double stoppedSince;
  private long lastSeq;

  /** Folds one event. One that was applied before, or is of an unknown kind, changes nothing. */
  public void apply(RunEvent event) {
    apply(event.proto());
  }

  private void apply(dev.archon.api.orchestrator.v1.RunEvent event) {
    if (event.getSeq() != 0 && event.getSeq() <= lastSeq) {
      return;
    }
    lastSeq = Math.max(lastSeq, event.getSeq());
    double now = Wire.seconds(event.getTime());
    runId = event.getRunId().isEmpty() ? runId : event.getRunId();
    applyToRun(event, now);
    String taskId = event.getTask().getTaskId();
    if (!taskId.isEmpty() && !taskId.equals(givenPlanTask)) {
      TaskView task = tasks.computeIfAbsent(taskId, id -> newTask(event, now));
      TaskEvents.apply(task, event, now);
      isDispatched |= event.hasDispatched();
      if (task.question() != null) {
        asking.put(taskId, task);
      } else {
        asking.remove(taskId);
      }
      applyMessages(event, task);
    }
    if (event.getSeq() != 0) {
      updateClock(now);
    }
  }

  private void applyToRun(dev.archon.api.orchestrator.v1.RunEvent event, double now) {
    switch (event.getEventCase()) {
      case SUBMITTED -> {
        started = now;
        owner = event.getSubmitted().getOwner();
        strategy = Wire.enumName(event.getSubmitted().getStrategy(), "STRATEGY_");
        givenPlanTask = event.getSubmitted().getWithoutPlanner() ? event.getRunId() + ".1" : "";
        if (!strategy.equals("agent")) { // its tasks do not wait for edges
          event.getSubmitted().getEdgesList()
              .forEach(edge -> edges.add(new String[] {edge.getUpstream(), edge.getDownstream()}));
        }
      }
      case CLAIMED -> owner = event.getClaimed().getOwner();
      case CANCEL_REQUESTED -> cancelRequested = now;
      case PAUSED -> isPaused = true;
      case RESUMED -> isPaused = false;
      case PLANNED -> plan = new Plan(event.getPlanned().getPlan());
      case RUN_STATE -> {
        TaskState how = TaskState.of(event.getRunState().getStateValue());
        if (how.isFinal()) {
          state = how;
          ended = now;
          failure = TaskEvents.failure(event.getRunState().hasFailure(), event.getRunState().getFailure());
          asking.clear();
          tasks.values().stream()
              .filter(task -> !task.state.isFinal())
              .forEach(task -> task.end(now, TaskState.CANCELED, null));
        }
      }
      default -> {}
    }
  }

  private TaskView newTask(dev.archon.api.orchestrator.v1.RunEvent event, double now) {
    TaskView task = new TaskView(event.getTask().getTaskId(), roleOf(event), now);
    task.parentTaskId = event.getTaskState().getParentTaskId();
    task.stepId = event.getTaskState().getStepId();
    task.predecessors = List.copyOf(event.getTaskState().getPredecessorsList());
    return task;
  }

  private static String roleOf(dev.archon.api.orchestrator.v1.RunEvent event) {
    return Stream.of(
            event.getTaskState().getRole(),
            event.getDispatched().getRole(),
            event.getResult().getRole(),
            event.getInputRequested().getRole(),
            event.getRetry().getRole(),
            event.getMessageSent().getRole(),
            event.getItemPublished().getRole(),
            event.getTextDelta().getRole())
        .filter(role -> !role.isEmpty())
        .findFirst()
        .orElse("");
  }

  private void applyMessages(dev.archon.api.orchestrator.v1.RunEvent event, TaskView task) {
    switch (event.getEventCase()) {
      case MESSAGE_SENT -> {
        MessageSent sent = event.getMessageSent();
        if (sent.getFirstSeq() == 0) {
          ArchonException refused = TaskEvents.failure(sent.hasFailure(), sent.getFailure());
          messages.add(new MessageView(Message.of(sent.getMessage()), task.taskId, refused));
        }
      }
      case SUBSCRIBED ->
          topics.computeIfAbsent(task.taskId, id -> new HashSet<>()).addAll(event.getSubscribed().getTopicsList());
      case DISPATCHED -> topics.remove(task.taskId);
      case RESULT -> {
        if (event.getResult().getMessagesRead() != 0) {
          noteRead(task, event.getResult().getMessagesRead());
        }
      }
      default -> {}
    }
  }

  private void noteRead(TaskView task, long readSeq) {
    Set<String> own = topics.getOrDefault(task.taskId, Set.of());
    for (MessageView each : messages) {
      Message message = each.message();
      if (each.failure() != null || each.taskId().equals(task.taskId) || message.seq() > readSeq) {
        continue;
      }
      String to = message.receiverId();
      boolean isFor =
          to.isEmpty()
              ? own.contains("broadcast") || own.contains(message.type().topic())
              : to.equals(task.role) || to.equals(task.stepId) || to.equals(task.taskId);
      if (isFor) {
        each.readers.add(task.taskId);
      }
    }
  }

  private void updateClock(double now) {
    if (ended == 0) {
      TaskState begun = isDispatched ? TaskState.WORKING : TaskState.SUBMITTED;
      state = asking.isEmpty() ? begun : TaskState.INPUT_REQUIRED;
    }
    boolean isStopped = ended == 0 && (isPaused || !asking.isEmpty());
    if (isStopped && stoppedSince == 0) {
      stoppedSince = now;
    } else if (!isStopped && stoppedSince != 0) {
      stoppedFor += Math.max(0, now - stoppedSince);
      stoppedSince = 0;
    }
  }

  /** Returns the run's id. */
  public String runId() {
    return runId;
  }

  /** Returns {@code pipeline}, {@code agent} or {@code plan}. */
  public String strategy() {
    return strategy;
  }

  /** Returns the state: WORKING from the first dispatch on, INPUT_REQUIRED while a question is open. */
  public TaskState state() {
    return state;
  }

  /** Returns why the run failed; null if it did not. */
  public ArchonException failure() {
    return failure;
  }

  /** Returns when the run was accepted. */
  public double started() {
    return started;
  }

  /** Returns when the run ended. */
  public double ended() {
    return ended;
  }

  /** Returns when its cancellation was requested. */
  public double cancelRequested() {
    return cancelRequested;
  }

  /** Returns whether the run is paused: no task is dispatched until it is resumed. */
  public boolean paused() {
    return isPaused && ended == 0;
  }

  /** Returns the id of the owner's process. */
  public String owner() {
    return owner;
  }

  /** Returns the plan in force; null before the first one. */
  public Plan plan() {
    return plan;
  }

  /** Returns the number of the last durable event that was applied. */
  public long lastSeq() {
    return lastSeq;
  }

  /** Returns the tasks by id, in the order of their creation. */
  public Map<String, TaskView> tasks() {
    return Collections.unmodifiableMap(tasks);
  }

  /** Returns the messages between tasks, in order. */
  public List<MessageView> messages() {
    return List.copyOf(messages);
  }

  /** Returns the open questions, oldest first. */
  public List<QuestionView> questions() {
    return asking.values().stream().map(TaskView::question).filter(each -> each != null).toList();
  }

  /** Returns the usage of all attempts, as far as events have it. */
  public Usage usage() {
    return tasks.values().stream().map(TaskView::usage).reduce(Usage.NONE, Usage::plus);
  }

  /** Returns the seconds on the run's clock, without its pauses, at a time. */
  public double elapsed(double now) {
    double stopped = stoppedFor + (stoppedSince == 0 ? 0 : Math.max(0, now - stoppedSince));
    return started == 0 ? 0 : Math.max(0, (ended == 0 ? now : ended) - started - stopped);
  }

  /** Returns the tasks that must complete before a task: the named ones, else the tasks of the roles upstream. */
  public List<TaskView> predecessors(TaskView task) {
    if (!task.predecessors.isEmpty()) {
      return task.predecessors.stream().map(tasks::get).filter(each -> each != null).toList();
    }
    if (!task.parentTaskId.isEmpty() || !task.stepId.isEmpty()) {
      return List.of();
    }
    Collection<TaskView> all = tasks.values();
    return edges.stream()
        .filter(edge -> edge[1].equals(task.role))
        .flatMap(
            edge ->
                all.stream()
                    .filter(other -> other.role.equals(edge[0]) && other.parentTaskId.isEmpty() && other.stepId.isEmpty()))
        .toList();
  }

  /** Returns why a task waits; null if it waits for nothing. */
  public Wait waitingFor(TaskView task) {
    if (ended != 0 || task.state.isFinal()) {
      return null;
    }
    if (task.state == TaskState.INPUT_REQUIRED) {
      return new Wait(Wait.Kind.PERSON, List.of());
    }
    boolean isSubmitted = task.state == TaskState.SUBMITTED;
    List<String> names =
        isSubmitted
            ? predecessors(task).stream().filter(each -> each.state != TaskState.COMPLETED).map(TaskView::label).toList()
            : delegates(task);
    if (!names.isEmpty()) {
      return new Wait(Wait.Kind.TASKS, names);
    }
    return isSubmitted ? new Wait(paused() ? Wait.Kind.RESUME : Wait.Kind.INSTANCE, List.of()) : null;
  }

  private List<String> delegates(TaskView task) {
    if (task.attempt() == null) {
      return List.of();
    }
    return task.attempt().delegations.stream()
        .filter(each -> each.cancelled == 0)
        .map(each -> tasks.get(each.childTaskId))
        .filter(each -> each != null && !each.state.isFinal())
        .map(TaskView::role)
        .distinct()
        .toList();
  }
}
