/** Names of the scopes of styles, which are in each element: as short as can be. */
const scopes = new Map();

/** @type {import("@sveltejs/vite-plugin-svelte").SvelteConfig} */
export default {
  compilerOptions: {
    runes: true,
    cssHash: ({ filename }) => {
      if (!scopes.has(filename)) scopes.set(filename, `s${scopes.size.toString(36)}`);
      return scopes.get(filename);
    },
  },
};
