package dev.archon.sdk.agent;

import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.types.Part;
import dev.archon.sdk.types.PropagationPolicy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** An item to publish besides a role's answer, for edges of this policy or a wider one. {@code parts} precede {@code text}. */
public record Item(String text, PropagationPolicy policy, List<Part> parts, Map<String, String> metadata) {
  /** Copies the parts and the metadata. */
  public Item {
    parts = List.copyOf(parts);
    metadata = Map.copyOf(metadata);
  }

  /** Returns an item for every edge. */
  public static Item of(String text) {
    return new Item(text, PropagationPolicy.FINAL_RESPONSE_ONLY, List.of(), Map.of());
  }

  List<dev.archon.api.common.v1.Part> messages() {
    List<dev.archon.api.common.v1.Part> messages = new ArrayList<>(Part.messages(parts));
    if (!text.isEmpty()) {
      messages.add(dev.archon.api.common.v1.Part.newBuilder().setText(Texts.clean(text)).build());
    }
    return messages;
  }
}
