// The page Rules: makes, tests and removes what is done when something is heard.
import { send } from "./common.js";

const told = document.getElementById("told");
const form = document.getElementById("new");
const { name: named, label } = form.elements;

async function say(address, fields, button, words) {
  button.disabled = true;
  told.className = "muted";
  told.textContent = words;
  let taken = false;
  try {
    const reply = await send(address, fields);
    told.textContent = (await reply.json()).message;
    taken = true;
  } catch (error) {
    told.className = "error";
    told.textContent = error.message;
  }
  button.disabled = false;
  return taken;
}

document.getElementById("rules")?.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-do]");
  if (!button) return;
  const { name } = button.closest(".rule").dataset;
  const test = button.dataset.do === "test";
  const taken = await say(`rules/${button.dataset.do}`, { name }, button, test ? "It is told …" : "");
  if (taken && !test) location.reload();
});

// A rule is called as what it waits for, until its owner calls it otherwise.
label.addEventListener("change", () => {
  if (!named.dataset.typed) named.value = label.value;
});
named.addEventListener("input", () => (named.dataset.typed = "yes"));

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await say("rules/add", new FormData(form), form.querySelector("button"), "")) location.replace("rules");
});
