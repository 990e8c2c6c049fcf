package dev.archon.sdk;

import dev.archon.api.orchestrator.v1.SubmitRunRequest;
import dev.archon.sdk.context.TraceContext;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Budget;
import dev.archon.sdk.types.Part;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** A run to submit: its goal, and what it is to be executed with. */
public final class Submission {
  private final List<dev.archon.api.common.v1.Part> goal;
  private final List<String> roles = new ArrayList<>();
  private final List<String> capabilities = new ArrayList<>();
  private final Map<String, String> versions = new LinkedHashMap<>();
  private final Map<String, String> metadata = new LinkedHashMap<>();
  private Strategy strategy = Strategy.DEFAULT;
  private String planner = "";
  private String sessionId = "";
  private String requestId = UUID.randomUUID().toString().replace("-", "");
  private String planJson = "";
  private boolean checkAlignment;
  private boolean pinVersions;
  private double timeout;
  private double waitSeconds;
  private Budget budget;

  private Submission(List<dev.archon.api.common.v1.Part> goal) {
    this.goal = goal;
  }

  /** Begins a run with a text. Throws INVALID_ARGUMENT for one that is not valid Unicode, MESSAGE_TOO_LARGE above 4 MiB. */
  public static Submission of(String goal) {
    return new Submission(content(goal, "the goal"));
  }

  /** Begins a run with parts. Throws MESSAGE_TOO_LARGE above 4 MiB. */
  public static Submission of(List<Part> goal) {
    return new Submission(content(goal, "the goal"));
  }

  static List<dev.archon.api.common.v1.Part> content(String text, String what) {
    if (!Texts.isClean(text)) {
      throw ArchonException.of(Reasons.INVALID_ARGUMENT, what + " is not valid Unicode: it has a lone surrogate").build();
    }
    return content(List.of(Part.text(text)), what);
  }

  static List<dev.archon.api.common.v1.Part> content(List<Part> parts, String what) {
    List<dev.archon.api.common.v1.Part> messages = Part.messages(parts);
    int size = messages.stream().mapToInt(dev.archon.api.common.v1.Part::getSerializedSize).sum();
    int most = Wire.MAX_CHECKED_BYTES - Wire.CONTENT_ROOM;
    if (size > most) {
      String text = "%s has %,d bytes, more than the %,d that a message takes; pass large content by URL";
      throw ArchonException.of(Reasons.MESSAGE_TOO_LARGE, String.format(text, what, size, most))
          .metadata("size", Integer.toString(size))
          .build();
    }
    return messages;
  }

  /** Names the roles that take part. */
  public Submission roles(String... names) {
    roles.addAll(List.of(names));
    return this;
  }

  /** Names capabilities, as an alternative to roles. */
  public Submission capabilities(String... names) {
    capabilities.addAll(List.of(names));
    return this;
  }

  /** Sets the strategy. */
  public Submission strategy(Strategy value) {
    strategy = value;
    return this;
  }

  /** Sets the role that plans, with the strategy PLAN. */
  public Submission planner(String role) {
    planner = role;
    return this;
  }

  /** The planner is asked, while its plan is executed, whether it still leads to the goal. */
  public Submission checkAlignment() {
    checkAlignment = true;
    return this;
  }

  /** Sets a plan as one JSON object that the run begins with. */
  public Submission plan(String json) {
    planJson = json;
    return this;
  }

  /** Sets the budget of the run. */
  public Submission budget(Budget value) {
    budget = value;
    return this;
  }

  /** Sets the user's session, by which runs share memory and conversations. */
  public Submission session(String id) {
    sessionId = id;
    return this;
  }

  /** Sets the request id in place of the one that was made: the same id and payload are one run. */
  public Submission requestId(String id) {
    requestId = id.isEmpty() ? requestId : id;
    return this;
  }

  /** Sets the time of the run in seconds; 1 h by default. */
  public Submission timeout(double seconds) {
    timeout = seconds;
    return this;
  }

  /** Sets for how many seconds the call waits for the run's end. */
  public Submission waitFor(double seconds) {
    waitSeconds = seconds;
    return this;
  }

  /** Adds metadata, which is delivered with every task; keys are in reverse DNS. */
  public Submission metadata(String key, String value) {
    metadata.put(key, value);
    return this;
  }

  /** Requires a version of the instances of a role, such as {@code 1.2} or {@code 1.*}. */
  public Submission version(String role, String version) {
    versions.put(role, version);
    return this;
  }

  /** All tasks of a role go to the version that its newest instance has as the run is submitted. */
  public Submission pinVersions() {
    pinVersions = true;
    return this;
  }

  double waitSeconds() {
    return waitSeconds;
  }

  SubmitRunRequest proto() {
    SubmitRunRequest.Builder request =
        SubmitRunRequest.newBuilder()
            .setRequestId(requestId)
            .addAllGoal(goal)
            .addAllRoles(roles)
            .addAllCapabilities(capabilities)
            .putAllVersions(versions)
            .setPinVersions(pinVersions)
            .setStrategy(strategy.proto())
            .setPlanner(planner)
            .setCheckAlignment(checkAlignment)
            .setSessionId(sessionId)
            .putAllMetadata(metadata)
            .setPlanJson(planJson);
    if (budget != null) {
      request.setBudget(budget.proto());
    }
    if (timeout != 0) {
      request.setTimeout(Wire.duration(timeout));
    }
    if (waitSeconds > 0) {
      request.setWait(Wire.duration(waitSeconds));
    }
    TraceContext trace = TraceContext.current();
    if (!trace.isEmpty()) { // in the request, because a Converse stream carries the requests of many callers
      request.getTraceBuilder().setTraceparent(trace.traceparent()).setTracestate(trace.tracestate());
    }
    return request.build();
  }
}
