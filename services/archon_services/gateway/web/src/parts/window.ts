/** The rows of a long list that are in sight: all have one height, in pixels. */
export function rowsInSight(scrollTop: number, height: number, rowHeight: number, count: number, spare = 10): readonly [first: number, end: number] {
  const first = Math.max(0, Math.min(count, Math.floor(scrollTop / rowHeight)) - spare);
  return [first, Math.min(count, Math.ceil((scrollTop + height) / rowHeight) + spare)];
}
