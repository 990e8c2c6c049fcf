package dev.archon.sdk.types;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.internal.Wire;

/**
 * A budget of a run or a delegation, or a slice of one. A field that is 0 sets no limit. {@code maxTokens} counts tokens read and
 * written; {@code maxCostMicroUsd} is in millionths of a US dollar; {@code maxTime} is in seconds; {@code maxDepth} is the depth to
 * which delegations may nest; {@code maxModelCalls} counts the calls of all agents.
 */
public record Budget(long maxTokens, long maxCostMicroUsd, double maxTime, int maxDepth, long maxModelCalls) {
  /** Throws INVALID_ARGUMENT if a limit is negative. */
  public Budget {
    if (maxTokens < 0 || maxCostMicroUsd < 0 || !(maxTime >= 0) || maxDepth < 0 || maxModelCalls < 0) {
      throw ArchonException.invalid("budget", "limits must be 0 or more");
    }
  }

  /** Returns a budget of tokens. */
  public static Budget tokens(long tokens) {
    return new Budget(tokens, 0, 0, 0, 0);
  }

  /** Returns the budget as a message. */
  public dev.archon.api.common.v1.Budget proto() {
    dev.archon.api.common.v1.Budget.Builder message =
        dev.archon.api.common.v1.Budget.newBuilder()
            .setMaxTokens(maxTokens)
            .setMaxCostMicroUsd(maxCostMicroUsd)
            .setMaxDepth(maxDepth)
            .setMaxModelCalls(maxModelCalls);
    if (maxTime > 0) {
      message.setMaxTime(Wire.duration(maxTime));
    }
    return message.build();
  }

  /** Returns the budget that a message has. A negative limit, which the mesh never sends, reads as 0. */
  public static Budget of(dev.archon.api.common.v1.Budget message) {
    return new Budget(
        Math.max(0, message.getMaxTokens()),
        Math.max(0, message.getMaxCostMicroUsd()),
        Math.max(0, Wire.seconds(message.getMaxTime())),
        Math.max(0, message.getMaxDepth()),
        Math.max(0, message.getMaxModelCalls()));
  }
}
