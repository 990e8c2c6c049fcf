/** Leaves out of libraries the parts that the page does not use, where no bundler can: the last lines of a library name all parts, or a variable turns a part on. */
import type { Plugin } from "vite";

interface Cut {
  readonly file: RegExp;
  readonly cuts: readonly (readonly [pattern: RegExp, replacement: string])[];
}

const CUTS: readonly Cut[] = [
  // The lexer alone: no renderers of HTML, no hooks.
  { file: /\/marked\/lib\/marked\.esm\.js$/, cuts: [[/var (\w+)=new \w+;function \w+\(\w+,\w+\)\{return \1\.parse\(.*export\{.*?(\w+ as Lexer),.*$/s, "export{$2};"]] },
  {
    file: /\/@dagrejs\/dagre\/dist\/dagre\.esm\.js$/,
    cuts: [
      [/\w+\(\w+,\{Graph:\(\)=>\w+,alg:\(\)=>\w+\}\);/, ""],
      [/\w+\(\w+,\{read:\(\)=>\w+,write:\(\)=>\w+\}\);/, ""],
      [/(\w+\(\w+,\{)CycleException:.*?(postorder:\(\)=>\w+,preorder:\(\)=>\w+).*?(\}\);)/, "$1$2$3"],
      [/\w+\.graph\(\)\.acyclicer==="greedy"\?\w+\(\w+,\w+\(\w+\)\):/, ""],
      [/export\{.*?(\w+ as Graph),.*?(\w+ as layout),.*\};/, "export{$1,$2};"],
    ],
  },
  // Formats that no form has a field for: the mesh checks them.
  { file: /\/@cfworker\/json-schema\/dist\/esm\/format\.js$/, cuts: [[/\n {4}(url|'(uri-template|json-pointer|json-pointer-uri-fragment|relative-json-pointer)'): bind\(\w+\),?/g, ""]] },
  // Lines and points: no bars, steps, splines and bridges to other charts.
  {
    file: /\/uplot\/dist\/uPlot\.esm\.js$/,
    cuts: [
      [/\n\t\(paths\.(stepped|bars|spline)\s*= \w+\);/g, ""],
      [/\nuPlot\.(assign|fmtNum|rangeNum|rangeLog|rangeAsinh|orient|sync)\s*= \w+;/g, ""],
      [/\n\tuPlot\.(join|fmtDate|tzDate|addGap|clipGaps)\s*= \w+;/g, ""],
    ],
  },
];

/** Modules of the SDK whose errors have tables of reasons: the page shows their messages alone. */
const ERRORS = /^\.\.?\/(errors|status)\.js$/;

/** `sdk` has the sources of the SDK, `failures` is in place of its errors. */
export function lean(sdk: string, failures: string): Plugin {
  return {
    name: "archon-lean",
    enforce: "pre",
    resolveId: (id, importer) => (importer?.startsWith(sdk) && ERRORS.test(id) ? failures : undefined),
    transform(code, id) {
      const found = CUTS.find(({ file }) => file.test(id));
      return found === undefined ? undefined : { code: cut(code, found), map: null };
    },
  };
}

/** Throws an Error if a pattern does not fit, as after an update of the library. */
function cut(code: string, { file, cuts }: Cut): string {
  return cuts.reduce((text, [pattern, replacement]) => {
    const less = text.replace(pattern, replacement);
    if (less === text) throw new Error(`lean.ts: ${file} has no ${pattern}`);
    return less;
  }, code);
}
