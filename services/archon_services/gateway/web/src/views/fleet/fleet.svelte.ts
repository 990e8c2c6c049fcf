/** The instances and the graph of roles, as the registry streams them. */
import type { Graph } from "@api/archon/api/registry/v1/registry_pb.js";
import type { WatchResponse } from "@api/archon/api/registry/v1/registry_service_pb.js";
import { watchRegistry } from "../../api/events.js";
import { changed, NONE, rolesOf, type Instances } from "./roles.js";

export class Fleet {
  instances = $state.raw<Instances>(NONE);
  graph = $state.raw<Graph | undefined>();
  loaded = $state(false);
  connected = $state(true);
  failure = $state("");

  roles = $derived(rolesOf([...this.instances.values()]));

  /** Follows the registry. Returns a function that ends it. */
  start(): () => void {
    return watchRegistry({
      event: (change) => this.apply(change),
      connected: (yes) => (this.connected = yes),
      failure: (message) => (this.failure = message),
    });
  }

  apply(change: WatchResponse): void {
    this.instances = changed(this.instances, change);
    if (change.graph) this.graph = change.graph;
    this.loaded = true;
  }
}
