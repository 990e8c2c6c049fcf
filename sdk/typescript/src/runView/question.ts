/** Questions of tasks to people. Times are in milliseconds since the epoch; 0 if the event has not occurred. */
import type { Decision } from "../agent/question.js";

export interface QuestionView {
  /** The id by which `Client.respond` answers it. */
  inputId: string;
  role: string;
  text: string;
  schemaJson: string;
  /** Whether a decision is expected. */
  isApproval: boolean;
  /** Number of the attempt that asked. */
  attempt: number;
  /** Whether the attempt goes on meanwhile. */
  continues: boolean;
  asked: number;
  /** The time of the answer, or at which it was withdrawn. */
  ended: number;
  answer: string | undefined;
  decision: Decision;
  identity: string;
  /** The policy that was applied when no answer came in time. */
  timedOut: string;
}

export function newQuestion(inputId: string, role: string): QuestionView {
  return {
    inputId,
    role,
    text: "",
    schemaJson: "",
    isApproval: false,
    attempt: 0,
    continues: false,
    asked: 0,
    ended: 0,
    answer: undefined,
    decision: "",
    identity: "",
    timedOut: "",
  };
}
