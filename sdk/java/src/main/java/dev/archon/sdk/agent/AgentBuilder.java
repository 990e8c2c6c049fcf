package dev.archon.sdk.agent;

import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.registry.Capability;
import dev.archon.sdk.registry.DependsOn;
import dev.archon.sdk.registry.Profile;
import dev.archon.sdk.registry.Registration;
import dev.archon.sdk.registry.Tool;
import dev.archon.sdk.tools.SharedTool;
import dev.archon.sdk.types.Message;
import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.OpenTelemetry;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Consumer;

/** The description of a role, from which {@link #build} makes its server. */
public final class AgentBuilder {
  private final String role;
  private String version = "0.1.0";
  private String description = "";
  private final List<Capability> capabilities = new ArrayList<>();
  private final List<Tool> tools = new ArrayList<>();
  private final List<SharedTool> sharedTools = new ArrayList<>();
  private final List<DependsOn> dependsOn = new ArrayList<>();
  private final Map<String, String> tags = new LinkedHashMap<>();
  private boolean allAncestors;
  private boolean coordinator;
  private boolean stateful;
  private boolean planner;
  private Profile profile;
  private String outputSchemaJson = "";
  private int maxTasks = 8;
  private int maxWaiting = 100;
  private ReplyHandler handler;
  private Consumer<Message> onDirect;
  private AgentSettings settings;
  private Environment environment = Environment.own();
  private OpenTelemetry telemetry;

  AgentBuilder(String role) {
    this.role = role;
  }

  /** Sets the version of the role: dotted numbers. */
  public AgentBuilder version(String value) {
    version = value;
    return this;
  }

  /** Sets the description, from which people and models choose a role. */
  public AgentBuilder description(String value) {
    description = value;
    return this;
  }

  /** Adds a capability. */
  public AgentBuilder capability(Capability value) {
    capabilities.add(value);
    return this;
  }

  /** Adds a tool that the role uses itself. */
  public AgentBuilder tool(Tool value) {
    tools.add(value);
    return this;
  }

  /** Adds a tool that other agents may lease and execute here. */
  public AgentBuilder sharedTool(SharedTool value) {
    sharedTools.add(value);
    return this;
  }

  /** Adds roles whose final answers the tasks of this role receive. */
  public AgentBuilder dependsOn(String... roles) {
    for (String each : roles) {
      dependsOn.add(DependsOn.of(each));
    }
    return this;
  }

  /** Adds a dependency. */
  public AgentBuilder dependsOn(DependsOn value) {
    dependsOn.add(value);
    return this;
  }

  /** Adds a label by which instances can be resolved. */
  public AgentBuilder tag(String key, String value) {
    tags.put(key, value);
    return this;
  }

  /** Tasks receive the answers of all ancestors, not only of the roles that this one depends on directly. */
  public AgentBuilder allAncestors() {
    allAncestors = true;
    return this;
  }

  /** Tasks receive descriptions of the other roles. */
  public AgentBuilder coordinator() {
    coordinator = true;
    return this;
  }

  /** Tasks receive the history of their session, and their answers extend it. */
  public AgentBuilder stateful() {
    stateful = true;
    return this;
  }

  /** Tasks receive requests for plans. */
  public AgentBuilder planner() {
    planner = true;
    return this;
  }

  /** Sets facts for callers and planners about the role. */
  public AgentBuilder profile(Profile value) {
    profile = value;
    return this;
  }

  /** Sets the JSON Schema of the role's answers, each of which is then one JSON part ({@link Answer#json}). */
  public AgentBuilder outputSchema(String json) {
    outputSchemaJson = json;
    return this;
  }

  /** Sets how many tasks run at once, over all orchestrators together; 8 by default. */
  public AgentBuilder maxTasks(int value) {
    maxTasks = value;
    return this;
  }

  /** Sets how many more tasks may wait for their delegations; 100 by default. */
  public AgentBuilder maxWaiting(int value) {
    maxWaiting = value;
    return this;
  }

  /** Sets the handler, which returns the text of the answer. */
  public AgentBuilder handler(Handler value) {
    handler = task -> Answer.of(value.handle(task));
    return this;
  }

  /** Sets a handler that returns an {@link Answer} or a {@link Question}. */
  public AgentBuilder replyHandler(ReplyHandler value) {
    handler = value;
    return this;
  }

  /**
   * Sets what handles messages that other instances deliver directly, outside of any run, one after the other. {@code senderId} is the
   * role of the sender by its credentials, empty in a mesh without. Without a handler such messages are refused.
   */
  public AgentBuilder onDirect(Consumer<Message> value) {
    onDirect = value;
    return this;
  }

  /** Sets the settings in place of those of the environment. */
  public AgentBuilder settings(AgentSettings value) {
    settings = value;
    return this;
  }

  /** Sets the variables that take the place of the environment of the process. */
  public AgentBuilder environment(Environment value) {
    environment = value;
    return this;
  }

  /** Sets OpenTelemetry in place of the global one. */
  public AgentBuilder openTelemetry(OpenTelemetry value) {
    telemetry = value;
    return this;
  }

  /**
   * Returns the server. Throws FAILED_PRECONDITION without a handler, INVALID_ARGUMENT for a name that registries refuse or a setting
   * that is out of range, ALREADY_EXISTS if two shared tools have the same name.
   */
  public AgentServer build() {
    if (handler == null) {
      throw ArchonException.of(Reasons.FAILED_PRECONDITION, "agent " + role + " has no handler").build();
    }
    if (maxTasks < 1 || maxWaiting < 0) {
      throw ArchonException.invalid("max_tasks", "must be at least 1, and max_waiting at least 0");
    }
    return new AgentServer(this);
  }

  /** Returns whether the program itself wants no registry. */
  boolean isAlone() {
    return settings != null && settings.registry().isEmpty();
  }

  AgentSettings settings() {
    return settings == null ? AgentSettings.of(environment) : settings;
  }

  Environment environment() {
    return environment;
  }

  OpenTelemetry telemetry() {
    return telemetry == null ? GlobalOpenTelemetry.getOrNoop() : telemetry;
  }

  List<SharedTool> sharedTools() {
    return sharedTools;
  }

  ReplyHandler replyHandler() {
    return handler;
  }

  Consumer<Message> directHandler() {
    return onDirect;
  }

  int maxWaiting() {
    return maxWaiting;
  }

  Registration registration(AgentSettings chosen, List<Tool> shared) {
    List<DependsOn> edges =
        chosen.dependsOn() == null ? dependsOn : chosen.dependsOn().stream().map(DependsOn::of).toList();
    String instanceId = role + "-" + UUID.randomUUID().toString().replace("-", "").substring(0, 12);
    return new Registration(
        instanceId, role, version, "", description, capabilities, Advertising.withShared(tools, shared), edges, tags,
        chosen.maxTasks() > 0 ? chosen.maxTasks() : maxTasks, chosen.ttl(), profile, allAncestors, coordinator, stateful, planner,
        outputSchemaJson, "", "", 0, "");
  }
}
