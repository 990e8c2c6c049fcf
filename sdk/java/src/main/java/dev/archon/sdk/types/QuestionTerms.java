package dev.archon.sdk.types;

import dev.archon.api.common.v1.TimeoutPolicy;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.internal.Wire;
import java.util.List;
import java.util.Locale;

/**
 * The approvers of a question, in the order in which they are asked (empty: any), its time limit in seconds (0: none), what
 * follows without an answer ({@code abort}, {@code default}, {@code escalate}; empty: abort), and the default answer.
 */
public record QuestionTerms(List<String> approvers, double timeout, String onTimeout, String defaultAnswer) {
  /** Throws INVALID_ARGUMENT for another {@code onTimeout}. */
  public QuestionTerms {
    approvers = List.copyOf(approvers);
    if (!List.of("", "abort", "default", "escalate").contains(onTimeout)) {
      throw ArchonException.invalid("on_timeout", "is '" + onTimeout + "'; it can be abort, default, escalate");
    }
  }

  /** Returns the terms as a message. */
  public dev.archon.api.common.v1.QuestionTerms proto() {
    String policy = onTimeout.isEmpty() ? "UNSPECIFIED" : onTimeout.toUpperCase(Locale.ROOT);
    dev.archon.api.common.v1.QuestionTerms.Builder message =
        dev.archon.api.common.v1.QuestionTerms.newBuilder()
            .addAllApprovers(approvers)
            .setOnTimeout(TimeoutPolicy.valueOf("TIMEOUT_POLICY_" + policy))
            .setDefaultAnswer(defaultAnswer);
    if (timeout > 0) {
      message.setTimeout(Wire.duration(timeout));
    }
    return message.build();
  }

  /** Returns the terms that a message has. */
  public static QuestionTerms of(dev.archon.api.common.v1.QuestionTerms message) {
    String policy = Wire.enumName(message.getOnTimeout(), "TIMEOUT_POLICY_");
    return new QuestionTerms(message.getApproversList(), Wire.seconds(message.getTimeout()), policy, message.getDefaultAnswer());
  }
}
