/** An answer while it is generated, folded from the events of its run: text, thinking, tool calls, in their order. */
import type { RunEvent } from "@api/archon/api/orchestrator/v1/run_pb.js";

export interface TextPiece {
  readonly kind: "text" | "thinking";
  readonly taskId: string;
  readonly role: string;
  text: string;
}

export interface ToolPiece {
  readonly kind: "tool";
  readonly taskId: string;
  readonly role: string;
  readonly callId: string;
  name: string;
  arguments: string;
  result: string;
  state: "being written" | "called" | "done" | "failed";
}

export type Piece = TextPiece | ToolPiece;

/** Characters of one piece, and of all of them: what is above is left out. */
export const MAX_PIECE = 200_000;
export const MAX_ALL = 2_000_000;
const MAX_PIECES = 2_000;

export class LiveAnswer {
  readonly pieces: Piece[] = [];
  /** The task of the run itself; the tasks of others are delegated by it. */
  mainTask = "";
  /** Is increased by events after which the questions of the run have changed. */
  questionsChanged = 0;
  #size = 0;
  readonly #attempts = new Map<string, number>();

  /** Folds an event. */
  apply({ event, task }: RunEvent): void {
    const taskId = task?.taskId ?? "";
    switch (event.case) {
      case "taskState":
        if (this.mainTask === "" && event.value.parentTaskId === "") this.mainTask = taskId;
        break;
      case "dispatched":
        if (this.mainTask === "") this.mainTask = taskId;
        this.#begin(taskId, task?.attempt ?? 0);
        break;
      case "textDelta":
        this.#append("text", taskId, event.value.role, event.value.text);
        break;
      case "thinkingDelta":
        this.#append("thinking", taskId, event.value.role, event.value.text);
        break;
      case "toolArgumentsDelta": {
        const { role, callId, toolName, text } = event.value;
        const piece = this.#tool(taskId, role, callId, toolName);
        if (piece?.state === "being written") piece.arguments += this.#admitted(text, piece.arguments.length);
        break;
      }
      case "toolEvent": {
        const { role, callId, toolName, argumentsJson, resultJson, failed } = event.value;
        const piece = this.#tool(taskId, role, callId, toolName);
        if (piece === undefined) break;
        if (argumentsJson !== "") piece.arguments = this.#admitted(argumentsJson, 0);
        if (resultJson !== "") piece.result = this.#admitted(resultJson, 0);
        piece.state = failed ? "failed" : resultJson !== "" ? "done" : piece.state === "being written" ? "called" : piece.state;
        break;
      }
      case "inputRequested":
      case "approvalRequested":
      case "inputGiven":
      case "questionTimedOut":
        this.questionsChanged++;
        break;
    }
  }

  /** Adds a call that was recorded, unless it is there. */
  addRecorded(piece: ToolPiece): void {
    if (!this.pieces.some((each) => each.kind === "tool" && each.taskId === piece.taskId && each.callId === piece.callId)) this.pieces.push(piece);
  }

  /** The text of the run's own task after its last tool call: the answer so far. */
  get draft(): string {
    const last = this.pieces.at(-1);
    return last?.kind === "text" && last.taskId === this.mainTask ? last.text : "";
  }

  /** The pieces before the answer. */
  get steps(): Piece[] {
    return this.draft === "" ? this.pieces : this.pieces.slice(0, -1);
  }

  /** A later attempt begins its text anew. */
  #begin(taskId: string, attempt: number): void {
    const before = this.#attempts.get(taskId);
    this.#attempts.set(taskId, attempt);
    if (before === undefined || attempt <= before) return;
    const kept = this.pieces.filter((piece) => piece.taskId !== taskId || piece.kind === "tool");
    this.pieces.splice(0, this.pieces.length, ...kept);
  }

  #append(kind: TextPiece["kind"], taskId: string, role: string, text: string): void {
    const last = this.pieces.at(-1);
    if (last?.kind === kind && last.taskId === taskId) last.text += this.#admitted(text, last.text.length);
    else if (this.pieces.length < MAX_PIECES) this.pieces.push({ kind, taskId, role, text: this.#admitted(text, 0) });
  }

  #tool(taskId: string, role: string, callId: string, name: string): ToolPiece | undefined {
    const found = this.pieces.findLast((piece): piece is ToolPiece => piece.kind === "tool" && piece.taskId === taskId && piece.callId === callId);
    if (found || this.pieces.length >= MAX_PIECES) return found;
    const piece: ToolPiece = { kind: "tool", taskId, role, callId, name, arguments: "", result: "", state: "being written" };
    this.pieces.push(piece);
    return piece;
  }

  /** Returns as much of a text as may still be kept. */
  #admitted(text: string, before: number): string {
    const room = Math.max(0, Math.min(MAX_PIECE - before, MAX_ALL - this.#size));
    const kept = text.slice(0, room);
    this.#size += kept.length;
    return kept;
  }
}
