import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

const here = (path: string): string => new URL(path, import.meta.url).pathname;

/** Static files for `dist`, which the gateway serves at `/`. `npm run dev` is not used: the page needs its gateway. */
export default defineConfig({
  plugins: [svelte()],
  resolve: {
    alias: { "@api": here("../../../../sdk/typescript/src/api") },
    dedupe: ["@bufbuild/protobuf"],
  },
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  test: { include: ["src/**/*.test.ts"] },
});
