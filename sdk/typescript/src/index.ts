/**
 * The SDK of Archon: agents that are full members of a mesh, and clients of its services.
 *
 *     const agent = new AgentServer("translator", { description: "Translates to French" }, (task) => translate(task.text));
 *     await agent.run();
 */
export type { CallMade, ModelCall, Reservation, ToolCall } from "./agent/account.js";
export type { Handler } from "./agent/attempt.js";
export type { MessageOptions } from "./agent/inbox.js";
export type { OnMessage } from "./agent/messageHandler.js";
export type { RequestOptions, SendOptions } from "./agent/messenger.js";
export { Question, type Decision, type GivenAnswer, type QuestionOptions, type QuestionTerms } from "./agent/question.js";
export type { Outcome } from "./agent/result.js";
export { AgentServer, type AgentOptions, type RunProcessOptions } from "./agent/server.js";
export { settingsFromEnvironment, type AgentSettings } from "./agent/settings.js";
export { Task, type DelegateOptions } from "./agent/task.js";
export type { Bid, OnBid } from "./agent/typedHandler.js";
export type {
  Answer,
  ContextItem,
  Delegated,
  DelegationTarget,
  HistoryMessage,
  Item,
  PropagationPolicy,
} from "./agent/values.js";
export type { CallOptions, ChannelSettings } from "./channel.js";
export { Client, RunHandle, type PlannedRun, type WatchOptions } from "./client.js";
export { current, currentTrace, withDeadline, withTrace, type CallContext, type TraceContext } from "./context.js";
export { ConverseStream } from "./converseStream.js";
export * from "./errors.js";
export { setLogger, type Logger, type LogLevel } from "./log.js";
export { MemoryGraphClient, type MemoryChange, type MemoryItem, type PublishOptions } from "./memory/client.js";
export { WorkingMemoryClient, type SharedChange, type SharedValue } from "./memory/working.js";
export { RegistryClient, type Edge, type Graph, type RegistryChange, type ResolveOptions } from "./registry/client.js";
export {
  registrationOf,
  type Capability,
  type DependsOn,
  type Profile,
  type Registration,
  type Tool,
  type ToolShare,
} from "./registry/registration.js";
export type { RegistrationHandle } from "./registry/registrationHandle.js";
export { RunView } from "./runView/run.js";
export { isSecret, MAX_SECRET, sealAnswer, SecretQuestion } from "./secretAnswers.js";
export { CertificateFolder } from "./security/certificates.js";
export { NO_CREDENTIALS, tokenCredentials, type CallCredentials } from "./security/credentials.js";
export { fromFailure, toFailure } from "./status.js";
export type { Strategy, SubmitOptions } from "./submission.js";
export { messageText, type Message, type MessageType } from "./types/message.js";
export { jsonPart, type Content, type Part } from "./types/part.js";
export { Run, RunEvent, type RunAnswer, type RunQuestion, type RunTask } from "./types/run.js";
export type { Budget, TaskRef, TaskState, Usage } from "./types/usage.js";
