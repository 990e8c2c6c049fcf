/** The description of itself that a process registers, and its conversion to and from the contract. */
import { create } from "@bufbuild/protobuf";
import { randomBytes } from "node:crypto";
import {
  CapabilitySchema,
  ProfileSchema,
  ToolSchema,
  type Tool as ToolMessage,
} from "../api/archon/api/common/v1/capability_pb.js";
import { DependsOnSchema, RegistrationSchema, type Registration as Message } from "../api/archon/api/registry/v1/registry_pb.js";
import { policyFromProto, policyToProto, type PropagationPolicy } from "../agent/values.js";
import { durationOf, toInt64, toMs } from "../wire.js";

/** A capability of a role, with the fields of an A2A skill. Tasks are matched by `id`. */
export interface Capability {
  readonly id: string;
  readonly name?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly examples?: readonly string[];
  readonly inputModes?: readonly string[];
  readonly outputModes?: readonly string[];
}

/** The terms on which a tool is shared, and how the calls of other agents have ended. */
export interface ToolShare {
  readonly maxCallsPerMinute: number;
  readonly calls: number;
  readonly successRate: number;
  readonly meanLatencyMs: number;
}

/** A tool of a role, with the fields of an MCP tool. With `share`, other agents may lease it. */
export interface Tool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  /** JSON Schema of the arguments. */
  readonly inputSchemaJson?: string;
  readonly outputSchemaJson?: string;
  readonly readOnly?: boolean;
  readonly destructive?: boolean;
  readonly idempotent?: boolean;
  readonly openWorld?: boolean;
  readonly share?: ToolShare | undefined;
}

/** A dependency: the role waits for the answers of `role`. */
export interface DependsOn {
  readonly role: string;
  readonly policy?: PropagationPolicy;
}

/** Further facts about a role; 0 means unknown. */
export interface Profile {
  readonly instructions?: string;
  readonly expectedLatencyMs?: number;
  readonly expectedCostMicroUsd?: number;
  readonly expectedQuality?: number;
  readonly messageTypes?: Readonly<Record<string, string>>;
  readonly promptTemplate?: string;
}

/** A running process that serves a role. The registry sets the last four fields; they are ignored when registering. */
export interface Registration {
  readonly instanceId: string;
  readonly role: string;
  readonly version: string;
  readonly address: string;
  readonly description: string;
  readonly capabilities: readonly Capability[];
  readonly tools: readonly Tool[];
  readonly dependsOn: readonly DependsOn[];
  readonly tags: Readonly<Record<string, string>>;
  readonly maxTasks: number;
  readonly ttlMs: number;
  readonly profile?: Profile | undefined;
  readonly allAncestors: boolean;
  readonly coordinator: boolean;
  readonly stateful: boolean;
  readonly planner: boolean;
  readonly outputSchemaJson: string;
  readonly tenant?: string;
  readonly identity?: string;
  readonly revision?: number;
  readonly viaOrchestrator?: string;
}

/** Returns a new id of an instance of a role. */
export function newInstanceId(role: string): string {
  return `${role || "instance"}-${randomBytes(6).toString("hex")}`;
}

/** Returns the registration of a role, with what is not given as by default. */
export function registrationOf(given: Partial<Registration> & { role: string }): Registration {
  return {
    instanceId: newInstanceId(given.role),
    version: "",
    address: "",
    description: "",
    capabilities: [],
    tools: [],
    dependsOn: [],
    tags: {},
    maxTasks: 1,
    ttlMs: 10_000,
    allAncestors: false,
    coordinator: false,
    stateful: false,
    planner: false,
    outputSchemaJson: "",
    ...given,
  };
}

export function toolToProto(tool: Tool): ToolMessage {
  const { name, title = "", description = "", inputSchemaJson = "", outputSchemaJson = "", share } = tool;
  const { readOnly = false, destructive = false, idempotent = false, openWorld = false } = tool;
  return create(ToolSchema, {
    name,
    title,
    description,
    inputSchemaJson,
    outputSchemaJson,
    hints: { readOnly, destructive, idempotent, openWorld },
    ...(share !== undefined && {
      share: {
        maxCallsPerMinute: share.maxCallsPerMinute,
        calls: BigInt(share.calls),
        successRate: share.successRate,
        meanLatency: durationOf(share.meanLatencyMs),
      },
    }),
  });
}

