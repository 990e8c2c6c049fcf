import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";
import { MESSAGES, RPCS } from "./src/api/rpcs.ts";
import { lean } from "./lean.ts";
import { shortStubs } from "./stubs.ts";

const here = (path: string): string => new URL(path, import.meta.url).pathname;

/** Few files: gzip finds what texts have in common within a file alone. */
const GROUPS = [
  { name: "page", test: /vite\/|\/svelte\/|index\.html|src\/(main|app|shell|api|views\/(views|runs\/)|parts\/(?!Part|Chart|Diff)[^/]*$)|sdk\/typescript\/src\/api|virtual:types/, priority: 2 },
  { name: "views", test: /./, priority: 1 },
];

/** Static files for `dist`, which the gateway serves at `/`. `npm run dev` is not used: the page needs its gateway. */
export default defineConfig({
  plugins: [shortStubs(here("../../../../sdk/typescript/src/api"), here("src/api/messages.ts"), RPCS, MESSAGES), lean(here("../../../../sdk/typescript/src"), here("src/api/failures.ts")), svelte()],
  resolve: {
    alias: [
      { find: "@api", replacement: here("../../../../sdk/typescript/src/api") },
      { find: "@sdk", replacement: here("../../../../sdk/typescript/src") },
      { find: /^@bufbuild\/protobuf(\/wkt)?$/, replacement: here("src/api/protobuf.ts") },
    ],
  },
  build: {
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    minify: "terser",
    terserOptions: { module: true, ecma: 2020, compress: { passes: 3, hoist_funs: true }, format: { comments: false } },
    rolldownOptions: { optimization: { inlineConst: { mode: "all", pass: 3 } }, output: { codeSplitting: { groups: GROUPS } } },
  },
  test: { include: ["src/**/*.test.ts"] },
});
