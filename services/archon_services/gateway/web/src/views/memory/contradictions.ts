/** Contradictions among entries of long-term memory: the marks of an entry, and the decision of the owner. The order of the
 * calls is that of `archon memory resolve`: a failure in between loses nothing, and the same decision can be made again. */
import type { LongTermEntry } from "@api/archon/api/memory/v1/memory_pb.js";
import { longTermMemory } from "../../api/clients.js";

const MARK = "contradiction";
const EARLIER = "contradicts";
const BECAUSE = "contradicts_because";
const OPEN = "open";
const DECIDED = "decided";
const LEAST_IMPORTANCE = 0.5;
const LISTED = 200;

export interface Contradiction {
  readonly entry: LongTermEntry;
  /** Oldest first. */
  readonly earlier: readonly LongTermEntry[];
  readonly reason: string;
}

export type Keep = "new" | "old" | "both";

/** Returns the ids of the earlier entries that an entry contradicts; none if its owner has decided. */
export function earlierIds(entry: LongTermEntry): string[] {
  if (entry.metadata[MARK] !== OPEN || entry.archived) return [];
  return (entry.metadata[EARLIER] ?? "").split(" ").filter((id) => id !== "");
}

/** Reads the open contradictions, those with the newest entry first. Throws the error of a call. */
export async function listContradictions(): Promise<Contradiction[]> {
  const { entries } = await longTermMemory.listRecentEntries({ limit: LISTED, filter: { [MARK]: OPEN } });
  const found: Contradiction[] = [];
  for (const entry of entries) {
    const read = await Promise.allSettled(earlierIds(entry).map((entryId) => longTermMemory.getEntry({ entryId })));
    const earlier = read.flatMap((each) => (each.status === "fulfilled" && each.value.entry && !each.value.entry.archived ? [each.value.entry] : []));
    const at = (each: LongTermEntry): number => Number(each.createTime?.seconds ?? 0n);
    if (earlier.length > 0) found.push({ entry, earlier: earlier.sort((one, other) => at(one) - at(other)), reason: entry.metadata[BECAUSE] ?? "" });
  }
  return found;
}

/** Carries out the decision. With `merged` that text takes the place of all of them. Throws the error of a call. */
export async function resolve({ entry, earlier }: Contradiction, keep: Keep, merged = ""): Promise<void> {
  const before = earlier.map((each) => each.entryId);
  if (merged !== "") await replace(entry, merged, [...before, entry.entryId]);
  else if (keep === "old") await longTermMemory.deleteEntry({ entryId: entry.entryId });
  else await replace(entry, entry.content, keep === "new" ? [...before, entry.entryId] : [entry.entryId]);
}

async function replace(entry: LongTermEntry, content: string, gone: readonly string[]): Promise<void> {
  const kept = Object.entries(entry.metadata).filter(([key]) => ![MARK, EARLIER, BECAUSE].includes(key));
  const metadata = { ...Object.fromEntries(kept), [MARK]: DECIDED };
  await longTermMemory.storeEntry({ content, metadata, importance: Math.max(entry.importance, LEAST_IMPORTANCE), requestId: `contradiction/${entry.entryId}` });
  for (const entryId of gone) await longTermMemory.deleteEntry({ entryId });
}
