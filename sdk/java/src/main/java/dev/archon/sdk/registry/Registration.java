package dev.archon.sdk.registry;

import dev.archon.sdk.errors.ArchonException;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * A running process that serves a role: {@code address} is host:port as others dial it, {@code version} is dotted numbers,
 * {@code ttl} the lease in seconds, 1 to 3600. The registry sets {@code tenant}, {@code identity}, {@code revision} and
 * {@code viaOrchestrator}.
 */
public record Registration(
    String instanceId,
    String role,
    String version,
    String address,
    String description,
    List<Capability> capabilities,
    List<Tool> tools,
    List<DependsOn> dependsOn,
    Map<String, String> tags,
    int maxTasks,
    double ttl,
    Profile profile,
    boolean allAncestors,
    boolean coordinator,
    boolean stateful,
    boolean planner,
    String outputSchemaJson,
    String tenant,
    String identity,
    long revision,
    String viaOrchestrator) {
  private static final Pattern ROLE = Pattern.compile("[a-z][a-z0-9-]{0,62}");
  private static final Pattern CAPABILITY = Pattern.compile("[a-z0-9][a-z0-9._-]{0,127}");
  private static final Pattern VERSION = Pattern.compile("([0-9]{1,9}(\\.[0-9]{1,9}){0,5})?");

  /** Copies the lists. */
  public Registration {
    capabilities = List.copyOf(capabilities);
    tools = List.copyOf(tools);
    dependsOn = List.copyOf(dependsOn);
    tags = Map.copyOf(tags);
  }

  /** Returns a registration of a role, with defaults for the rest. */
  public static Registration of(String instanceId, String role, String address) {
    return new Registration(
        instanceId, role, "", address, "", List.of(), List.of(), List.of(), Map.of(), 1, 10.0, null, false, false, false, false,
        "", "", "", 0, "");
  }

  /** Returns this registration under another address. */
  public Registration withAddress(String value) {
    return new Registration(
        instanceId, role, version, value, description, capabilities, tools, dependsOn, tags, maxTasks, ttl, profile,
        allAncestors, coordinator, stateful, planner, outputSchemaJson, tenant, identity, revision, viaOrchestrator);
  }

  /** Returns this registration with other tools. */
  public Registration withTools(List<Tool> value) {
    return new Registration(
        instanceId, role, version, address, description, capabilities, value, dependsOn, tags, maxTasks, ttl, profile,
        allAncestors, coordinator, stateful, planner, outputSchemaJson, tenant, identity, revision, viaOrchestrator);
  }

  /** Throws INVALID_ARGUMENT for a name or version that every registry refuses. */
  public void checkNames() {
    checkRole(role);
    dependsOn.forEach(dependency -> checkRole(dependency.role()));
    for (Capability capability : capabilities) {
      if (!CAPABILITY.matcher(capability.id()).matches()) {
        throw ArchonException.invalid(
            "capabilities", "invalid capability '" + capability.id() + "': use 1 to 128 lower case letters a to z, digits,"
                + " dots, dashes and underscores");
      }
    }
    if (!VERSION.matcher(version).matches()) {
      throw ArchonException.invalid("version", "invalid version '" + version + "': use dotted numbers, such as 1.2.0");
    }
  }

  private static void checkRole(String name) {
    if (!ROLE.matcher(name).matches()) {
      throw ArchonException.invalid(
          "role", "invalid role name '" + name + "': use 1 to 63 lower case letters a to z, digits and dashes, beginning with"
              + " a letter");
    }
  }
}
