package dev.archon.sdk.types;

/**
 * Tokens, calls, and cost in millionths of a US dollar. A provider read {@code cachedInputTokens} of the input from its cache and
 * wrote {@code cacheWriteTokens}; {@code estimated}: the tokens are not the provider's figures.
 */
public record Usage(
    long inputTokens,
    long outputTokens,
    long modelCalls,
    long toolCalls,
    long costMicroUsd,
    long cachedInputTokens,
    long cacheWriteTokens,
    boolean estimated) {
  /** Nothing spent. */
  public static final Usage NONE = new Usage(0, 0, 0, 0, 0, 0, 0, false);

  /** Returns the usage of one call of a model. */
  public static Usage tokens(long input, long output) {
    return new Usage(input, output, 0, 0, 0, 0, 0, false);
  }

  /** Returns this usage with a cost. */
  public Usage withCost(long microUsd) {
    return new Usage(
        inputTokens, outputTokens, modelCalls, toolCalls, microUsd, cachedInputTokens, cacheWriteTokens, estimated);
  }

  /** Returns this usage with numbers of calls. */
  public Usage withCalls(long models, long tools) {
    return new Usage(
        inputTokens, outputTokens, models, tools, costMicroUsd, cachedInputTokens, cacheWriteTokens, estimated);
  }

  /** Returns the sum, which is estimated if one of the two is. */
  public Usage plus(Usage other) {
    return new Usage(
        inputTokens + other.inputTokens,
        outputTokens + other.outputTokens,
        modelCalls + other.modelCalls,
        toolCalls + other.toolCalls,
        costMicroUsd + other.costMicroUsd,
        cachedInputTokens + other.cachedInputTokens,
        cacheWriteTokens + other.cacheWriteTokens,
        estimated || other.estimated);
  }

  /** Returns the usage as a message. */
  public dev.archon.api.common.v1.Usage proto() {
    return dev.archon.api.common.v1.Usage.newBuilder()
        .setInputTokens(inputTokens)
        .setOutputTokens(outputTokens)
        .setModelCalls(modelCalls)
        .setToolCalls(toolCalls)
        .setCostMicroUsd(costMicroUsd)
        .setCachedInputTokens(cachedInputTokens)
        .setCacheWriteTokens(cacheWriteTokens)
        .setEstimated(estimated)
        .build();
  }

  /** Returns the usage that a message has. Agents report it themselves: a negative count reads as 0. */
  public static Usage of(dev.archon.api.common.v1.Usage message) {
    return new Usage(
        Math.max(0, message.getInputTokens()),
        Math.max(0, message.getOutputTokens()),
        Math.max(0, message.getModelCalls()),
        Math.max(0, message.getToolCalls()),
        Math.max(0, message.getCostMicroUsd()),
        Math.max(0, message.getCachedInputTokens()),
        Math.max(0, message.getCacheWriteTokens()),
        message.getEstimated());
  }
}
