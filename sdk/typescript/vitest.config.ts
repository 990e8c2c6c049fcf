import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 20_000,
    pool: "threads",
    poolOptions: { threads: { maxThreads: 2, minThreads: 1 } },
    // Whatever is rejected without a reader fails the run.
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
