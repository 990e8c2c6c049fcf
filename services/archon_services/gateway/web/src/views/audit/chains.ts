/** Whether the chains of the audit log are whole: the gateway verifies them, as `archon audit verify` does. */

interface Report {
  readonly chain: string;
  readonly first: number;
  readonly last: number;
  readonly fault: { readonly number: number; readonly reason: string } | null;
}

export interface ChainState {
  readonly chains: readonly Report[];
  /** Whether all links were read. */
  readonly complete: boolean;
}

/** Reads the state of the chains. Throws an Error, whose message is for the reader. */
export async function readChains(): Promise<ChainState> {
  const response = await fetch("/audit-chains");
  const answer = (await response.json()) as ChainState & { message?: string };
  if (!response.ok) throw new Error(answer.message ?? `the gateway answered ${response.status}`);
  return answer;
}

/** Returns the state in a sentence. */
export function chainText({ chains, complete }: ChainState): string {
  const broken = chains.find((each) => each.fault !== null);
  if (broken?.fault) return `Entry ${broken.fault.number} of the chain ${broken.chain}: ${broken.fault.reason}.`;
  const entries = chains.reduce((sum, each) => sum + (each.first === 0 ? 0 : each.last - each.first + 1), 0);
  const all = complete ? "" : ", as far as they were read";
  return `${entries.toLocaleString("en")} entries in ${chains.length} ${chains.length === 1 ? "chain" : "chains"}: none was changed, and none is missing${all}.`;
}
