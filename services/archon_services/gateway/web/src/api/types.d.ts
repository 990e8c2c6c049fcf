/** The types of `rpcs.ts`, as the build writes them: `stubs.ts` beside `vite.config.ts`. */
declare module "virtual:types" {
  const text: string;
  export default text;
}
