/** The file by which an agent tells that it serves. */
import { rename, unlink, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Writes the address to a file, which readers see as a whole. Without a path it does nothing. */
export async function announce(path: string, address: string): Promise<void> {
  if (!path) return;
  const partial = join(dirname(path), `.${basename(path)}.${process.pid}`);
  await unlink(partial).catch(() => undefined); // of a process that was killed, or a link
  await writeFile(partial, address, { flag: "wx" });
  await rename(partial, path);
}

/** Removes the file. */
export async function withdraw(path: string): Promise<void> {
  if (path) await unlink(path).catch(() => undefined);
}
