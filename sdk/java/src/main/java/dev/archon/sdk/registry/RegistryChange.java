package dev.archon.sdk.registry;

import java.util.List;

/**
 * One change of a watch. In a snapshot {@code instances} are all live instances; otherwise they are new or changed, and
 * {@code removed} has the ids of instances that are gone. {@code graph} is null if it did not change.
 */
public record RegistryChange(
    long revision, boolean isSnapshot, List<Registration> instances, List<String> removed, Graph graph) {}
