/** Markdown of agents as tokens. No token becomes markup: `Markdown.svelte` makes elements of those that it knows. */
import { Lexer, type Token, type Tokens } from "marked";

/** Characters above which a text is shown as it is. */
export const MAX_TEXT = 100_000;

/** Levels of nested quotes and lists above which the source is shown. */
export const MAX_DEPTH = 10;

const SCHEMES = new Set(["http:", "https:", "mailto:"]);
const QUOTES = /(?:^|\n)[ \t]*(?:>[ \t]*){30}/;

/** Returns the blocks of a text; undefined if it is to be shown as it is. */
export function blocksOf(text: string): Token[] | undefined {
  if (text.length > MAX_TEXT || QUOTES.test(text)) return undefined;
  try {
    return new Lexer({ gfm: true }).lex(visible(text));
  } catch {
    return undefined; // for instance nested too deeply
  }
}

/** Returns a text with a mark in place of each character that turns the direction of what follows. */
export function visible(text: string): string {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

/** Returns the level of each heading, from 3 on: below the headings of the page, and without a step over a level. */
export function headingLevels(blocks: readonly Token[]): ReadonlyMap<Token, number> {
  const open: number[] = [];
  const levels: [Token, number][] = [];
  for (const block of blocks) {
    if (block.type !== "heading") continue;
    const depth = (block as Tokens.Heading).depth;
    while ((open.at(-1) ?? 0) >= depth) open.pop();
    open.push(depth);
    levels.push([block, Math.min(6, 2 + open.length)]);
  }
  return new Map(levels);
}

/** Returns the address of a link if it leads to a page or a mailbox: absolute, http, https or mailto. */
export function safeUrl(address: string): string | undefined {
  try {
    const url = new URL(address);
    if (!SCHEMES.has(url.protocol) || url.username !== "" || url.password !== "") return undefined;
    return url.href;
  } catch {
    return undefined;
  }
}

/** Returns the host of a link whose text names another one, else an empty text. */
export function otherHost(text: string, url: string): string {
  const named = /(?:https?:\/\/)?((?:[\w-]+\.)+[a-z]{2,})/i.exec(text)?.[1]?.toLowerCase();
  const host = new URL(url).hostname;
  return named === undefined || host === "" || named === host || host.endsWith(`.${named}`) ? "" : host;
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'", nbsp: "\u00a0" };

/** Returns a text with the common entities as characters. */
export function unescaped(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (whole, name: string) => ENTITIES[name] ?? whole);
}
