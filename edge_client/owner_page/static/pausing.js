// The button of every page that closes the microphone, and opens it again; others may do so elsewhere meanwhile.
import { send } from "./common.js";

const LOOK_MS = 3000;
const form = document.getElementById("pausing");
const state = document.getElementById("pausing-state");
const button = form.querySelector("button");
let busy = false;

function show(paused) {
  if (form.dataset.paused === paused) return;
  form.dataset.paused = paused;
  state.textContent = paused ? `Paused ${paused}` : "";
  form.elements.for.hidden = Boolean(paused);
  button.textContent = paused ? "Listen again" : "Pause listening";
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  busy = true;
  button.disabled = true;
  try {
    const fields = form.dataset.paused ? { do: "resume" } : { do: "pause", for: form.elements.for.value };
    show((await (await send(form.action, fields)).json()).paused);
  } catch (error) {
    form.dataset.paused = form.dataset.paused || "";
    state.textContent = error.message;
  }
  busy = false;
  button.disabled = false;
  button.focus();
});

async function look() {
  if (busy || document.hidden) return;
  const answer = await fetch(form.action).catch(() => null);
  if (answer?.ok && !busy) show((await answer.json()).paused);
}

setInterval(look, LOOK_MS);
document.addEventListener("visibilitychange", look);
