package dev.archon.sdk.errors;

import io.grpc.Status;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;

/**
 * Every error that Archon raises on purpose, and every failure that a peer sent.
 *
 * <p>{@link #getMessage} is one clear sentence for people. Programs decide by {@link #code}, the canonical gRPC code, and by
 * {@link #reason}, a constant such as those in {@link Reasons}. {@link #kind} names a row of the catalogue of failures, from
 * which severity and advice follow unless the peer sent others.
 */
public class ArchonException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final Status.Code code;
  private final String reason;
  private final String kind;
  private final FailureClass failureClass;
  private final Severity severity;
  private final RetryAdvice retry;
  private final Double retryDelay;
  private final transient Map<String, String> metadata;
  private final transient List<FieldViolation> fieldViolations;
  private final transient List<ArchonException> causes;

  /** Makes the error that a builder describes. */
  protected ArchonException(Builder builder) {
    super(builder.message, builder.cause);
    code = builder.code;
    reason = builder.reason.isEmpty() ? Reasons.defaultReason(builder.code) : builder.reason;
    FailureKind entry = Reasons.kindOf(builder.kind, code.name(), reason);
    kind = builder.kind.isEmpty() ? entry.name() : builder.kind;
    failureClass = builder.failureClass == FailureClass.UNSPECIFIED ? entry.failureClass() : builder.failureClass;
    severity = builder.severity == null ? entry.severity() : builder.severity;
    retryDelay = builder.retryDelay;
    RetryAdvice advice = retryDelay == null ? entry.retry() : RetryAdvice.LATER;
    retry = builder.retry == null ? advice : builder.retry;
    metadata = Map.copyOf(builder.metadata);
    fieldViolations = List.copyOf(builder.violations);
    causes = List.copyOf(builder.causes);
  }

  /** Begins an error with a reason of the contract, which determines its code and kind. */
  public static Builder of(String reason, String message) {
    Reason known = Reasons.find(reason);
    return new Builder(known == null ? Status.Code.UNKNOWN : known.code(), message).reason(reason);
  }

  /** Begins an error with a gRPC code. */
  public static Builder of(Status.Code code, String message) {
    return new Builder(code, message);
  }

  /** Returns an INVALID_ARGUMENT error about one field. */
  public static ArchonException invalid(String field, String description) {
    return of(Reasons.INVALID_ARGUMENT, field + ": " + description).violation(field, description).build();
  }

  /** Returns the canonical gRPC code. */
  public Status.Code code() {
    return code;
  }

  /** Returns the reason, in UPPER_SNAKE_CASE. */
  public String reason() {
    return reason;
  }

  /** Returns whether this is the reason. */
  public boolean is(String name) {
    return reason.equals(name);
  }

  /** Returns the kind in the catalogue of failures, such as {@code tool.timeout}. */
  public String kind() {
    return kind;
  }

  /** Returns the class of the kind. */
  public FailureClass failureClass() {
    return failureClass;
  }

  /** Returns how severe the failure is. */
  public Severity severity() {
    return severity;
  }

  /** Returns whether a retry may succeed. */
  public RetryAdvice retry() {
    return retry;
  }

  /** Returns the seconds to wait before a retry; empty if there is no advice. */
  public OptionalDouble retryDelay() {
    return retryDelay == null ? OptionalDouble.empty() : OptionalDouble.of(retryDelay);
  }

  /** Returns the names of the objects involved. */
  public Map<String, String> metadata() {
    return metadata == null ? Map.of() : metadata;
  }

  /** Returns the invalid fields of the request. */
  public List<FieldViolation> fieldViolations() {
    return fieldViolations == null ? List.of() : fieldViolations;
  }

  /** Returns the errors that led to this one, outermost first. */
  public List<ArchonException> causes() {
    return causes == null ? List.of() : causes;
  }

  @Override
  public String toString() {
    String message = getMessage();
    return reason + (message == null || message.isEmpty() ? "" : ": " + message);
  }

  /** The parts of an error. */
  public static final class Builder {
    private final Status.Code code;
    private final String message;
    private String reason = "";
    private String kind = "";
    private FailureClass failureClass = FailureClass.UNSPECIFIED;
    private Severity severity;
    private RetryAdvice retry;
    private Double retryDelay;
    private Throwable cause;
    private final Map<String, String> metadata = new LinkedHashMap<>();
    private final List<FieldViolation> violations = new ArrayList<>();
    private final List<ArchonException> causes = new ArrayList<>();

    private Builder(Status.Code code, String message) {
      this.code = code == Status.Code.OK ? Status.Code.UNKNOWN : code;
      this.message = message == null ? "" : message;
    }

    /** Sets the reason; empty means the one of the code. */
    public Builder reason(String value) {
      reason = value;
      return this;
    }

    /** Sets the kind; empty means the one of the reason. */
    public Builder kind(String value) {
      kind = value;
      return this;
    }

    /** Sets the class of a kind that this version may not know. */
    public Builder failureClass(FailureClass value) {
      failureClass = value;
      return this;
    }

    /** Sets the severity; null means the one of the kind. */
    public Builder severity(Severity value) {
      severity = value;
      return this;
    }

    /** Sets the advice; null means the one of the kind, or LATER if there is a delay. */
    public Builder retry(RetryAdvice value) {
      retry = value;
      return this;
    }

    /** Sets the seconds to wait before a retry. */
    public Builder retryDelay(double seconds) {
      retryDelay = seconds;
      return this;
    }

    /** Adds an entry that names an object involved. */
    public Builder metadata(String key, String value) {
      metadata.put(key, value);
      return this;
    }

    /** Adds entries that name objects involved. */
    public Builder metadata(Map<String, String> entries) {
      metadata.putAll(entries);
      return this;
    }

    /** Adds an invalid field. */
    public Builder violation(String field, String description) {
      violations.add(new FieldViolation(field, description));
      return this;
    }

    /** Adds an error that led to this one. */
    public Builder causedBy(ArchonException error) {
      causes.add(error);
      return this;
    }

    /** Sets the exception of this process that led to this error. It never leaves the process. */
    public Builder cause(Throwable error) {
      cause = error;
      return this;
    }

    /** Returns the error. */
    public ArchonException build() {
      return new ArchonException(this);
    }
  }
}
