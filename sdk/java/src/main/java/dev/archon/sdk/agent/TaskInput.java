package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.AssignTask;
import dev.archon.api.common.v1.TaskRef;
import dev.archon.sdk.context.TraceContext;
import dev.archon.sdk.internal.Loop;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Part;
import dev.archon.sdk.types.PropagationPolicy;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;

/** What an attempt at a task was assigned, its clock, and the newer answers that came since. */
public abstract sealed class TaskInput permits TaskMessages {
  private final TaskRef ref;
  private final AssignTask assigned;
  private final String role;
  private final boolean remembers;
  private final List<dev.archon.api.common.v1.ContextItem> context;
  private double deadline = Double.NaN;
  private double stoppedWith = Double.NaN;
  private boolean isStopped;
  private boolean isCancelled;
  private boolean isOver;
  private int updates;

  TaskInput(TaskRef ref, AssignTask assigned, String role, boolean isStateful) {
    this.ref = ref;
    this.assigned = assigned;
    this.role = role;
    this.remembers = isStateful && !assigned.getConversationId().isEmpty();
    this.context = new ArrayList<>(assigned.getContextList());
    if (assigned.hasRemaining()) {
      deadline = Loop.now() + Wire.seconds(assigned.getRemaining());
    }
  }

  /** Returns the assignment as a message, without the answers that came later. */
  public AssignTask proto() {
    return assigned;
  }

  /** Returns the task's id, the same for all attempts. */
  public String taskId() {
    return ref.getTaskId();
  }

  /** Returns the id of the run that the task belongs to. */
  public String runId() {
    return ref.getRunId();
  }

  /** Returns the number of this attempt: from 1, one more with each dispatch. */
  public int attempt() {
    return ref.getAttempt();
  }

  /** Returns the role that works on the task. */
  public String role() {
    return role;
  }

  /** Returns all parts of the input. */
  public List<Part> parts() {
    return Part.of(assigned.getInputList());
  }

  /** Returns the text of the input. */
  public String text() {
    return Wire.textOf(assigned.getInputList());
  }

  /** Returns the newest answers of the roles that this one depends on, in dependency order. */
  public List<ContextItem> context() {
    return contextMessages().stream().map(ContextItem::of).toList();
  }

  synchronized List<dev.archon.api.common.v1.ContextItem> contextMessages() {
    return List.copyOf(context);
  }

  /** Replaces what the attempt has of a role, or of a step of it; adds what is new. */
  synchronized void update(List<dev.archon.api.common.v1.ContextItem> items) {
    for (dev.archon.api.common.v1.ContextItem item : items) {
      int place = 0;
      while (place < context.size() && !isOfSameSource(context.get(place), item)) {
        place++;
      }
      if (place < context.size()) {
        context.set(place, item);
      } else {
        context.add(item);
      }
    }
    updates++;
    notifyAll();
  }

  private static boolean isOfSameSource(
      dev.archon.api.common.v1.ContextItem one, dev.archon.api.common.v1.ContextItem other) {
    return one.getRef().getRole().equals(other.getRef().getRole()) && one.getStepId().equals(other.getStepId());
  }

  /** Waits until the context has changed so many times since the attempt began. */
  public synchronized void awaitUpdates(int count) throws InterruptedException {
    while (updates < count) {
      wait();
    }
  }

  /** Returns a text about the other roles, for a coordinator; empty for all other roles. */
  public String awareness() {
    return assigned.getAwareness();
  }

  /** Returns the roles that a coordinator may delegate to, in dependency order; empty for all other roles. */
  public List<DelegationTarget> delegationTargets() {
    return assigned.getDelegationTargetsList().stream()
        .map(target -> new DelegationTarget(target.getRole(), target.getDescription()))
        .toList();
  }

  /** Returns the roles that wait for this task, outermost first. */
  public List<String> delegationChain() {
    return List.copyOf(assigned.getDelegationChainList());
  }

  /** Returns a description of a good answer; may be empty. */
  public String expectedOutput() {
    return assigned.getExpectedOutput();
  }

  /** Returns the JSON Schema of the answer, which is then one JSON part; empty if the step of the task has none. */
  public String outputSchemaJson() {
    return assigned.getOutputSchemaJson();
  }

  /** Returns why the result of the attempt before was refused; empty if it was not. */
  public String refusal() {
    return assigned.getRefusal();
  }

