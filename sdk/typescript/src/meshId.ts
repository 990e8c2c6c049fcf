/**
 * The id of the mesh to which a process belongs (`ARCHON_MESH`). Registrations, sessions and attached streams carry it as
 * metadata; a server refuses another id than its own.
 */
import { FailedPrecondition } from "./errors.js";

export const MESH_ID_KEY = "archon-mesh-id";

/** Returns the metadata of a call from one member of the mesh to another. */
export function meshIdMetadata(): [string, string][] {
  const own = process.env["ARCHON_MESH"] ?? "";
  return own ? [[MESH_ID_KEY, own]] : [];
}

/** Throws FailedPrecondition if a caller with this id belongs to another mesh than this process. */
export function checkMeshId(given: string): void {
  const own = process.env["ARCHON_MESH"] ?? "";
  if (own && given && given !== own) {
    throw new FailedPrecondition(
      `this is a member of the mesh ${own}, and the caller belongs to the mesh ${given}: the address belongs to another ` +
        "mesh now; the file mesh-id in the folder of a mesh has its id",
      { metadata: { mesh: own } },
    );
  }
}
