// The questions on the live page: play, yes, no, it was.
import { isPlaying, send } from "./common.js";

const EVERY_MS = 10_000;
const list = document.getElementById("questions");
const told = document.getElementById("told");

const busy = () => isPlaying() || list.querySelector("form:not([hidden])") !== null;

// The list is left alone while somebody is at work in it.
async function refresh() {
  if (busy()) return;
  const answer = await fetch("questions").catch(() => null);
  if (!answer?.ok) return;
  const shown = await answer.text();
  if (busy() || list.dataset.shown === shown) return;
  const focused = list.contains(document.activeElement);
  list.innerHTML = shown;
  list.dataset.shown = shown;
  if (focused) list.querySelector("button")?.focus();
}

async function tell(address, fields, row) {
  const buttons = list.querySelectorAll("button");
  buttons.forEach((button) => (button.disabled = true));
  try {
    const reply = await send(address, fields);
    told.className = "muted";
    told.textContent = (await reply.json()).message;
    row?.querySelectorAll("form").forEach((form) => (form.hidden = true));
  } catch (error) {
    told.className = "error";
    told.textContent = error.message;
  }
  buttons.forEach((button) => (button.disabled = false));
  await refresh();
}

list.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const row = button.closest("[data-question]");
  if (button.dataset.answer) tell("questions/answer", { id: row.dataset.question, says: button.dataset.answer }, row);
  if (button.dataset.open) {
    const form = document.getElementById(button.dataset.open);
    form.hidden = !form.hidden;
    button.setAttribute("aria-expanded", String(!form.hidden));
    if (!form.hidden) form.querySelector("input").focus();
  }
});
list.addEventListener("submit", (event) => {
  event.preventDefault();
  const row = event.target.closest("[data-question]");
  const label = new FormData(event.target).get("label");
  tell("questions/answer", { id: row.dataset.question, says: "was", label }, row);
});
setInterval(refresh, EVERY_MS);
