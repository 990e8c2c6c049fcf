/** Files of parts: their names, and addresses for the browser to show or save them. */
import type { Part } from "@api/archon/api/common/v1/common_pb.js";
import { shownName } from "./names.js";

/** Images that a browser shows without running anything of them. */
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]);

export function isImage(mediaType: string): boolean {
  return IMAGES.has(plainType(mediaType));
}

/** Returns an address of bytes in this browser: of an image as such, of anything else as a file to save, never to open. */
export function addressOf(bytes: Uint8Array, mediaType: string): string {
  const type = isImage(mediaType) ? plainType(mediaType) : "application/octet-stream";
  return URL.createObjectURL(new Blob([new Uint8Array(bytes)], { type }));
}

/** Returns a name to save a file by: the last segment, without characters that cannot be seen. */
export function fileName(part: Part): string {
  const last = part.filename.split(/[\\/]/).at(-1) ?? "";
  const name = shownName(last, 120).replaceAll("\ufffd", "_");
  return name === "" || name === "." || name === ".." ? "file" : name;
}

/** `3 bytes`, `12 KB`, `1.5 MB`. */
export function sizeText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  return bytes < 1e6 ? `${Math.round(bytes / 1_000)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function plainType(mediaType: string): string {
  return mediaType.split(";")[0]?.trim().toLowerCase() ?? "";
}
