package dev.archon.sdk.tools;

import dev.archon.sdk.types.TaskRef;

/** The right to execute one tool for a limited time. Guarded by its owner's lock. */
final class Lease {
  final String id;
  final String toolName;
  final double expiresAt;
  final TaskRef task;
  final String instanceId;
  final CallWindow window;
  double usedAt;
  int calls;

  Lease(String id, String toolName, double expiresAt, TaskRef task, String instanceId, CallWindow window, double usedAt) {
    this.id = id;
    this.toolName = toolName;
    this.expiresAt = expiresAt;
    this.task = task;
    this.instanceId = instanceId;
    this.window = window;
    this.usedAt = usedAt;
  }

  /** Returns the id as logs show it: who knows the whole id may use the lease. */
  String shown() {
    return id.substring(0, 8);
  }
}
