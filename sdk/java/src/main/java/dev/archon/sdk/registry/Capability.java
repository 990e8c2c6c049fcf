package dev.archon.sdk.registry;

import java.util.List;

/** A capability of a role, with the fields of an A2A skill. Tasks are matched by {@code id}: lower case, dots, dashes. */
public record Capability(
    String id,
    String name,
    String description,
    List<String> tags,
    List<String> examples,
    List<String> inputModes,
    List<String> outputModes) {
  /** Copies the lists. */
  public Capability {
    tags = List.copyOf(tags);
    examples = List.copyOf(examples);
    inputModes = List.copyOf(inputModes);
    outputModes = List.copyOf(outputModes);
  }

  /** Returns a capability with an id and a description. */
  public static Capability of(String id, String description) {
    return new Capability(id, "", description, List.of(), List.of(), List.of(), List.of());
  }
}
