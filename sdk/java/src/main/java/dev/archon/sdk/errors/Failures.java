package dev.archon.sdk.errors;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.archon.api.common.v1.ErrorReason;
import dev.archon.api.common.v1.Failure;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import java.io.InterruptedIOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;

/**
 * Conversion of errors: to and from a gRPC status with google.rpc details, and the flat {@code Failure} of frames and events.
 *
 * <p>Details follow https://google.aip.dev/193: one ErrorInfo in the domain {@code archon.dev}, BadRequest for invalid fields,
 * RetryInfo if waiting helps. They stay below 4 KB: larger trailers fail at random.
 */
public final class Failures {
  /** The domain of reasons. */
  public static final String DOMAIN = "archon.dev";

  private static final String REASON_KEY = "archon.dev/reason";
  private static final String KIND_KEY = "archon.dev/kind";
  private static final int MAX_DETAILS_BYTES = 4096;
  private static final int MAX_CAUSES = 16;
  private static final Pattern TOO_LARGE = Pattern.compile("(larger than max|exceeds maximum)");
  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);
  private static final System.Logger LOG = System.getLogger("dev.archon.sdk");

  private Failures() {}

  /** Converts any exception; an unexpected one becomes INTERNAL, and its text is only logged, under an incident id. */
  public static ArchonException of(Throwable raised) {
    return of(raised, "");
  }

  /** Converts any exception; an unexpected one becomes INTERNAL of this kind. */
  public static ArchonException of(Throwable raised, String kind) {
    if (raised instanceof ArchonException error) {
      return error;
    }
    if (raised instanceof StatusRuntimeException error) {
      return fromStatus(error.getStatus(), error.getTrailers());
    }
    if (raised instanceof StatusException error) {
      return fromStatus(error.getStatus(), error.getTrailers());
    }
    if ((raised instanceof ExecutionException || raised instanceof CompletionException) && raised.getCause() != null) {
      return of(raised.getCause(), kind);
    }
    if (raised instanceof TimeoutException) {
      return ArchonException.of(Reasons.DEADLINE_EXCEEDED, "the deadline passed").cause(raised).build();
    }
    if (raised instanceof InterruptedException
        || raised instanceof InterruptedIOException
        || raised instanceof CancellationException) {
      return ArchonException.of(Reasons.CANCELLED, "the call was cancelled").cause(raised).build();
    }
    if (raised instanceof InvalidProtocolBufferException) {
      String text = "the bytes are not a message of the contract, or a string is not UTF-8";
      return ArchonException.of(Reasons.MALFORMED_MESSAGE, text).build();
    }
    if (raised instanceof OutOfMemoryError) {
      String outOfMemory = "infrastructure.out_of_memory";
      return ArchonException.of(Reasons.RESOURCE_EXHAUSTED, "the process has no more memory").kind(outOfMemory).build();
    }
    String incident = UUID.randomUUID().toString().replace("-", "").substring(0, 12);
    LOG.log(System.Logger.Level.ERROR, "internal error, incident " + incident, raised);
    String text = "internal error; see incident " + incident + " in the log of the process";
    return ArchonException.of(Reasons.INTERNAL, text).metadata("incident", incident).kind(kind).cause(raised).build();
  }

  /** Returns the trailers of an error: its details. */
  public static Metadata trailers(ArchonException error) {
    Metadata trailers = new Metadata();
    trailers.put(DETAILS, toStatus(error).toByteArray());
    return trailers;
  }

  /** Returns an exception that ends a server's call with an error and its details. */
  public static StatusRuntimeException toException(ArchonException error) {
    Status status = Status.fromCode(error.code()).withDescription(Texts.cut(text(error), 1024));
    return status.asRuntimeException(trailers(error));
  }

  /** Returns google.rpc.Status, at most 4 KB: long texts are cut, details that do not fit are dropped. */
  public static com.google.rpc.Status toStatus(ArchonException error) {
    com.google.rpc.Status.Builder status =
        com.google.rpc.Status.newBuilder().setCode(error.code().value()).setMessage(Texts.cut(text(error), 1024));
    ErrorInfo.Builder info = ErrorInfo.newBuilder().setReason(head(error.reason(), 63)).setDomain(DOMAIN);
    error.metadata().entrySet().stream()
        .limit(6)
        .forEach(entry -> info.putMetadata(head(entry.getKey(), 63), Texts.cut(entry.getValue(), 256)));
    if (!error.kind().equals(Reasons.kindOf("", error.code().name(), error.reason()).name())) {
      info.putMetadata(KIND_KEY, head(error.kind(), 63));
    }
    add(status, info.build());
    error.retryDelay().ifPresent(s -> add(status, RetryInfo.newBuilder().setRetryDelay(Wire.duration(s)).build()));
    if (!error.fieldViolations().isEmpty()) {
      BadRequest.Builder bad = BadRequest.newBuilder();
      error.fieldViolations().stream()
          .limit(5)
          .forEach(
              v ->
                  bad.addFieldViolationsBuilder()
                      .setField(Texts.cut(v.field(), 64))
                      .setDescription(Texts.cut(v.description(), 128)));
      add(status, bad.build());
    }
    return status.build();
  }

  private static void add(com.google.rpc.Status.Builder status, Message detail) {
    Any packed = Any.pack(detail);
    if (status.clone().buildPartial().getSerializedSize() + packed.getSerializedSize() + 8 <= MAX_DETAILS_BYTES) {
      status.addDetails(packed);
    }
  }

  /** Returns the error that a server raised; one of the code if the server is not part of Archon. */
  public static ArchonException fromStatus(Status status, Metadata trailers) {
    byte[] details = trailers == null ? null : trailers.get(DETAILS);
    if (details != null) {
      try {
        return fromStatus(com.google.rpc.Status.parseFrom(details));
      } catch (InvalidProtocolBufferException malformed) {
        LOG.log(System.Logger.Level.DEBUG, "the details of an error cannot be read");
      }
    }
    String text = status.getDescription() == null ? status.getCode().name() : status.getDescription();
    if (status.getCode() == Status.Code.RESOURCE_EXHAUSTED && TOO_LARGE.matcher(text).find()) {
      return ArchonException.of(Reasons.MESSAGE_TOO_LARGE, text).build();
    }
    if (status.getCode() == Status.Code.UNAVAILABLE && status.getCause() != null) {
      text += ": " + status.getCause().getMessage();
    }
    return ArchonException.of(status.getCode(), text).cause(status.getCause()).build();
  }

  /** Returns the error of a google.rpc.Status, with the same reason and details. */
  public static ArchonException fromStatus(com.google.rpc.Status status) {
    ArchonException.Builder error = ArchonException.of(code(status.getCode()), status.getMessage());
    for (Any packed : status.getDetailsList()) {
      try {
        if (packed.is(ErrorInfo.class)) {
          ErrorInfo info = packed.unpack(ErrorInfo.class);
          if (info.getDomain().equals(DOMAIN)) {
            Map<String, String> metadata = new HashMap<>(info.getMetadataMap());
            String kind = metadata.remove(KIND_KEY);
            error.reason(info.getReason()).kind(kind == null ? "" : kind).metadata(metadata);
          }
        } else if (packed.is(RetryInfo.class)) {
          error.retryDelay(Wire.seconds(packed.unpack(RetryInfo.class).getRetryDelay()));
        } else if (packed.is(BadRequest.class)) {
          packed.unpack(BadRequest.class).getFieldViolationsList()
              .forEach(v -> error.violation(v.getField(), v.getDescription()));
        }
      } catch (InvalidProtocolBufferException malformed) {
        LOG.log(System.Logger.Level.DEBUG, "a detail of an error cannot be read");
      }
    }
    return error.build();
  }

  /** Returns the flat form for frames and events. A reason that is not in the contract goes into metadata. */
  public static Failure toFailure(ArchonException error) {
    Failure.Builder failure = flat(error);
    Deque<ArchonException> waiting = new ArrayDeque<>(error.causes());
    while (!waiting.isEmpty() && failure.getCausesCount() < MAX_CAUSES) {
      ArchonException cause = waiting.pop();
      failure.addCauses(flat(cause));
      List<ArchonException> inner = new ArrayList<>(cause.causes());
      for (int i = inner.size() - 1; i >= 0; i--) {
        waiting.push(inner.get(i));
      }
    }
    return failure.build();
  }

  private static Failure.Builder flat(ArchonException error) {
    Failure.Builder failure =
        Failure.newBuilder()
            .setCode(error.code().value())
            .setMessage(Texts.cut(text(error), 1024))
            .setFailureClassValue(error.failureClass().ordinal())
            .setRetryValue(error.retry().number())
            .setSeverityValue(error.severity().number())
            .setKind(Texts.clean(error.kind()));
    error.metadata().forEach((key, value) -> failure.putMetadata(Texts.clean(key), Texts.clean(value)));
    error.fieldViolations()
        .forEach(
            v ->
                failure.addFieldViolationsBuilder()
                    .setField(Texts.clean(v.field()))
                    .setDescription(Texts.clean(v.description())));
    Reason known = Reasons.find(error.reason());
    if (known != null) {
      failure.setReasonValue(known.number());
    } else {
      failure.putMetadata(REASON_KEY, Texts.clean(error.reason()));
    }
    error.retryDelay().ifPresent(seconds -> failure.setRetryDelay(Wire.duration(seconds)));
    return failure;
  }

  /** Returns the error of a failure. An enum value that this version does not know reads as unset. */
  public static ArchonException fromFailure(Failure failure) {
    Map<String, String> metadata = new HashMap<>(failure.getMetadataMap());
    String named = metadata.remove(REASON_KEY);
    Reason known = Reasons.find(failure.getReasonValue());
    String reason = named != null ? named : known == null ? "" : known.name();
    ArchonException.Builder error =
        ArchonException.of(code(failure.getCode()), failure.getMessage())
            .reason(reason)
            .kind(failure.getKind())
            .failureClass(FailureClass.of(failure.getFailureClassValue()))
            .severity(Severity.of(failure.getSeverityValue()))
            .retry(RetryAdvice.of(failure.getRetryValue()))
            .metadata(metadata);
    if (failure.hasRetryDelay()) {
      error.retryDelay(Wire.seconds(failure.getRetryDelay()));
    }
    failure.getFieldViolationsList().forEach(v -> error.violation(v.getField(), v.getDescription()));
    failure.getCausesList().forEach(cause -> error.causedBy(fromFailure(cause)));
    return error.build();
  }

  /** Returns the name of a reason of the enum without its prefix; empty if it is unset or unknown. */
  public static String reasonName(ErrorReason reason) {
    Reason known = reason == ErrorReason.UNRECOGNIZED ? null : Reasons.find(reason.getNumber());
    return known == null ? "" : known.name();
  }

  private static Status.Code code(int number) {
    Status.Code code = Status.fromCodeValue(number).getCode();
    return number < 1 || number > 16 ? Status.Code.UNKNOWN : code;
  }

  private static String text(ArchonException error) {
    String message = error.getMessage();
    return message == null || message.isEmpty() ? error.reason() : message;
  }

  private static String head(String text, int limit) {
    return Texts.clean(text.length() <= limit ? text : text.substring(0, limit));
  }
}
