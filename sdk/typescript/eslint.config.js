import js from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist", "node_modules", "src/api", "eslint.config.js"] },
  js.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { project: "./tsconfig.check.json", tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/explicit-module-boundary-types": "error",
      "@typescript-eslint/no-floating-promises": "error",
      // Numbers in texts, and void in arrow functions, are as clear as what the rules ask for.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": "off",
      "@typescript-eslint/no-meaningless-void-operator": "off",
      // Handlers may return anything; what they return is checked when the task ends.
      "@typescript-eslint/no-invalid-void-type": "off",
      "@typescript-eslint/no-redundant-type-constituents": "off",
      // An index of noUncheckedIndexedAccess is dealt with where it is read; loops without an end are meant.
      "@typescript-eslint/no-unnecessary-condition": "off",
      "@typescript-eslint/unbound-method": "off",
      "@typescript-eslint/prefer-promise-reject-errors": "off",
      "@typescript-eslint/only-throw-error": "off",
      "@typescript-eslint/no-dynamic-delete": "off",
      "@typescript-eslint/require-await": "off",
      "@typescript-eslint/no-unsafe-enum-comparison": "off",
      "@typescript-eslint/no-unnecessary-type-parameters": "off",
      "no-constant-condition": ["error", { checkLoops: false }],
    },
  },
  { files: ["test/**"], rules: { "@typescript-eslint/use-unknown-in-catch-callback-variable": "off" } },
);
