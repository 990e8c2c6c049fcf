"""The web page of the HTTP gateway: its sources in Svelte, its build, and the room that serves it."""
