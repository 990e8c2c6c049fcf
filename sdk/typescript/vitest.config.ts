import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (path: string): string => fileURLToPath(new URL(`src/${path}`, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: /^@archon-mesh\/sdk$/, replacement: source("index.ts") },
      { find: /^@archon-mesh\/sdk\/(testing|tools)$/, replacement: source("$1/index.ts") },
    ],
  },
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 20_000,
    pool: "threads",
    poolOptions: { threads: { maxThreads: 2, minThreads: 1 } },
    // Whatever is rejected without a reader fails the run.
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
