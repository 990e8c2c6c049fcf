package dev.archon.sdk.errors;

/** An invalid field of a request, and why (google.rpc.BadRequest.FieldViolation). */
public record FieldViolation(String field, String description) {}
