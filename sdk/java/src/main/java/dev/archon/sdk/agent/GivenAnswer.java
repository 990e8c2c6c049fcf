package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.Input;
import dev.archon.api.agent.v1.ResumedInput;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Part;
import java.util.List;

/**
 * A person's answer to a question. {@code decision} is {@code approve}, {@code reject} or {@code modify}, empty if the question
 * was no approval; {@code identity} is empty if the default answer counts because no answer came in time.
 */
public record GivenAnswer(String inputId, String text, List<Part> parts, String decision, String identity) {
  static GivenAnswer of(Input input) {
    return new GivenAnswer(
        input.getInputId(),
        Wire.textOf(input.getPartsList()),
        Part.of(input.getPartsList()),
        Wire.enumName(input.getDecision(), "DECISION_"),
        input.getIdentity());
  }

  static GivenAnswer of(ResumedInput input) {
    return new GivenAnswer(
        input.getInputId(),
        Wire.textOf(input.getPartsList()),
        Part.of(input.getPartsList()),
        Wire.enumName(input.getDecision(), "DECISION_"),
        input.getIdentity());
  }
}
