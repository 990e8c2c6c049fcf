package dev.archon.sdk.context;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.TraceStateBuilder;
import java.util.stream.Collectors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A place in a trace (W3C Trace Context): the values of the headers {@code traceparent} and {@code tracestate}. */
public record TraceContext(String traceparent, String tracestate) {
  /** No trace. */
  public static final TraceContext NONE = new TraceContext("", "");

  private static final Pattern FORM = Pattern.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?");

  /** Returns the trace of calls made now: of the current OpenTelemetry span, or else of the call being served. */
  public static TraceContext current() {
    SpanContext span = Span.current().getSpanContext();
    return span.isValid() ? of(span) : CallContext.current().trace();
  }

  /** Returns the place of a span. */
  public static TraceContext of(SpanContext span) {
    String parent = "00-" + span.getTraceId() + "-" + span.getSpanId() + "-" + span.getTraceFlags().asHex();
    String state =
        span.getTraceState().asMap().entrySet().stream()
            .map(entry -> entry.getKey() + "=" + entry.getValue())
            .collect(Collectors.joining(","));
    return new TraceContext(parent, state);
  }

  /** Returns whether there is no trace. */
  public boolean isEmpty() {
    return traceparent.isEmpty();
  }

  /** Returns the span of another process at this place; an invalid one if the header is not valid. */
  public SpanContext remote() {
    Matcher match = FORM.matcher(traceparent.strip());
    if (!match.matches()
        || match.group(1).equals("ff")
        || (match.group(1).equals("00") && match.group(5) != null)) {
      return SpanContext.getInvalid();
    }
    TraceStateBuilder state = TraceState.builder();
    for (String entry : tracestate.split(",")) {
      String[] pair = entry.strip().split("=", 2);
      if (pair.length == 2) {
        state.put(pair[0], pair[1]);
      }
    }
    TraceFlags flags = TraceFlags.fromHex(match.group(4), 0);
    return SpanContext.createFromRemoteParent(match.group(2), match.group(3), flags, state.build());
  }
}
