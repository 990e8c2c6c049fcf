package dev.archon.sdk.agent;

import com.google.protobuf.ByteString;
import dev.archon.api.agent.v1.InputRequest;
import dev.archon.api.common.v1.QuestionKind;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Part;
import dev.archon.sdk.types.QuestionTerms;
import java.util.List;

/**
 * A question to a person. Returned from a handler, it ends the attempt and frees its slot, and the run's clock stops; the next
 * attempt, on any instance, has the answer in {@link Task#answers} and {@code checkpoint} as {@link Task#checkpoint}.
 *
 * <p>{@code schemaJson} is a JSON Schema that the answer must match, empty for free text; {@code inputId} is unique in the task,
 * empty for one that the SDK makes. Of an approval a decision is expected; {@code terms} is null for anyone, without limit.
 */
public record Question(
    String text,
    List<Part> parts,
    String schemaJson,
    byte[] checkpoint,
    String inputId,
    boolean isApproval,
    QuestionTerms terms,
    String subjectJson)
    implements Reply {
  /** Copies the parts. */
  public Question {
    parts = List.copyOf(parts);
  }

  /** Returns a question in words. */
  public static Question of(String text) {
    return new Question(text, List.of(), "", new byte[0], "", false, null, "");
  }

  /** Returns this question with a schema of the answer. */
  public Question withSchema(String json) {
    return new Question(text, parts, json, checkpoint, inputId, isApproval, terms, subjectJson);
  }

  /** Returns this question with a checkpoint for the next attempt. */
  public Question withCheckpoint(byte[] data) {
    return new Question(text, parts, schemaJson, data, inputId, isApproval, terms, subjectJson);
  }

  /** Returns this question with an id. */
  public Question withId(String id) {
    return new Question(text, parts, schemaJson, checkpoint, id, isApproval, terms, subjectJson);
  }

  /** Returns this question with terms. */
  public Question withTerms(QuestionTerms value) {
    return new Question(text, parts, schemaJson, checkpoint, inputId, isApproval, value, subjectJson);
  }

  /** Returns this question as an approval of a subject: one JSON object, or empty. */
  public Question asApproval(String subject) {
    return new Question(text, parts, schemaJson, checkpoint, inputId, true, terms, subject);
  }

  /** Returns the question as a message, with this id. */
  public InputRequest proto(String id) {
    InputRequest.Builder request =
        InputRequest.newBuilder()
            .setInputId(Texts.clean(id))
            .setSchemaJson(Texts.clean(schemaJson))
            .addAllPrompt(Part.messages(parts))
            .setSubjectJson(Texts.clean(subjectJson));
    if (isApproval) {
      request.setKind(QuestionKind.QUESTION_KIND_APPROVAL);
    }
    if (!text.isEmpty()) {
      request.addPromptBuilder().setText(Texts.clean(text));
    }
    if (terms != null) {
      request.setTerms(terms.proto());
    }
    return request.build();
  }

  /** Returns the question that a message has. */
  public static Question of(InputRequest request, ByteString checkpoint) {
    List<Part> others = request.getPromptList().stream().filter(part -> !Wire.isText(part)).map(Part::of).toList();
    return new Question(
        Wire.textOf(request.getPromptList()),
        others,
        request.getSchemaJson(),
        checkpoint.toByteArray(),
        request.getInputId(),
        request.getKind() == QuestionKind.QUESTION_KIND_APPROVAL,
        request.hasTerms() ? QuestionTerms.of(request.getTerms()) : null,
        request.getSubjectJson());
  }
}