export function toolFromProto(message: ToolMessage): Tool {
  const { name, title, description, inputSchemaJson, outputSchemaJson, hints, share } = message;
  return {
    name,
    title,
    description,
    inputSchemaJson,
    outputSchemaJson,
    readOnly: hints?.readOnly ?? false,
    destructive: hints?.destructive ?? false,
    idempotent: hints?.idempotent ?? false,
    openWorld: hints?.openWorld ?? false,
    share: share && {
      maxCallsPerMinute: share.maxCallsPerMinute,
      calls: Number(share.calls),
      successRate: share.successRate,
      meanLatencyMs: toMs(share.meanLatency),
    },
  };
}

/** Returns a registration as a message, without the fields that the registry sets. */
export function registrationToProto(registration: Registration): Message {
  const { profile } = registration;
  return create(RegistrationSchema, {
    instanceId: registration.instanceId,
    role: registration.role,
    version: registration.version,
    address: registration.address,
    description: registration.description,
    capabilities: registration.capabilities.map((each) =>
      create(CapabilitySchema, {
        id: each.id,
        name: each.name ?? "",
        description: each.description ?? "",
        tags: [...(each.tags ?? [])],
        examples: [...(each.examples ?? [])],
        inputModes: [...(each.inputModes ?? [])],
        outputModes: [...(each.outputModes ?? [])],
      }),
    ),
    tools: registration.tools.map(toolToProto),
    dependsOn: registration.dependsOn.map(({ role, policy = "final_response_only" }) =>
      create(DependsOnSchema, { role, policy: policyToProto(policy) }),
    ),
    tags: { ...registration.tags },
    maxTasks: registration.maxTasks,
    ttl: durationOf(registration.ttlMs),
    allAncestors: registration.allAncestors,
    coordinator: registration.coordinator,
    stateful: registration.stateful,
    planner: registration.planner,
    outputSchemaJson: registration.outputSchemaJson,
    ...(profile !== undefined && {
      profile: create(ProfileSchema, {
        instructions: profile.instructions ?? "",
        expectedLatencyMs: toInt64(profile.expectedLatencyMs ?? 0, "expectedLatencyMs"),
        expectedCostMicroUsd: toInt64(profile.expectedCostMicroUsd ?? 0, "expectedCostMicroUsd"),
        expectedQuality: profile.expectedQuality ?? 0,
        messageTypes: { ...profile.messageTypes },
        promptTemplate: profile.promptTemplate ?? "",
      }),
    }),
  });
}

export function registrationFromProto(message: Message): Registration {
  const { profile } = message;
  return {
    instanceId: message.instanceId,
    role: message.role,
    version: message.version,
    address: message.address,
    description: message.description,
    capabilities: message.capabilities.map(({ id, name, description, tags, examples, inputModes, outputModes }) => {
      return { id, name, description, tags, examples, inputModes, outputModes };
    }),
    tools: message.tools.map(toolFromProto),
    dependsOn: message.dependsOn.map(({ role, policy }) => ({ role, policy: policyFromProto(policy) })),
    tags: { ...message.tags },
    maxTasks: message.maxTasks,
    ttlMs: toMs(message.ttl),
    profile: profile && {
      instructions: profile.instructions,
      expectedLatencyMs: Number(profile.expectedLatencyMs),
      expectedCostMicroUsd: Number(profile.expectedCostMicroUsd),
      expectedQuality: profile.expectedQuality,
      messageTypes: { ...profile.messageTypes },
      promptTemplate: profile.promptTemplate,
    },
    allAncestors: message.allAncestors,
    coordinator: message.coordinator,
    stateful: message.stateful,
    planner: message.planner,
    outputSchemaJson: message.outputSchemaJson,
    tenant: message.tenant,
    identity: message.identity,
    revision: Number(message.revision),
    viaOrchestrator: message.viaOrchestrator,
  };
}
