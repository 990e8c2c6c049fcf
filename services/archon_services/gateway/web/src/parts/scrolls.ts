/** Boxes of text that scroll when it is long. */
import type { Attachment } from "svelte/attachments";

/** Attaches to a box: the keyboard reaches it while it scrolls. */
export const scrolls: Attachment<HTMLElement> = (box) => {
  const note = (): void => {
    if (box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };
  const observer = new ResizeObserver(note);
  observer.observe(box);
  note();
  return () => observer.disconnect();
};
