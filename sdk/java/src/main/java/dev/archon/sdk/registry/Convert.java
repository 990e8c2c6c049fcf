package dev.archon.sdk.registry;

import dev.archon.api.common.v1.ToolHints;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.PropagationPolicy;
import java.util.Map;

/** Conversion of registrations and edges to and from messages. */
public final class Convert {
  private Convert() {}

  /** Returns the message of a registration, without the fields that the registry sets. */
  public static dev.archon.api.registry.v1.Registration toProto(Registration registration) {
    dev.archon.api.registry.v1.Registration.Builder message =
        dev.archon.api.registry.v1.Registration.newBuilder()
            .setInstanceId(registration.instanceId())
            .setRole(registration.role())
            .setVersion(registration.version())
            .setAddress(registration.address())
            .setDescription(Texts.clean(registration.description()))
            .setMaxTasks(registration.maxTasks())
            .setAllAncestors(registration.allAncestors())
            .setCoordinator(registration.coordinator())
            .setStateful(registration.stateful())
            .setPlanner(registration.planner())
            .setOutputSchemaJson(Texts.clean(registration.outputSchemaJson()))
            .setTtl(Wire.duration(registration.ttl()));
    registration.tags().forEach((key, value) -> message.putTags(Texts.clean(key), Texts.clean(value)));
    registration.capabilities().forEach(each -> message.addCapabilities(toProto(each)));
    registration.tools().forEach(each -> message.addTools(toProto(each)));
    registration.dependsOn()
        .forEach(each -> message.addDependsOnBuilder().setRole(each.role()).setPolicy(each.policy().proto()));
    Profile profile = registration.profile();
    if (profile != null) {
      message.getProfileBuilder()
          .setInstructions(Texts.clean(profile.instructions()))
          .setExpectedLatencyMs(profile.expectedLatencyMs())
          .setExpectedCostMicroUsd(profile.expectedCostMicroUsd())
          .setExpectedQuality(profile.expectedQuality())
          .putAllMessageTypes(profile.messageTypes())
          .setPromptTemplate(Texts.clean(profile.promptTemplate()));
    }
    return message.build();
  }

  /** Returns the registration that a message has. */
  public static Registration fromProto(dev.archon.api.registry.v1.Registration message) {
    dev.archon.api.common.v1.Profile profile = message.getProfile();
    return new Registration(
        message.getInstanceId(),
        message.getRole(),
        message.getVersion(),
        message.getAddress(),
        message.getDescription(),
        message.getCapabilitiesList().stream().map(Convert::fromProto).toList(),
        message.getToolsList().stream().map(Convert::fromProto).toList(),
        message.getDependsOnList().stream()
            .map(each -> new DependsOn(each.getRole(), PropagationPolicy.of(each.getPolicyValue())))
            .toList(),
        Map.copyOf(message.getTagsMap()),
        message.getMaxTasks(),
        Wire.seconds(message.getTtl()),
        message.hasProfile()
            ? new Profile(
                profile.getInstructions(),
                profile.getExpectedLatencyMs(),
                profile.getExpectedCostMicroUsd(),
                profile.getExpectedQuality(),
                profile.getMessageTypesMap(),
                profile.getPromptTemplate())
            : null,
        message.getAllAncestors(),
        message.getCoordinator(),
        message.getStateful(),
        message.getPlanner(),
        message.getOutputSchemaJson(),
        message.getTenant(),
        message.getIdentity(),
        message.getRevision(),
        message.getViaOrchestrator());
  }

  private static dev.archon.api.common.v1.Capability toProto(Capability capability) {
    return dev.archon.api.common.v1.Capability.newBuilder()
        .setId(capability.id())
        .setName(Texts.clean(capability.name()))
        .setDescription(Texts.clean(capability.description()))
        .addAllTags(capability.tags())
        .addAllExamples(capability.examples())
        .addAllInputModes(capability.inputModes())
        .addAllOutputModes(capability.outputModes())
        .build();
  }

  private static Capability fromProto(dev.archon.api.common.v1.Capability message) {
    return new Capability(
        message.getId(),
        message.getName(),
        message.getDescription(),
        message.getTagsList(),
        message.getExamplesList(),
        message.getInputModesList(),
        message.getOutputModesList());
  }

  /** Returns the message of a tool. */
  public static dev.archon.api.common.v1.Tool toProto(Tool tool) {
    dev.archon.api.common.v1.Tool.Builder message =
        dev.archon.api.common.v1.Tool.newBuilder()
            .setName(Texts.clean(tool.name()))
            .setTitle(Texts.clean(tool.title()))
            .setDescription(Texts.clean(tool.description()))
            .setInputSchemaJson(Texts.clean(tool.inputSchemaJson()))
            .setOutputSchemaJson(Texts.clean(tool.outputSchemaJson()))
            .setHints(
                ToolHints.newBuilder()
                    .setReadOnly(tool.readOnly())
                    .setDestructive(tool.destructive())
                    .setIdempotent(tool.idempotent())
                    .setOpenWorld(tool.openWorld()));
    ToolShare share = tool.share();
    if (share != null) {
      message.getShareBuilder()
          .setMaxCallsPerMinute(share.maxCallsPerMinute())
          .setCalls(share.calls())
          .setSuccessRate(share.successRate())
          .setMeanLatency(Wire.duration(share.meanLatency()));
    }
    return message.build();
  }

  /** Returns the tool that a message has. */
  public static Tool fromProto(dev.archon.api.common.v1.Tool message) {
    dev.archon.api.common.v1.ToolShare share = message.getShare();
    return new Tool(
        message.getName(),
        message.getTitle(),
        message.getDescription(),
        message.getInputSchemaJson(),
        message.getOutputSchemaJson(),
        message.getHints().getReadOnly(),
        message.getHints().getDestructive(),
        message.getHints().getIdempotent(),
        message.getHints().getOpenWorld(),
        message.hasShare()
            ? new ToolShare(
                share.getMaxCallsPerMinute(),
                share.getCalls(),
                share.getSuccessRate(),
                Wire.seconds(share.getMeanLatency()))
            : null);
  }
}
