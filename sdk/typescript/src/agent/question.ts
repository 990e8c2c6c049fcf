/** Questions of handlers to people, and the answers. */
import { create } from "@bufbuild/protobuf";
import {
  InputRequestSchema,
  type InputRequest,
  type ResumedInput,
} from "../api/archon/api/agent/v1/agent_pb.js";
import type { Input } from "../api/archon/api/agent/v1/session_pb.js";
import {
  Decision as DecisionEnum,
  QuestionKind,
  QuestionTermsSchema,
  TimeoutPolicy,
} from "../api/archon/api/common/v1/question_pb.js";
import { isText, partFromProto, partToProto, textOf, type Part } from "../types/part.js";
import { durationOf, enumName } from "../wire.js";

/** A decision about an approval; empty if there is none. */
export type Decision = "approve" | "reject" | "modify" | "";

/** Who may answer, in what time, and what follows if no answer comes. */
export interface QuestionTerms {
  readonly approvers?: readonly string[];
  readonly timeoutMs?: number;
  readonly onTimeout?: "abort" | "default" | "escalate";
  readonly defaultAnswer?: string;
}

/** What a question says besides its text. */
export interface QuestionOptions {
  /** JSON Schema (2020-12) of the answer; empty: free text. Of an approval, that of a modification. */
  readonly schemaJson?: string;
  /** What the next attempt receives as `task.checkpoint`. */
  readonly checkpoint?: Uint8Array | string;
  /** Unique in the task; by default derived from the attempt. */
  readonly inputId?: string;
  /** Precede the text. */
  readonly parts?: readonly Part[];
  /** Whether a decision is expected: approve, reject or modify. */
  readonly isApproval?: boolean;
  readonly terms?: QuestionTerms;
  /** The subject of the decision, as one JSON object. */
  readonly subjectJson?: string;
}

/**
 * Return it from a handler to ask a person. The attempt ends and frees its slot, and the run's clock stops. The next attempt,
 * on any instance, receives the answer as `task.inputs` and the checkpoint as `task.checkpoint`.
 */
export class Question {
  constructor(
    readonly text: string,
    readonly options: QuestionOptions = {},
  ) {}
}

/** A person's answer. `identity` is empty if the default answer counts because no answer came in time. */
export interface GivenAnswer {
  readonly inputId: string;
  readonly text: string;
  readonly parts: readonly Part[];
  readonly decision: Decision;
  readonly identity: string;
}

export function questionToProto(question: Question, inputId: string): InputRequest {
  const { text, options } = question;
  const { schemaJson = "", parts = [], isApproval = false, terms, subjectJson = "" } = options;
  return create(InputRequestSchema, {
    inputId,
    schemaJson,
    subjectJson,
    prompt: [...parts.map(partToProto), ...(text ? [partToProto({ text })] : [])],
    kind: isApproval ? QuestionKind.APPROVAL : QuestionKind.UNSPECIFIED,
    ...(terms !== undefined && {
      terms: create(QuestionTermsSchema, {
        approvers: [...(terms.approvers ?? [])],
        defaultAnswer: terms.defaultAnswer ?? "",
        onTimeout: TimeoutPolicy[(terms.onTimeout ?? "UNSPECIFIED").toUpperCase() as keyof typeof TimeoutPolicy],
        ...(terms.timeoutMs !== undefined && { timeout: durationOf(terms.timeoutMs) }),
      }),
    }),
  });
}

export function questionFromProto(request: InputRequest, checkpoint = new Uint8Array(0)): Question {
  return new Question(textOf(request.prompt), {
    schemaJson: request.schemaJson,
    checkpoint,
    inputId: request.inputId,
    parts: request.prompt.filter((part) => !isText(part)).map(partFromProto),
    isApproval: request.kind === QuestionKind.APPROVAL,
    subjectJson: request.subjectJson,
  });
}

export function answerFromProto(answer: ResumedInput | Input): GivenAnswer {
  return {
    inputId: answer.inputId,
    text: textOf(answer.parts),
    parts: answer.parts.map(partFromProto),
    decision: enumName(DecisionEnum as unknown as Record<number, string>, answer.decision) as Decision,
    identity: answer.identity,
  };
}
