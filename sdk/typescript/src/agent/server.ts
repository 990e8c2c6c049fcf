/** AgentServer: one role as a full member of the mesh. */
import { AgentService, type RunTaskRequest } from "../api/archon/api/agent/v1/agent_service_pb.js";
import { outsideOfCalls } from "../context.js";
import { FailedPrecondition, InvalidArgument, type ArchonError } from "../errors.js";
import { FEATURES } from "../frames.js";
import { checkCapability, checkRole, checkVersion } from "../identifiers.js";
import { log } from "../log.js";
import { WorkingMemoryClient } from "../memory/working.js";
import { RegistryClient } from "../registry/client.js";
import {
  newInstanceId,
  registrationOf,
  registrationToProto,
  type Capability,
  type DependsOn,
  type Profile,
  type Registration,
  type Tool,
} from "../registry/registration.js";
import type { RegistrationHandle } from "../registry/registrationHandle.js";
import { Authenticator, LearntKeys } from "../security/authenticator.js";
import { GrpcServer, type ServedCall, type Service } from "../server.js";
import { asError } from "../status.js";
import { Advertising, withShared } from "../tools/owner/advertising.js";
import { toolService } from "../tools/owner/servicer.js";
import { ToolOwner } from "../tools/owner/toolOwner.js";
import type { SharedTool } from "../tools/sharedTool.js";
import { Attachment } from "./attachment.js";
import type { Attempt, Handler } from "./attempt.js";
import { AttemptTable } from "./attemptTable.js";
import { withMessages, type OnMessage } from "./messageHandler.js";
import { unreached } from "./reachability.js";
import { announce, withdraw } from "./readyFile.js";
import type { Outcome } from "./result.js";
import { runTask } from "./runTask.js";
import { PROTOCOL } from "./openLimits.js";
import { AgentSession } from "./session.js";
import type { SessionAgent } from "./sessionAgent.js";
import { SessionBoard } from "./sessionBoard.js";
import { advertised, settingsFromEnvironment, type AgentSettings } from "./settings.js";
import { serveSession } from "./stream.js";
import type { Task } from "./task.js";
import { bidHandler, typedHandler, type OnBid } from "./typedHandler.js";

/** Milliseconds that a drain waits for results to be acknowledged. */
const ACK_GRACE = 5_000;

/** Milliseconds that the start of an attached agent waits for an orchestrator. */
const ATTACH_TIMEOUT = 10_000;

/** What an agent says about its role, and how many tasks it takes. Whatever is not given is as by default. */
export interface AgentOptions {
  /** Dotted numbers; 0.1.0 by default. */
  readonly version?: string;
  /** For people and for models that choose a role. */
  readonly description?: string;
  readonly capabilities?: readonly Capability[];
  readonly tools?: readonly Tool[];
  /** Tools that other agents may lease and execute here. */
  readonly sharedTools?: readonly SharedTool[];
  /** The roles whose answers its tasks receive. */
  readonly dependsOn?: readonly (DependsOn | string)[];
  readonly allAncestors?: boolean;
  readonly coordinator?: boolean;
  readonly stateful?: boolean;
  readonly planner?: boolean;
  readonly profile?: Profile;
  readonly tags?: Readonly<Record<string, string>>;
  /** JSON Schema of the answers, which are then JSON values: the handler returns values that match it. */
  readonly output?: object;
  /** How many tasks run at once, over all orchestrators together; 8 by default. */
  readonly maxTasks?: number;
  /** How many more may wait for their delegations; 100 by default. */
  readonly maxWaiting?: number;
  /** Handles messages of other agents while the handler works; of these topics besides those for the task. */
  readonly onMessage?: OnMessage;
  readonly messageTopics?: readonly string[];
  /** Bids for a step of a plan; by default with the estimates of the profile. */
  readonly bid?: OnBid;
  /** In place of the environment, or of a part of it. */
  readonly settings?: Partial<AgentSettings>;
}

