/** What a person has filled in so far: texts, until the form is sent. */
import type { Field } from "./fields.js";
import { isObject, parsed, same, type Json } from "./json.js";

export interface Draft {
  /** Of a choice the number of the option, of a boolean `true` or `false`; empty: not filled in. */
  text: string;
  /** The drafts of an object's fields, of a list's items, or of each option of several choices. */
  children: Draft[];
  /** What is wrong with it, in a sentence. */
  problem: string;
}

/** Returns the draft of a field that holds a value, or its default. */
export function draftOf(field: Field, value: Json | undefined = field.initial): Draft {
  const draft = (text: string, children: Draft[] = []): Draft => ({ text, children, problem: "" });
  switch (field.kind) {
    case "object":
      return draft("", field.children.map(([key, child]) => draftOf(child, isObject(value) && Object.hasOwn(value, key) ? value[key] : child.initial)));
    case "list": {
      const item = field.children[0]?.[1];
      const items = Array.isArray(value) ? value : [];
      return draft("", item === undefined ? [] : items.map((each) => draftOf(item, each)));
    }
    case "choices":
      return draft("", field.options.map((option) => draft(Array.isArray(value) && value.some((each) => same(each, option.value)) ? "true" : "")));
    case "choice": {
      const index = value === undefined ? -1 : field.options.findIndex((option) => same(option.value, value));
      return draft(index < 0 ? "" : String(index));
    }
    case "json":
      return draft(value === undefined ? "" : JSON.stringify(value, null, 2));
    case "constant":
      return draft("");
    default:
      return draft(value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value));
  }
}

/** Returns the value of a draft, undefined if it is left out. Writes into each draft what is wrong with it. */
export function valueOf(field: Field, draft: Draft): Json | undefined {
  draft.problem = "";
  const value = filledIn(field, draft);
  if (value !== undefined || draft.problem !== "" || !field.required) return value;
  if (field.kind === "text" || field.kind === "long text") {
    if (field.nullable) return null;
    if ((field.least ?? 1) === 0 || field.initial === "") return "";
  }
  if (field.nullable) return null;
  draft.problem = "A value is needed.";
  return undefined;
}

function filledIn(field: Field, draft: Draft): Json | undefined {
  const text = draft.text;
  switch (field.kind) {
    case "constant":
      return field.required ? field.options[0]?.value : undefined;
    case "choice":
      return text === "" ? undefined : field.options[Number(text)]?.value;
    case "choices": {
      const chosen = field.options.filter((_, index) => draft.children[index]?.text === "true").map((option) => option.value);
      return chosen.length > 0 || field.required ? chosen : undefined;
    }
    case "boolean":
      return text === "" ? undefined : text === "true";
    case "number":
      return numberOf(field, draft);
    case "json":
      return jsonOf(draft);
    case "object":
      return objectOf(field, draft);
    case "list": {
      const item = field.children[0]?.[1];
      const values = item === undefined ? [] : draft.children.map((child) => valueOf(item, child) ?? null);
      return values.length > 0 || field.required ? values : undefined;
    }
    default:
      return text === "" ? undefined : text;
  }
}

function numberOf(field: Field, draft: Draft): Json | undefined {
  const text = draft.text.trim();
  if (text === "") return undefined;
  const value = Number(text);
  if (!Number.isFinite(value)) draft.problem = "This is not a number.";
  else if (field.whole && !Number.isInteger(value)) draft.problem = "A whole number is needed.";
  else if (field.whole && !Number.isSafeInteger(value)) draft.problem = "The number is too large to be sent exactly.";
  else if (field.least !== undefined && value < field.least) draft.problem = `At least ${field.least}.`;
  else if (field.most !== undefined && value > field.most) draft.problem = `At most ${field.most}.`;
  return draft.problem === "" ? value : undefined;
}

function jsonOf(draft: Draft): Json | undefined {
  if (draft.text.trim() === "") return undefined;
  const value = parsed(draft.text);
  if (value === undefined) draft.problem = "This is not JSON.";
  return value;
}

/** An object that may be left out is left out if nothing in it is filled in. */
function objectOf(field: Field, draft: Draft): Json | undefined {
  if (!field.required && isEmpty(field, draft)) {
    clear(draft);
    return undefined;
  }
  const pairs = field.children.flatMap(([key, child], index) => {
    const inner = draft.children[index];
    const value = inner === undefined ? undefined : valueOf(child, inner);
    return value === undefined ? [] : [[key, value] as const];
  });
  return Object.fromEntries(pairs);
}

function isEmpty(field: Field, draft: Draft): boolean {
  if (field.kind === "list") return draft.children.length === 0;
  if (field.kind !== "object") return draft.text === "" && draft.children.every((child) => child.text === "");
  return field.children.every(([, child], index) => isEmpty(child, draft.children[index] ?? { text: "", children: [], problem: "" }));
}

function clear(draft: Draft): void {
  draft.problem = "";
  draft.children.forEach(clear);
}

/** Whether a draft, or one in it, has a problem. */
export function hasProblem(draft: Draft): boolean {
  return draft.problem !== "" || draft.children.some(hasProblem);
}
