package dev.archon.sdk.errors;

import io.grpc.Status;

/** Thrown by a handler to reject the task for good: no other instance of the role is tried. */
public final class TaskRejectedException extends ArchonException {
  private static final long serialVersionUID = 1L;

  /** Makes the rejection with a reason for people. */
  public TaskRejectedException(String message) {
    super(of(Status.Code.FAILED_PRECONDITION, message).reason("REJECTED"));
  }
}
