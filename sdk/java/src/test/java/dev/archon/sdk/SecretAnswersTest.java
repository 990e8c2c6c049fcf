package dev.archon.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.archon.sdk.SecretAnswers.SecretQuestion;
import dev.archon.sdk.errors.ArchonException;
import java.util.List;
import org.junit.jupiter.api.Test;

class SecretAnswersTest {
  @Test
  void anAnswerIsReadByItsQuestionAlone() {
    SecretQuestion question = new SecretQuestion();
    String sealed = SecretAnswers.seal(question.schemaJson(), "hunter2 é");
    assertFalse(sealed.contains("hunter2"));
    assertEquals("hunter2 é", question.open(sealed));
    assertThrows(ArchonException.class, () -> new SecretQuestion().open(sealed));
    for (String answer : List.of("hunter2", "sealed:", "sealed:!", "sealed:AAAA", "")) {
      ArchonException refused = assertThrows(ArchonException.class, () -> question.open(answer));
      assertFalse(refused.getMessage().contains("hunter2"));
    }
  }

  @Test
  void anAnswerThatCannotBeSealedIsRefused() {
    String schema = new SecretQuestion().schemaJson();
    assertTrue(SecretAnswers.isSecret(schema));
    assertFalse(SecretAnswers.isSecret("{\"type\": \"string\"}"));
    String large = "x".repeat(SecretAnswers.MAX_SECRET + 1);
    assertThrows(ArchonException.class, () -> SecretAnswers.seal(schema, large));
    assertThrows(ArchonException.class, () -> SecretAnswers.seal(schema, ""));
    for (String other : List.of("{\"type\": \"string\"}", "no JSON", "{\"x-archon-public-key\": \"AAAA\"}")) {
      assertThrows(ArchonException.class, () -> SecretAnswers.seal(other, "x"));
    }
  }
}
