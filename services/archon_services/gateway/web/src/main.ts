import "./app.css";
import { mount } from "svelte";
import App from "./shell/App.svelte";

const target = document.getElementById("app");
if (target === null) throw new Error("index.html has no element #app");
mount(App, { target });
