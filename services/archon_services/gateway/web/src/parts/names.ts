/** Names that agents and callers choose: roles, tools, files, identities. */

// Controls, and the marks that turn the direction of text: a name with one could read as another.
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Returns a name with a visible mark in place of each character that cannot be seen. */
export function shownName(name: string, limit = 120): string {
  const visible = name.replace(HIDDEN, "\ufffd");
  return visible.length <= limit ? visible : `${visible.slice(0, limit)}…`;
}

/** Returns the beginning of a text in one line. */
export function oneLine(text: string, limit = 160): string {
  const line = text.slice(0, limit * 4).replace(/\s+/g, " ").trim();
  return shownName(line, limit);
}
