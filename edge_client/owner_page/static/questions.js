// The questions on the live page: play, yes, no, it was.
import { isPlaying, tell, unfold } from "./common.js";

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

async function say(fields, row) {
  await tell("questions/answer", fields, list.querySelectorAll("button"), row, told);
  await refresh();
}

list.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const row = button.closest("[data-question]");
  if (button.dataset.answer) say({ id: row.dataset.question, says: button.dataset.answer }, row);
  if (button.hasAttribute("aria-controls")) unfold(button);
});
list.addEventListener("submit", (event) => {
  event.preventDefault();
  const row = event.target.closest("[data-question]");
  const label = new FormData(event.target).get("label");
  say({ id: row.dataset.question, says: "was", label }, row);
});
setInterval(refresh, EVERY_MS);
