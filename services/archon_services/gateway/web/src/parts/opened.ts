/** The focus of the keyboard: in panels that a button opens, and after actions that disable or replace their button. */
import { tick } from "svelte";
import type { Attachment } from "svelte/attachments";

/** Attaches to a panel: Escape closes it, and when it is closed, the focus goes back to where it was. */
export function opened(close: () => void): Attachment<HTMLElement> {
  return (panel) => {
    const opener = document.activeElement;
    const escape = (event: KeyboardEvent): void => {
      if (event.key !== "Escape" || event.defaultPrevented) return;
      event.preventDefault();
      close();
    };
    panel.addEventListener("keydown", escape);
    return () => {
      panel.removeEventListener("keydown", escape);
      const now = document.activeElement;
      const lost = now === null || now === document.body || panel.contains(now);
      if (lost && (opener instanceof HTMLElement || opener instanceof SVGElement)) opener.focus();
    };
  };
}

/**
 * Waits for an action. If the element that had the focus could not keep it, it gets the focus back; if it is gone, the first
 * button or link of `place` does.
 */
export async function keepFocus(action: () => Promise<void>, place?: HTMLElement): Promise<void> {
  const held = document.activeElement;
  await action();
  await tick();
  if (document.activeElement !== null && document.activeElement !== document.body) return; // the reader has gone on
  const usable = held instanceof HTMLElement && held.isConnected && !held.matches(":disabled");
  const next = usable ? held : place?.querySelector<HTMLElement>("button:not(:disabled), a");
  next?.focus();
}
