/** The member of a mesh that a call is for. */

/** The servers that accept a token. */
export type Audience = "services" | "agents";

/** A service by its name, or the agents of a role. */
export interface Peer {
  readonly kind: "service" | "agent";
  readonly name: string;
}

export const ORCHESTRATOR: Peer = { kind: "service", name: "orchestrator" };
export const REGISTRY: Peer = { kind: "service", name: "registry" };
export const MEMORY: Peer = { kind: "service", name: "memory" };

/** Returns the agents of a role. */
export function agentPeer(role: string): Peer {
  return { kind: "agent", name: role };
}

/** Returns the audience of tokens that are presented to a member. */
export function audienceOf(peer: Peer): Audience {
  return peer.kind === "service" ? "services" : "agents";
}
