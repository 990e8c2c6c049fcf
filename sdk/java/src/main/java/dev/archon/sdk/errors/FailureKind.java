package dev.archon.sdk.errors;

/** A row of the catalogue of failures: its name, such as {@code tool.timeout}, how severe it is, and whether a retry may help. */
public record FailureKind(String name, FailureClass failureClass, Severity severity, RetryAdvice retry) {}
