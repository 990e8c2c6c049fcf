/** A run as its events tell it: states, attempts, questions, delegations, usage, and why tasks wait. */
export type { AttemptOutcome, AttemptView, Delegation } from "./attempt.js";
export type { MessageView } from "./message.js";
export type { QuestionView } from "./question.js";
export { RunView, type Claim, type Pause } from "./run.js";
export { TaskView, type LastFailure, type Wait } from "./task.js";
