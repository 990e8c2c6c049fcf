/** Roles and their instances, from the messages of the registry. */
import type { Registration } from "@api/archon/api/registry/v1/registry_pb.js";
import type { WatchResponse } from "@api/archon/api/registry/v1/registry_service_pb.js";
import { grouped } from "../../parts/grouped.js";

export type Instances = ReadonlyMap<string, Registration>;

export const NONE: Instances = new Map();

export interface Role {
  readonly name: string;
  readonly description: string;
  readonly versions: readonly string[];
  readonly instances: readonly Registration[];
  readonly slots: number;
}

/** Returns the instances after a change. */
export function changed(instances: Instances, change: WatchResponse): Instances {
  const gone = new Set(change.removedInstanceIds);
  const before = change.snapshot ? [] : [...instances].filter(([id]) => !gone.has(id));
  return new Map([...before, ...change.instances.map((each) => [each.instanceId, each] as const)]);
}

/** Returns the roles by name, each with its instances. */
export function rolesOf(instances: readonly Registration[]): Role[] {
  const groups = grouped(instances, (each) => each.role);
  const roles = groups.map(([name, of]) => ({
    name,
    description: of[0]?.description ?? "",
    versions: [...new Set(of.map((each) => each.version).filter(Boolean))].sort(),
    instances: of.toSorted((one, other) => one.instanceId.localeCompare(other.instanceId)),
    slots: of.reduce((sum, each) => sum + Math.max(1, each.maxTasks), 0),
  }));
  return roles.sort((one, other) => one.name.localeCompare(other.name));
}
