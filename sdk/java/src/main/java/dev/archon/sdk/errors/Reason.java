package dev.archon.sdk.errors;

import io.grpc.Status;

/** A reason of the contract: its number in {@code ErrorReason}, the gRPC code of its errors, and their kind. */
public record Reason(String name, int number, Status.Code code, FailureKind kind) {}
