/** The streams and sessions of an agent: how its capacity is split among them, and what is offered to them. */
import { now, outsideOfCalls } from "../context.js";
import type { ArchonError } from "../errors.js";
import type { Attempt } from "./attempt.js";
import type { AttemptTable } from "./attemptTable.js";
import { draining, noCapacity, replaced, StreamExhausted } from "./rejections.js";
import type { AgentSession } from "./session.js";

/** Milliseconds between two looks at parked results, silent streams and attempts without a stream. */
const SWEEP_INTERVAL = 5_000;

/** Orchestrators that may have a session at a time: far more than one mesh has replicas. */
const MAX_SESSIONS = 64;

/** Streams that may wait for Open at a time. A further one ends the oldest: an orchestrator sends Open at once. */
const MAX_UNOPENED = 64;

/** All streams of an agent; those with Open are its sessions. */
export class SessionBoard {
  readonly #streams = new Set<AgentSession>();
  readonly #sessions = new Set<AgentSession>();
  /** Whether an orchestrator has opened a session. */
  isReached = false;
  #sweeper: NodeJS.Timeout | undefined;

  constructor(
    readonly agent: { readonly draining: boolean },
    readonly attempts: AttemptTable,
    readonly maxWaiting: number,
  ) {}

  get hasSessions(): boolean {
    return this.#sessions.size > 0;
  }

  /** Starts to look after the streams. */
  start(): void {
    this.#sweeper = outsideOfCalls(() => setInterval(() => this.#sweep(), SWEEP_INTERVAL).unref());
  }

  /** Ends that. Idempotent. */
  close(): void {
    clearInterval(this.#sweeper);
  }

  /** Adds a stream. */
  add(session: AgentSession): AgentSession {
    const unopened = [...this.#streams].filter((each) => !each.orchestratorId && !each.queue.closed);
    if (unopened.length >= MAX_UNOPENED) {
      unopened[0]?.end(new StreamExhausted("too many streams wait for Open", { retryDelayMs: 1_000 }));
    }
    this.#streams.add(session);
    return session;
  }

  /** Removes a stream. Its attempts continue and wait to be adopted on another one. */
  remove(session: AgentSession): void {
    this.#streams.delete(session);
    this.#sessions.delete(session);
    for (const attempt of this.attempts) if (attempt.session === session) attempt.session = undefined;
    this.attempts.changed();
  }

  /** Ends an older stream of the same orchestrator and splits the capacity anew. Returns the session's share. */
  opened(session: AgentSession): number {
    const { orchestratorId } = session;
    const others = [...this.#sessions].filter((other) => other.orchestratorId !== orchestratorId);
    if (others.length >= MAX_SESSIONS) {
      const why = `this instance has ${others.length} sessions, which is its limit`;
      throw new StreamExhausted(why, { retryDelayMs: 1_000 });
    }
    for (const older of [...this.#sessions]) {
      if (older.orchestratorId !== orchestratorId) continue;
      this.#sessions.delete(older);
      older.end(replaced(orchestratorId));
    }
    this.#sessions.add(session);
    this.isReached = true;
    const share = (session.announced = this.#share()); // by Ready
    session.window.set(share);
    this.announce();
    return share;
  }

  /** Announces on all sessions that no new tasks are taken. */
  drain(): void {
    for (const session of this.#sessions) session.drain();
    this.announce();
  }

  /** Ends all streams with OK, after the frames that wait. */
  endAll(): void {
    for (const session of this.#streams) session.end();
  }

  /** Announces each session's share of the capacity, if it has changed. */
  announce(): void {
    const share = this.#share();
    for (const session of this.#sessions) {
      if (session.announced === share) continue;
      session.window.set(share);
      session.credit(share, this.waitingShare);
    }
  }

  #share(): number {
    const room = this.attempts.capacity - this.attempts.abandoned.size;
    if (this.agent.draining || room <= 0 || this.attempts.parkedFull) return 0;
    return Math.floor(room / (this.#sessions.size || 1)) || 1;
  }

  /** How many more tasks may wait for their delegations on each session. */
  get waitingShare(): number {
    return Math.max(1, Math.floor(this.maxWaiting / Math.max(1, this.#sessions.size)));
  }

  /**
   * Returns the error that refuses another task; undefined if there is a slot. `superseded` is the attempt it replaces, `session`
   * the one that it comes from, if any: beside others, a session gets its own share only.
   */
  refusal(superseded: Attempt | undefined, session: AgentSession | undefined): ArchonError | undefined {
    if (this.agent.draining) return draining();
    if (this.attempts.parkedFull) return noCapacity();
    const { running, capacity } = this.attempts;
    if (session !== undefined && this.#sessions.size > 1) {
      const own = [...running].filter((each) => each.session === session && each.working && each !== superseded);
      const waiting = Math.min(this.waitingShare, own.filter((each) => each.waiting).length);
      if (own.length - waiting >= session.window.allowed) return noCapacity();
    }
    const slots = Math.max(capacity, this.#sessions.size);
    if (running.size < slots) return undefined;
    const others = [...running].filter((each) => each !== superseded);
    const busy = others.length - Math.min(this.maxWaiting, others.filter((each) => each.waiting).length);
    return busy >= slots ? noCapacity() : undefined;
  }

  #sweep(): void {
    this.attempts.expire();
    for (const session of [...this.#streams]) session.check();
    this.announce();
    const sessions = [...this.#sessions];
    const chosen = sessions[Math.floor(Math.random() * sessions.length)];
    if (chosen !== undefined) this.#offer(chosen);
  }

  /**
   * Offers parked results to any orchestrator, which can judge them by the journal: their owner may have released the run.
   * Reports attempts in progress that have no stream or wait for an answer: they may be over.
   */
  #offer(session: AgentSession): void {
    const late = now() - SWEEP_INTERVAL;
    for (const attempt of this.attempts) {
      if (attempt.finishedAt !== undefined) {
        if (attempt.session === undefined || attempt.finishedAt < late) attempt.offer(session);
      } else if (attempt.session === undefined || attempt.waiting) {
        attempt.offer((attempt.session as AgentSession | undefined) ?? session);
      }
    }
  }
}
