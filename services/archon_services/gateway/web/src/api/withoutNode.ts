/**
 * In place of @grpc/grpc-js and node:crypto for the checker of types: the page shares the fold of a run with the SDK for
 * TypeScript, and the build leaves out the modules there that use them.
 */
export class Metadata {
  readonly #values = new Map<string, (string | Uint8Array)[]>();

  get(key: string): (string | Uint8Array)[] {
    return this.#values.get(key) ?? [];
  }

  set(key: string, value: string | Uint8Array): void {
    this.#values.set(key, [value]);
  }
}

export interface ServiceError extends Error {
  code: number;
  details: string;
  metadata: Metadata;
}

export const status: Record<string, number> = {};

export function randomBytes(count: number): Buffer {
  throw new Error(`${count} random bytes were asked for in a browser`);
}
