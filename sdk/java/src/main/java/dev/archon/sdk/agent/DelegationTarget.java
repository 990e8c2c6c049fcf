package dev.archon.sdk.agent;

/** A role that a coordinator may delegate to. */
public record DelegationTarget(String role, String description) {}
