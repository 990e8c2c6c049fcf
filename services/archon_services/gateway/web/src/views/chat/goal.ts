/** The goal of a message in a chat: what was said before, for roles that do not remember it, the message, and its files. */
import type { Part } from "@api/archon/api/common/v1/common_pb.js";
import { newId } from "../../api/ids.js";
import { textOf } from "../../parts/format.js";

const HISTORY_KEY = "dev.archon.chat";
const BEGIN = "The conversation so far:\n";
const END = "\n\nNow:\n";

/** Characters of what was said before. */
const MAX_HISTORY = 100_000;

/** Bytes of a message with its files and what was said before. */
export const MAX_BYTES = 3_900_000;

export interface Said {
  readonly role: string;
  readonly text: string;
}

export interface File {
  readonly name: string;
  readonly type: string;
  readonly bytes: Uint8Array;
}

type PartInit = { content: { case: "text"; value: string } | { case: "raw"; value: Uint8Array }; metadata?: Record<string, string>; filename?: string; mediaType?: string };

/** Returns the parts of a goal. `before` is what was said, oldest first; the oldest is left out if it is too much. */
export function goalOf(line: string, files: readonly File[], before: readonly Said[]): PartInit[] {
  const parts: PartInit[] = [];
  if (before.length > 0) {
    const lines: string[] = [];
    let size = 0;
    for (const said of [...before].reverse()) {
      size += said.text.length;
      if (size > MAX_HISTORY) break;
      lines.unshift(`${said.role}: ${said.text}`);
    }
    parts.push({ content: { case: "text", value: `${BEGIN}${lines.join("\n")}${END}`.trimEnd() + "\n" }, metadata: { [HISTORY_KEY]: "history" } });
  }
  if (line !== "") parts.push({ content: { case: "text", value: line } });
  for (const file of files) parts.push({ content: { case: "raw", value: file.bytes }, filename: file.name, mediaType: file.type });
  return parts;
}

/** Returns the parts of a goal that the person gave. */
export function givenParts(goal: readonly Part[]): Part[] {
  return goal.flatMap((part) => {
    if (part.metadata[HISTORY_KEY] === "history") return [];
    if (part.content.case !== "text" || !part.content.value.startsWith(BEGIN)) return [part];
    const end = part.content.value.lastIndexOf(END); // of `archon chat`
    return end < 0 ? [part] : [{ ...part, content: { case: "text" as const, value: part.content.value.slice(end + END.length) } }];
  });
}

/** The text of the parts that are texts. */
export function textsOf(parts: readonly Part[]): string {
  return textOf(parts.filter((part) => part.content.case === "text"));
}

const SESSION = /^chat-([a-z][a-z0-9-]*)-[0-9a-f]{32}$/;

/** Returns the id of a new session with a role. */
export function newSession(role: string): string {
  return `chat-${role}-${newId()}`;
}

/** Returns the role of a session of a chat; undefined for any other session. */
export function roleOf(sessionId: string): string | undefined {
  return SESSION.exec(sessionId)?.[1];
}
