package dev.archon.sdk.tools;

import dev.archon.sdk.registry.Registration;
import dev.archon.sdk.registry.Tool;
import dev.archon.sdk.registry.ToolShare;
import java.util.Comparator;
import java.util.List;

/** A tool that an instance shares, with its terms. */
public record FoundTool(Tool tool, String role, String instanceId, String address) {
  private static final int PRIOR_CALLS = 10;
  private static final double PRIOR_RATE = 0.9;

  /** Returns the success rate, 0 to 1; with few calls it is nearer to 0.9. */
  public double expectedSuccess() {
    ToolShare share = tool.share();
    long calls = share == null ? 0 : Math.max(0, share.calls());
    double rate = share == null || Double.isNaN(share.successRate()) ? 0 : Math.min(1, Math.max(0, share.successRate()));
    return (calls * rate + PRIOR_CALLS * PRIOR_RATE) / (calls + PRIOR_CALLS);
  }

  /** Returns the shared tools of registrations, of one name and role unless those are empty, best first. */
  static List<FoundTool> in(List<Registration> instances, String name, String role) {
    Comparator<FoundTool> rank =
        Comparator.<FoundTool>comparingDouble(each -> -Math.round(each.expectedSuccess() * 10))
            .thenComparingDouble(each -> each.tool().share().meanLatency())
            .thenComparing(FoundTool::role)
            .thenComparing(each -> each.tool().name())
            .thenComparing(FoundTool::instanceId);
    return instances.stream()
        .filter(instance -> role.isEmpty() || instance.role().equals(role))
        .flatMap(
            instance ->
                instance.tools().stream()
                    .filter(tool -> tool.share() != null && (name.isEmpty() || tool.name().equals(name)))
                    .map(tool -> new FoundTool(tool, instance.role(), instance.instanceId(), instance.address())))
        .sorted(rank)
        .toList();
  }
}
