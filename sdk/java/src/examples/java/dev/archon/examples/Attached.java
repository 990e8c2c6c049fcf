package dev.archon.examples;

import dev.archon.sdk.agent.AgentServer;
import dev.archon.sdk.agent.AgentSettings;
import dev.archon.sdk.channel.Environment;

/** An agent that cannot be dialled. */
final class Attached {
  private Attached() {}

  static AgentServer behindNat() {
    AgentSettings settings = AgentSettings.of(Environment.own()).withAttach("mesh.example:7100");
    return AgentServer.builder("reviewer").handler(task -> "fine").settings(settings).build();
  }
}
