/** Panels that a button opens in the page. */
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