/** Options of `run`. */
export interface RunProcessOptions {
  /** Stops the agent as SIGTERM does. */
  readonly signal?: AbortSignal;
  /** Is called once it serves, with the address. */
  readonly onReady?: (address: string) => void;
}

/** Serves a role on host:port and keeps it registered, or attaches it to an orchestrator. */
export class AgentServer implements SessionAgent {
  readonly settings: AgentSettings;
  readonly instanceId: string;
  readonly attempts: AttemptTable;
  readonly handler: Handler;
  readonly bidHandler: Handler;
  /** @internal */
  registration: Registration;
  readonly #owner: ToolOwner;
  readonly #board: SessionBoard;
  #server: GrpcServer | undefined;
  #registry: RegistryClient | undefined;
  #handle: RegistrationHandle | undefined;
  #advertising: Advertising | undefined;
  #attachment: Attachment | undefined;
  readonly #unreached = new AbortController();
  /** The wait until it is known whether an orchestrator can dial the agent. */
  #reaching: Promise<void> = Promise.resolve();
  /** Whether the program itself wants no registry. */
  readonly #isAlone: boolean;
  #isDraining = false;
  #leftBehind = 0;
  #stopped: Promise<void> | undefined;

  /** Throws InvalidArgument if a name or a schema is not valid, AlreadyExists if two shared tools have the same name. */
  constructor(
    readonly role: string,
    options: AgentOptions,
    handler: (task: Task) => Outcome | Promise<Outcome> | unknown,
  ) {
    this.settings = { ...settingsFromEnvironment(), ...options.settings };
    this.#isAlone = options.settings?.registry === "";
    const chosen = this.settings.dependsOn ?? options.dependsOn ?? [];
    this.#owner = new ToolOwner(options.sharedTools);
    this.instanceId = newInstanceId(role);
    this.registration = registrationOf({
      role,
      instanceId: this.instanceId,
      version: options.version ?? "0.1.0",
      description: options.description ?? "",
      capabilities: options.capabilities ?? [],
      tools: withShared(options.tools ?? [], this.#owner.advertised),
      dependsOn: chosen.map((each) => (typeof each === "string" ? { role: each } : each)),
      tags: options.tags ?? {},
      allAncestors: options.allAncestors ?? false,
      coordinator: options.coordinator ?? false,
      stateful: options.stateful ?? false,
      planner: options.planner ?? false,
      profile: options.profile,
      outputSchemaJson: options.output === undefined ? "" : JSON.stringify(options.output),
      maxTasks: this.settings.maxTasks || (options.maxTasks ?? 8),
      ttlMs: this.settings.ttlMs,
    });
    checkRole(role);
    for (const edge of this.registration.dependsOn) checkRole(edge.role);
    for (const capability of this.registration.capabilities) checkCapability(capability.id);
    checkVersion(this.registration.version);
    const { maxTasks } = this.registration;
    if (!Number.isInteger(maxTasks) || maxTasks < 1) throw new InvalidArgument(`maxTasks is ${maxTasks}, and must be at least 1`);
    const typed = options.output === undefined ? handler : typedHandler(handler, options.output);
    const { onMessage, messageTopics = [] } = options;
    this.handler = onMessage === undefined ? typed : withMessages(typed, onMessage, messageTopics);
    this.bidHandler = bidHandler(options.bid, options.profile);
    this.attempts = new AttemptTable(maxTasks, () => this.#board.announce(), this.settings.memory);
    this.#board = new SessionBoard(this, this.attempts, options.maxWaiting ?? 100);
  }

  /** Whether the role is stateful. @internal */
  get stateful(): boolean {
    return this.registration.stateful;
  }

  /** Whether it stops, and takes no new tasks. */
  get draining(): boolean {
    return this.#isDraining;
  }

  /** host:port as bound; empty before `start`, and if the agent is attached. */
  get address(): string {
    return this.#server?.address ?? "";
  }

  /** The tools that other agents may lease and execute here: which are shared, who has leased them, taking them back. */
  get sharedTools(): ToolOwner {
    return this.#owner;
  }

  /** Whether the registry, or the orchestrator that it is attached to, is known to have the registration. */
  get registered(): boolean {
    return this.#handle?.registered ?? this.#attachment?.error === undefined;
  }

  /**
   * Starts serving, then registers if a registry is configured; while that is unreachable, registration continues in the
   * background. With `settings.attach` it attaches instead. Returns the address. Throws Unavailable if the port is taken, and
   * the errors with which the registration is refused.
   */
  async start(): Promise<string> {
    try {
      return await (this.settings.attach ? this.#attach(this.settings.attach) : this.#serve());
    } catch (error) {
      await this.stop({ graceMs: 0 });
      throw error;
    }
  }

  async #serve(): Promise<string> {
    const { settings } = this;
    const keys = new LearntKeys(settings.registry);
    const services = [this.#service(), toolService(this.#owner)];
    this.#server = new GrpcServer(services, settings.host, settings.port, new Authenticator(keys));
    const address = await this.#server.start();
    this.#board.start();
    this.registration = { ...this.registration, address: advertised(settings, this.#server.port) };
    if (!settings.registry) {
      const hint = "`archon status` shows the address of that of a mesh on this machine";
      if (!this.#isAlone) log("warning", `no registry is configured (ARCHON_REGISTRY), so no orchestrator finds this agent; ${hint}`);
      return address;
    }
    this.#registry = new RegistryClient(settings.registry, {
      onRegistered: (keysJson, tenant) => keys.tell(keysJson, tenant),
    });
    this.#handle = await this.#registry.register(this.registration);
    this.#advertising = new Advertising(this.#owner, this.#handle, (registration) => {
      this.registration = registration;
    });
    this.#advertising.start();
    if (settings.orchestrator && this.#owner.advertised.length === 0) {
      this.#reaching = outsideOfCalls(() => this.#attachIfUnreached(settings.orchestrator));
    }
    return address;
  }

  async #attach(target: string): Promise<string> {
    if (this.#owner.advertised.length > 0) {
      throw new FailedPrecondition("an attached agent cannot lend tools: other agents cannot dial it");
    }
    this.#board.start();
    this.#attachment = new Attachment(this, target);
    await this.#attachment.start(ATTACH_TIMEOUT);
    return target;
  }

  async #attachIfUnreached(target: string): Promise<void> {
    const { signal } = this.#unreached;
    const reachable = {
      isRegistered: () => this.#handle?.registered ?? false,
      isReached: () => this.#board.isReached,
    };
    if (!(await unreached(target, reachable, signal))) return;
    log("warning", `no orchestrator can dial ${this.instanceId} at ${this.registration.address}: attaching to ${target}`);
    await this.#registry?.close();
    if (signal.aborted) return;
    this.registration = { ...this.registration, address: "" };
    this.#attachment = new Attachment(this, target);
    await this.#attachment.start(ATTACH_TIMEOUT).catch((error: unknown) => {
      log("error", `the orchestrator at ${target} refuses ${this.instanceId}: ${asError(error).message}`);
    });
  }

  /**
   * Drains: deregisters, takes no new tasks, finishes tasks in progress within the grace, waits a little for results to be
   * acknowledged, then ends. Tasks that take longer are given back: other instances get them. Idempotent.
   */
  stop({ graceMs = this.settings.drainMs } = {}): Promise<void> {
    this.#stopped ??= this.#stop(graceMs);
    return this.#stopped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stop(graceMs: number): Promise<void> {
    this.#isDraining = true;
    this.#unreached.abort();
    this.#server?.unhealthy();
    this.#board.drain();
    this.#owner.drain();
    this.#advertising?.close();
    await this.#registry?.close();
    const { attempts } = this;
    const until = performance.now() + graceMs;
    const isIdle = await attempts.waitUntil(() => attempts.working === 0, graceMs);
    if (!isIdle) log("warning", `stopping with ${attempts.working} tasks in progress: they are given back`);
    await this.#owner.drained(Math.max(0, until - performance.now()));
    const isAcked = (): boolean => !this.#board.hasSessions || attempts.size <= attempts.working;
    if (!(await attempts.waitUntil(isAcked, Math.min(graceMs, ACK_GRACE))) && graceMs > 0) {
      log("warning", "stopping with results that were never acknowledged");
    }
    this.#leftBehind = (await this.#owner.stop()) + (await attempts.stop());
    if (this.#attachment === undefined) this.#board.endAll();
    await this.#attachment?.close();
    await this.#reaching;
    this.#board.close();
    await this.#server?.stop(1_000);
    WorkingMemoryClient.closeShared();
  }

  /**
   * Serves until SIGTERM or SIGINT, then drains. Returns the exit code, which it also sets: 0 after a drain, 1 if the agent
   * could not start, or the registry refuses its registration. A process with a handler that ignores its cancellation is ended.
   */
  async run({ signal, onReady = (): void => undefined }: RunProcessOptions = {}): Promise<number> {
    let stop = (): void => undefined;
    let refusal: ArchonError | undefined;
    const stopped = new Promise<void>((resolve) => {
      stop = resolve;
    });
    for (const name of ["SIGTERM", "SIGINT"] as const) process.on(name, stop);
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    const alive = setInterval(() => undefined, 0x7fffffff); // a process that only attaches must not end while it waits
    try {
      const address = await this.start();
      if (this.#handle !== undefined) {
        this.#handle.onInvalid = (error): void => {
          refusal = error;
          stop();
        };
      }
      await announce(this.settings.readyFile, address);
      log("info", `${this.instanceId} ${this.#state(address)}`);
      onReady(address);
      await stopped;
      const { working } = this.attempts;
      const grace = `: ${working} ${working === 1 ? "task" : "tasks"} in progress may take up to ${this.settings.drainMs / 1000} s`;
      log("info", `${this.instanceId} stops${working > 0 ? grace : ""}`);
      await this.stop();
      await withdraw(this.settings.readyFile);
    } catch (error) {
      refusal = asError(error);
    } finally {
      clearInterval(alive);
      for (const name of ["SIGTERM", "SIGINT"] as const) process.off(name, stop);
    }
    if (refusal !== undefined) log("error", refusal.message);
    const code = refusal === undefined ? 0 : 1;
    process.exitCode = code;
    if (this.#leftBehind > 0) process.exit(1); // the process would wait for ever for a handler that ignores its cancellation
    return code;
  }

  #state(address: string): string {
    const { attach, registry } = this.settings;
    if (attach) return this.#attachment?.isAttached ? `is attached to ${address}` : `is not attached to ${address} yet`;
    return `serves on ${address}${registry && !this.registered ? `, and is not registered at ${registry} yet` : ""}`;
  }

  #service(): Service {
    return {
      descriptor: AgentService,
      unary: {
        describe: () => ({
          registration: registrationToProto(this.registration),
          protocols: [PROTOCOL],
          features: [...FEATURES],
          inputModes: ["text/plain"],
          outputModes: ["text/plain"],
          runningTasks: this.attempts.working,
        }),
      },
      streaming: { runTask: ({ task }: RunTaskRequest, call: ServedCall) => runTask(this, task, call) },
      duplex: {
        session: (stream) => {
          const session = this.streamBegan(false);
          serveSession(session, stream, () => this.streamEnded(session));
        },
      },
    };
  }

  // For its sessions

  /** @internal Adds a stream; it becomes a session with its Open frame. */
  streamBegan(isAttached: boolean): AgentSession {
    return this.#board.add(new AgentSession(this, isAttached));
  }

  /** @internal Removes a stream. Its attempts continue and wait to be adopted on another one. */
  streamEnded(session: AgentSession): void {
    this.#board.remove(session);
  }

  /** @internal */
  sessionOpened(session: AgentSession): number {
    return this.#board.opened(session);
  }

  /** @internal */
  get waitingShare(): number {
    return this.#board.waitingShare;
  }

  /** @internal */
  refusal(superseded: Attempt | undefined, session: AgentSession | undefined): ArchonError | undefined {
    return this.#board.refusal(superseded, session);
  }
}
