/** JSON Schemas of arguments and answers: bounded, and without references to other documents. */
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { InvalidArgument, type FieldViolation } from "./errors.js";

const MAX_VIOLATIONS = 10;
const MAX_DESCRIPTION = 200;

/** Checks values against a schema. */
export class SchemaCheck {
  readonly #validate: ValidateFunction;

  /** Throws InvalidArgument if the schema is no JSON Schema, or refers to another document. `what` names it in errors. */
  constructor(schema: object, what: string) {
    try {
      const ajv = new Ajv2020({ strict: false, allErrors: true, logger: false, validateFormats: false, addUsedSchema: false });
      this.#validate = ajv.compile(schema);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new InvalidArgument(`${what} is no JSON Schema: ${why.slice(0, MAX_DESCRIPTION)}`);
    }
  }

  /** Returns what a value violates, at most `most`; empty if it is valid. */
  violations(value: unknown, most = MAX_VIOLATIONS): FieldViolation[] {
    let isValid: boolean;
    try {
      isValid = this.#validate(value);
    } catch {
      return [{ field: "(all)", description: "nested too deep" }];
    }
    if (isValid) return [];
    return (this.#validate.errors ?? []).slice(0, most).map(({ instancePath, message = "is invalid", params }) => {
      const missing = (params as Record<string, unknown>)["additionalProperty"];
      const shown = typeof missing === "string" ? `${message}: '${missing}'` : message;
      const field = instancePath.slice(1).replaceAll("/", ".") || "(all)";
      return { field, description: shown.slice(0, MAX_DESCRIPTION) };
    });
  }
}

/** Returns a schema that is a text, as an object. Throws InvalidArgument if it is no JSON object. */
export function parseSchema(text: string, what: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  } catch {
    // as below
  }
  throw new InvalidArgument(`${what} is not a JSON object`);
}
