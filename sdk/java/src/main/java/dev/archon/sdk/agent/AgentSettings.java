package dev.archon.sdk.agent;

import dev.archon.sdk.channel.Addresses;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.util.Arrays;
import java.util.List;

/**
 * Settings that depend on where the agent runs. Without a {@code registry} it serves unregistered. {@code dependsOn} replaces the
 * role's own dependencies unless it is null; {@code maxTasks} replaces the role's own unless it is 0. {@code ttl} is the lease of the
 * registration in seconds, {@code drain} how long tasks in progress may take after SIGTERM, in seconds. With {@code attach}, the
 * host:port of an orchestrator, the agent does not listen: it opens its sessions itself, and the orchestrator registers it. So it does
 * with {@code orchestrator}, the host:port of one, if none has dialled the agent within 20 s of its registration.
 */
public record AgentSettings(
    String host,
    int port,
    String registry,
    String advertise,
    List<String> dependsOn,
    int maxTasks,
    double ttl,
    double drain,
    String attach,
    String orchestrator,
    String memory,
    String readyFile) {
  /** Returns settings of an agent on a free port of this machine, without a registry. */
  public static AgentSettings local() {
    return new AgentSettings("127.0.0.1", 0, "", "", null, 0, 10.0, 30.0, "", "", "", "");
  }

  /** Returns these settings with a registry. */
  public AgentSettings withRegistry(String target) {
    return new AgentSettings(host, port, target, advertise, dependsOn, maxTasks, ttl, drain, attach, orchestrator, memory, readyFile);
  }

  /** Returns these settings with an orchestrator to attach to. */
  public AgentSettings withAttach(String target) {
    return new AgentSettings(host, port, registry, advertise, dependsOn, maxTasks, ttl, drain, target, orchestrator, memory, readyFile);
  }

  /** Returns these settings with a time for draining in seconds. */
  public AgentSettings withDrain(double seconds) {
    return new AgentSettings(host, port, registry, advertise, dependsOn, maxTasks, ttl, seconds, attach, orchestrator, memory, readyFile);
  }

  /**
   * Reads ARCHON_HOST, ARCHON_PORT, ARCHON_REGISTRY, ARCHON_ADVERTISE (host or host:port as others dial it), ARCHON_DEPENDS_ON (roles,
   * comma separated), ARCHON_MAX_TASKS, ARCHON_TTL, ARCHON_DRAIN, ARCHON_ATTACH, ARCHON_ORCHESTRATOR, ARCHON_MEMORY and ARCHON_READY_FILE. Throws
   * INVALID_ARGUMENT with the name of the variable.
   */
  public static AgentSettings of(Environment environment) {
    List<String> dependsOn = null;
    if (environment.has("ARCHON_DEPENDS_ON")) {
      dependsOn =
          Arrays.stream(environment.get("ARCHON_DEPENDS_ON").split(",")).map(String::strip).filter(s -> !s.isEmpty()).toList();
    }
    return new AgentSettings(
        environment.get("ARCHON_HOST", "127.0.0.1"),
        environment.whole("ARCHON_PORT", 0, 0, 65535),
        environment.get("ARCHON_REGISTRY"),
        environment.get("ARCHON_ADVERTISE"),
        dependsOn,
        environment.whole("ARCHON_MAX_TASKS", 0, 0, 100_000),
        environment.number("ARCHON_TTL", 10.0, 1.0, 3600.0),
        environment.number("ARCHON_DRAIN", 30.0, 0.0, 3600.0),
        target(environment, "ARCHON_ATTACH"),
        target(environment, "ARCHON_ORCHESTRATOR"),
        environment.get("ARCHON_MEMORY"),
        environment.get("ARCHON_READY_FILE"));
  }

  private static String target(Environment environment, String name) {
    String target = environment.get(name);
    if (!target.isEmpty() && !Addresses.hasPort(target)) {
      String text = "environment variable " + name + " is '" + target + "': not host:port";
      throw ArchonException.of(Reasons.INVALID_ARGUMENT, text).violation(name, "not host:port").build();
    }
    return target;
  }

  /** Returns host:port as others dial it. */
  public String advertised(int bound) {
    if (advertise.isEmpty()) {
      return Addresses.withPort(host, bound);
    }
    return Addresses.hasPort(advertise) ? advertise : Addresses.withPort(advertise, bound);
  }
}
