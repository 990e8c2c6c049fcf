/** The conversation of a session: its runs, oldest first. */
import { Strategy } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { orchestrator, registry } from "../../api/clients.js";
import { isFinal } from "../../parts/format.js";
import { givenParts, goalOf, textsOf, type File, type Said } from "./goal.js";
import { Turn } from "./turn.svelte.js";

const PAGE = 20;

export class Conversation {
  readonly role: string;
  readonly sessionId: string;
  turns = $state.raw<readonly Turn[]>([]);
  loaded = $state(false);
  problem = $state.raw<unknown>(undefined);
  /** Whether there are earlier messages. */
  hasEarlier = $state(false);
  sending = $state(false);
  #earlier = "";
  #closed = false;

  constructor(role: string, sessionId: string) {
    this.role = role;
    this.sessionId = sessionId;
  }

  /** The message whose answer is not complete. */
  get open(): Turn | undefined {
    return this.turns.findLast((turn) => !turn.ended && turn.run !== undefined);
  }

  /** Reads the last messages; follows those whose runs go on. */
  async load(): Promise<void> {
    try {
      const { runs, nextPageToken } = await orchestrator.listRuns({ sessionId: this.sessionId, pageSize: PAGE, pageToken: this.#earlier });
      const turns = runs.map((run) => new Turn(run.runId)).reverse();
      await Promise.all(turns.map((turn) => turn.open()));
      if (this.#closed) return turns.forEach((turn) => turn.close());
      this.turns = [...turns, ...this.turns];
      this.#earlier = nextPageToken;
      this.hasEarlier = nextPageToken !== "";
      this.problem = undefined;
    } catch (thrown) {
      this.problem = thrown;
    }
    this.loaded = true;
  }

  /** Sends a message. Throws the error of the call: nothing was sent then, or the same request can be sent again. */
  async send(line: string, files: readonly File[], requestId: string): Promise<void> {
    this.sending = true;
    try {
      const goal = goalOf(line, files, (await this.#remembers()) ? [] : this.#said());
      const { run } = await orchestrator.submitRun({ requestId, goal, roles: [this.role], strategy: Strategy.AGENT, sessionId: this.sessionId });
      if (run === undefined || this.turns.some((turn) => turn.runId === run.runId)) return;
      const turn = new Turn(run.runId, run);
      this.turns = [...this.turns, turn];
      void turn.open();
    } finally {
      this.sending = false;
    }
  }

  close(): void {
    this.#closed = true;
    for (const turn of this.turns) turn.close();
  }

  /** Whether the role remembers the session itself. */
  async #remembers(): Promise<boolean> {
    const { instances } = await registry.listInstances({ role: this.role, pageSize: 1 });
    return instances[0]?.stateful ?? false;
  }

  #said(): Said[] {
    return this.turns.flatMap(({ run }) => {
      if (run === undefined || !isFinal(run.state) || run.answers.length === 0) return [];
      const answer = textsOf(run.answers.flatMap((each) => each.parts));
      return [{ role: "user", text: textsOf(givenParts(run.goal)) }, { role: this.role, text: answer }];
    });
  }
}
