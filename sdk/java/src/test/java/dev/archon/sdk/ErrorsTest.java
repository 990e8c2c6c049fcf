package dev.archon.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.archon.api.common.v1.ErrorReason;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reason;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.errors.RetryAdvice;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import io.grpc.Status;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Errors go to both forms of the wire and back. */
class ErrorsTest {
  static Stream<Reason> reasons() {
    return Reasons.all().stream();
  }

  @Test
  void theTableHasEachReasonOfTheContract() {
    long known = Stream.of(ErrorReason.values()).filter(each -> each != ErrorReason.UNRECOGNIZED).count();
    assertEquals(known - 1, Reasons.all().size()); // without UNSPECIFIED
  }

  @ParameterizedTest
  @MethodSource("reasons")
  void aReasonSurvivesBothForms(Reason reason) {
    ArchonException error =
        ArchonException.of(reason.name(), "text")
            .metadata("key", "value")
            .violation("field", "why")
            .retryDelay(1.5)
            .causedBy(ArchonException.of(Reasons.NOT_FOUND, "inner").build())
            .build();
    ArchonException frame = Failures.fromFailure(Failures.toFailure(error));
    ArchonException call = Failures.of(Failures.toException(error));
    for (ArchonException back : new ArchonException[] {frame, call}) {
      assertEquals(reason.code(), back.code());
      assertEquals(reason.name(), back.reason());
      assertEquals(reason.kind().name(), back.kind());
      assertEquals("text", back.getMessage());
      assertEquals("value", back.metadata().get("key"));
      assertEquals("field", back.fieldViolations().get(0).field());
      assertEquals(1.5, back.retryDelay().getAsDouble());
      assertEquals(RetryAdvice.LATER, back.retry());
    }
    assertEquals("inner", frame.causes().get(0).getMessage());
  }

  @Test
  void aReasonOutsideOfTheContractSurvives() {
    ArchonException error = ArchonException.of(Status.Code.ABORTED, "x").reason("MY_OWN").kind("tool.crash").build();
    assertEquals("MY_OWN", Failures.fromFailure(Failures.toFailure(error)).reason());
    ArchonException call = Failures.of(Failures.toException(error));
    assertEquals("MY_OWN", call.reason());
    assertEquals("tool.crash", call.kind());
  }

  @Test
  void detailsStayBelowFourKilobytes() {
    ArchonException.Builder error = ArchonException.of(Reasons.INVALID_ARGUMENT, "x".repeat(10_000));
    for (int at = 0; at < 20; at++) {
      error.metadata("key" + at, "y".repeat(1_000)).violation("field" + at, "z".repeat(1_000));
    }
    assertTrue(Failures.toStatus(error.build()).getSerializedSize() <= 4_096);
  }

  @Test
  void anUnexpectedExceptionKeepsItsText() {
    ArchonException error = Failures.of(new IllegalStateException("secret"));
    assertEquals(Reasons.INTERNAL, error.reason());
    assertFalse(error.getMessage().contains("secret"));
  }

  @Test
  void aTextWithoutAPairOfSurrogatesIsCleaned() {
    assertEquals("a?b", Texts.clean("a\ud800b"));
    assertEquals("\ud83d\ude00", Texts.clean("\ud83d\ude00"));
  }

  @Test
  void secondsAreWholeMicroseconds() {
    assertEquals(1.25, Wire.seconds(Wire.duration(1.25)));
    assertEquals(-0.5, Wire.seconds(Wire.duration(-0.5)));
  }
}
