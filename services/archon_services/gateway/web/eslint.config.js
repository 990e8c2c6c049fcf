import js from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import ts from "typescript-eslint";

export default ts.config(
  { ignores: ["dist", "node_modules"] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  { languageOptions: { globals: { window: "readonly", document: "readonly", location: "readonly", history: "readonly", localStorage: "readonly",
    fetch: "readonly", EventSource: "readonly", setTimeout: "readonly", clearTimeout: "readonly", setInterval: "readonly",
    clearInterval: "readonly", requestAnimationFrame: "readonly", navigator: "readonly", URL: "readonly", URLSearchParams: "readonly" } } },
  { files: ["**/*.svelte", "**/*.svelte.ts"], languageOptions: { parserOptions: { parser: ts.parser } } },
  {
    rules: {
      "no-undef": "off", // the type checker finds them
      "svelte/no-at-html-tags": "error", // texts of agents are never markup
      "svelte/prefer-svelte-reactivity": "off", // maps and addresses are replaced as a whole
      "no-restricted-properties": ["error", { property: "innerHTML" }, { property: "outerHTML" }, { property: "insertAdjacentHTML" }],
    },
  },
);