  /** Returns the step of the plan that the task executes; empty if it executes none. */
  public String stepId() {
    return assigned.getStepId();
  }

  /** Returns the only tools that the task may use, by name; empty if it may use any. */
  public List<String> allowedTools() {
    return List.copyOf(assigned.getAllowedToolsList());
  }

  /** Returns the arguments of the step's tool as one JSON object; empty if there are none. */
  public String toolArgsJson() {
    return assigned.getToolArgsJson();
  }

  /** Returns the task's place in a trace. */
  public TraceContext trace() {
    return new TraceContext(assigned.getTrace().getTraceparent(), assigned.getTrace().getTracestate());
  }

  /** Returns the metadata that the run was submitted with. */
  public Map<String, String> metadata() {
    return assigned.getMetadataMap();
  }

  /** Returns a key for calls to systems that deduplicate, the same for all attempts. */
  public String idempotencyKey() {
    return assigned.getIdempotencyKey();
  }

  /** Returns the id of the role's conversation in the session; empty if the task belongs to no session. */
  public String conversationId() {
    return assigned.getConversationId();
  }

  /** Returns the id of the run's session; empty if there is none. */
  public String sessionId() {
    int slash = conversationId().lastIndexOf('/');
    String session = slash < 0 ? "" : conversationId().substring(0, slash);
    return session.isEmpty() ? metadata().getOrDefault("dev.archon/session", "") : session;
  }

  /** Returns the version of {@link #history}: how many turns the conversation has had. */
  public long conversationVersion() {
    return assigned.getConversationVersion();
  }

  /** Returns the session history of a stateful role, oldest message first. */
  public List<HistoryMessage> history() {
    return assigned.getHistoryList().stream().map(HistoryMessage::of).toList();
  }

  /** Returns whether the role is stateful and the task belongs to a session: its answer extends the history. */
  public boolean remembers() {
    return remembers;
  }

  /** Returns the newest checkpoint of earlier attempts; empty if there is none. */
  public byte[] checkpoint() {
    return assigned.getResume().getCheckpoint().toByteArray();
  }

  /** Returns the answers of people to questions of this task, by the ids of the questions. */
  public Map<String, GivenAnswer> answers() {
    Map<String, GivenAnswer> answers = new LinkedHashMap<>();
    assigned.getResume().getAnswersList().forEach(answer -> answers.put(answer.getInputId(), GivenAnswer.of(answer)));
    return answers;
  }

  /** Returns the text of the answers of people, in the order of their arrival. */
  public String inputText() {
    return Wire.textOf(assigned.getResume().getInputsList());
  }

  /** Returns the policies wider than FINAL_RESPONSE_ONLY for which {@link Answer#items} has readers, narrowest first. */
  public List<PropagationPolicy> publishPolicies() {
    return assigned.getPublishPoliciesValueList().stream().map(PropagationPolicy::of).toList();
  }

  // The clock

  /** Returns the seconds left for this task; empty if there is no limit or the task waits for a person. */
  public synchronized OptionalDouble remaining() {
    if (Double.isNaN(deadline) || isStopped) {
      return OptionalDouble.empty();
    }
    return OptionalDouble.of(Math.max(0, deadline - Loop.now()));
  }

  synchronized void stopClock() {
    if (!isStopped) {
      stoppedWith = Double.isNaN(deadline) ? Double.NaN : Math.max(0, deadline - Loop.now());
      isStopped = true;
    }
  }

  synchronized void startClock() {
    if (isStopped) {
      isStopped = false;
      deadline = Double.isNaN(stoppedWith) ? Double.NaN : Loop.now() + stoppedWith;
    }
  }

  synchronized void setRemaining(double seconds) {
    if (isStopped) {
      stoppedWith = seconds;
    } else {
      deadline = Loop.now() + seconds;
    }
  }

  synchronized void halt(boolean over) {
    isCancelled = true;
    isOver |= over;
    notifyAll();
  }

  /** Returns whether the task was cancelled, or its time is over: the handler is to end. */
  public synchronized boolean isCancelled() {
    return isCancelled;
  }

  /**
   * Returns whether no attempt needs the result any more: the task was cancelled, or its time is over. A handler that is cancelled
   * while this is false was stopped because another attempt goes on with the task: work that it has begun in other systems must go on.
   */
  public synchronized boolean isOver() {
    return isOver;
  }
}
