/** Dark or light: as the system says, until the reader chooses. */

type Theme = "" | "dark" | "light";
const KEY = "theme";

class ThemeChoice {
  value = $state<Theme>((localStorage.getItem(KEY) as Theme | null) ?? "");

  constructor() {
    this.#show();
  }

  /** Goes from the system's to dark, to light, and back. */
  next(): void {
    this.value = this.value === "" ? "dark" : this.value === "dark" ? "light" : "";
    localStorage.setItem(KEY, this.value);
    this.#show();
  }

  #show(): void {
    document.cookie = `theme=${this.value};path=/reports;samesite=lax`; // of documents without scripts
    if (this.value === "") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = this.value;
  }
}

export const theme = new ThemeChoice();
