/** The difference between two texts, by lines. */

export interface DifferenceLine {
  readonly kind: "same" | "gone" | "new";
  readonly text: string;
}

/** Pairs of lines that are compared at most: above it the texts are shown one after the other. */
const MAX_PAIRS = 4_000_000;

/** Returns the lines of both texts, those in common once. */
export function difference(before: string, after: string): DifferenceLine[] {
  const one = before.split("\n");
  const other = after.split("\n");
  let head = 0;
  while (head < one.length && head < other.length && one[head] === other[head]) head++;
  let tail = 0;
  while (tail < one.length - head && tail < other.length - head && one[one.length - 1 - tail] === other[other.length - 1 - tail]) tail++;
  const lines = (texts: readonly string[], kind: DifferenceLine["kind"]): DifferenceLine[] => texts.map((text) => ({ kind, text }));
  const middle = changed(one.slice(head, one.length - tail), other.slice(head, other.length - tail));
  return [...lines(one.slice(0, head), "same"), ...middle, ...lines(one.slice(one.length - tail), "same")];
}

/** The longest common subsequence, by the table of its lengths. */
function changed(one: readonly string[], other: readonly string[]): DifferenceLine[] {
  const width = other.length + 1;
  if (one.length * other.length > MAX_PAIRS) {
    return [...one.map((text) => ({ kind: "gone", text }) as const), ...other.map((text) => ({ kind: "new", text }) as const)];
  }
  const lengths = new Uint32Array((one.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = one.length - 1; row >= 0; row--) {
    for (let column = other.length - 1; column >= 0; column--) {
      lengths[row * width + column] = one[row] === other[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const lines: DifferenceLine[] = [];
  let [row, column] = [0, 0];
  while (row < one.length || column < other.length) {
    const [before, after] = [one[row], other[column]];
    if (before !== undefined && before === after) {
      lines.push({ kind: "same", text: before });
      row++;
      column++;
    } else if (before !== undefined && (after === undefined || at(row + 1, column) >= at(row, column + 1))) {
      lines.push({ kind: "gone", text: before });
      row++;
    } else {
      lines.push({ kind: "new", text: after ?? "" });
      column++;
    }
  }
  return lines;
}
