/** The address of the page as state: its path and its query. Filters live in the query, so that an address can be sent. */

class Router {
  path = $state(window.location.pathname);
  query = $state.raw(new URLSearchParams(window.location.search));

  constructor() {
    window.addEventListener("popstate", () => this.#read());
    document.addEventListener("click", (event) => this.#click(event));
  }

  /** Goes to a path of the page, such as `/runs?state=working`. */
  go(to: string, { replace = false } = {}): void {
    if (replace) history.replaceState(null, "", to);
    else history.pushState(null, "", to);
    const before = this.path;
    this.#read();
    if (!replace && this.path !== before) this.#begin();
  }

  /** Sets or, with an empty text, removes values of the query without a new entry in the history. */
  set(values: Readonly<Record<string, string>>): void {
    const pairs = Object.entries({ ...Object.fromEntries(this.query), ...values }).filter(([, value]) => value !== "");
    const text = pairs.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&");
    this.go(this.path + (text === "" ? "" : `?${text}`), { replace: true });
  }

  /** Another view begins at its top, and so does the focus. */
  #begin(): void {
    window.scrollTo({ top: 0 });
    document.getElementById("content")?.focus({ preventScroll: true });
  }

  #read(): void {
    this.path = window.location.pathname;
    this.query = new URLSearchParams(window.location.search);
  }

  /** Links of the page change its state; all others, and those opened with a key held, are the browser's. */
  #click(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest("a");
    if (!link || link.target !== "" || link.hasAttribute("download") || link.origin !== window.location.origin) return;
    if (link.dataset["external"] !== undefined) return;
    event.preventDefault();
    this.go(link.pathname + link.search);
  }
}

export const router = new Router();
