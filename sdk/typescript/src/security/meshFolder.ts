/** The folder of a mesh on this machine, as programs outside of the mesh find it: its token, its keys, its addresses. */
import { existsSync, lstatSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { hostOf, isLoopback, portOf } from "../loopback.js";

const NAME = ".archon";

/** Milliseconds between two looks for a folder: a mesh writes its addresses before it serves. */
const INTERVAL = 100;

interface MeshState {
  pid: number;
  tls?: unknown;
  processes: { kind: string; address: string }[];
}

/** The folder at `root`. It need not exist. */
export class MeshFolder {
  constructor(readonly root: string) {}

  /** The tokens of the user who started the mesh. */
  get tokenFile(): string {
    return join(this.root, "token");
  }

  /** The public keys that verify the tokens of the mesh. */
  get keysFile(): string {
    return join(this.root, "keys.json");
  }

  /** The folder of the certificate of the user who started the mesh, if its connections are encrypted. */
  get userCertificate(): string {
    return join(this.root, "tls", "user");
  }

  /** Whether a running mesh of this folder has a service at `target` (host:port). */
  serves(target: string): boolean {
    return has(this.#liveState(), target, ["service"]);
  }

  /** Whether a running mesh of this folder has a service or an agent at `target`, and encrypts its connections. */
  encrypts(target: string): boolean {
    const state = this.#liveState();
    return state !== undefined && Boolean(state.tls) && has(state, target, ["service", "agent"]);
  }

  /** Another program may listen at the addresses while the mesh does not run: it would get the token. */
  #liveState(): MeshState | undefined {
    try {
      if (isForeign(this.root)) return undefined;
      const lock = join(this.root, "lock");
      const state = JSON.parse(readFileSync(join(this.root, "state.json"), "utf8")) as MeshState;
      const holder = Number.parseInt(readFileSync(lock, "utf8"), 10);
      return state.pid === holder && isLocked(lock) && isAlive(holder) ? state : undefined;
    } catch {
      return undefined;
    }
  }
}

/** Whether another user could change a folder. */
function isForeign(path: string): boolean {
  const own = process.geteuid?.() ?? 0;
  for (const entry of [lstatSync(path), statSync(path)]) {
    if (entry.uid !== 0 && entry.uid !== own) return true;
  }
  return (statSync(path).mode & 0o022) !== 0;
}

/** Whether a process holds the lock of a file. Node.js has no flock: Linux lists locks; elsewhere the process decides. */
function isLocked(path: string): boolean {
  let locks: string;
  try {
    locks = readFileSync("/proc/locks", "utf8");
  } catch {
    return true;
  }
  if (locks.trim() === "") return true;
  return locks.includes(`:${statSync(path).ino} `);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function has(state: MeshState | undefined, target: string, kinds: string[]): boolean {
  const port = portOf(target);
  if (state === undefined || !/^\d+$/.test(port) || !isLoopback(hostOf(target))) return false;
  return state.processes.some(({ kind, address }) => kinds.includes(kind) && portOf(address) === port);
}

/** The folder of the mesh whose service is at `target`: looked for until it is found, in intervals. */
export class ServingFolder {
  #found: MeshFolder | undefined;
  #looked = -INTERVAL;

  constructor(readonly target: string) {}

  /** Returns the folder; undefined if none is found now. */
  find(): MeshFolder | undefined {
    const time = performance.now();
    if (this.#found === undefined && time - this.#looked >= INTERVAL) {
      this.#looked = time;
      this.#found = candidates().find((folder) => folder.serves(this.target));
    }
    return this.#found;
  }
}

/** Returns the folders in which a program looks for its mesh: ARCHON_HOME, or else the nearest. */
export function candidates(): MeshFolder[] {
  const configured = process.env["ARCHON_HOME"];
  if (configured) return [new MeshFolder(resolve(configured))];
  try {
    const nearest = nearestFolder(process.cwd());
    return existsSync(nearest) && lstatSync(nearest).isSymbolicLink() ? [] : [new MeshFolder(nearest)];
  } catch {
    return []; // the current directory has been removed
  }
}

/** Outside of a repository and of the user's home only `start` is searched: a folder above may be another user's. */
function nearestFolder(start: string): string {
  const searched: string[] = [];
  for (let folder = start; ; folder = dirname(folder)) {
    searched.push(join(folder, NAME));
    if (folder === homedir() || existsSync(join(folder, ".git"))) {
      return searched.find((each) => existsSync(each) && statSync(each).isDirectory()) ?? join(start, NAME);
    }
    if (dirname(folder) === folder) return join(start, NAME);
  }
}
