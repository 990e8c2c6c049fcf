package dev.archon.sdk.tools;

import dev.archon.sdk.registry.Tool;
import dev.archon.sdk.types.TaskRef;
import java.util.List;

/** The tools that an agent shares now; others may be added and taken back while it serves. */
public final class SharedTools {
  private final ToolOwner owner;

  /** Wraps the owner's side. */
  public SharedTools(ToolOwner owner) {
    this.owner = owner;
  }

  /** A lease that is in force; {@code task} and {@code instanceId} are in the words of its holder. */
  public record LeaseView(
      String leaseId, String toolName, double secondsLeft, TaskRef task, String instanceId, int callsInProgress) {}

  /** Returns the tools with their terms and current figures, sorted by name. */
  public List<Tool> tools() {
    return owner.advertised();
  }

  /** Returns the leases that are in force. */
  public List<LeaseView> leases() {
    return owner.leases();
  }

  /** Shares a tool from now on. Throws ALREADY_EXISTS if one of its name is shared. */
  public void share(SharedTool tool) {
    owner.share(tool);
  }

  /** Takes a tool back at once: its leases end, and so do its calls in progress. Returns the number of leases that ended. */
  public int revoke(String toolName) {
    return owner.revoke(toolName);
  }

  /** Ends a lease at once, with its calls in progress. Returns whether it was in force. */
  public boolean revokeLease(String leaseId) {
    return owner.revokeLease(leaseId, true);
  }
}
