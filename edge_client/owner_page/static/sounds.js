// What the device knows: clips are played, sounds are renamed, put together and deleted, and all of it undone.
import { isPlaying, send, unfold } from "./common.js";

const known = document.getElementById("known");
const told = document.getElementById("told");
told.tabIndex = -1;

const busy = () => isPlaying() || known.querySelector("form:not([hidden]), input[type=range]:active") !== null;

// What a slider's step means; before it is moved, what the device does now.
function explain(slider, moved = true) {
  const { threshold, hours, heard } = slider.dataset;
  const score = moved ? 1 / (1 + Math.exp((slider.value - slider.max) / 2)) : Number(threshold);
  const percent = (100 * score).toFixed(score > 0.99 ? 2 : 0);
  const count = heard.split(" ")[slider.value];
  const minutes = Math.max(1, Math.round(60 * hours));
  const short = minutes === 1 ? "minute" : `${minutes} minutes`;
  const span = hours >= 23 ? "day" : hours >= 1.5 ? `${Math.round(hours)} hours` : short;
  const words = `Heard from ${percent} % on: that would have been ${count === "1" ? "1 detection" : `${count} detections`} in the last ${span}.`;
  slider.setAttribute("aria-valuetext", `${percent} %`);
  slider.parentElement.querySelector("p").textContent = words;
}

const explainAll = () => known.querySelectorAll("input[type=range]").forEach((slider) => explain(slider, false));
explainAll();

async function sense(slider) {
  try {
    await send("sounds/sensitivity", { label: slider.dataset.label, step: slider.value });
    slider.parentElement.querySelector("button").hidden = false;
  } catch (error) {
    told.className = "error";
    told.textContent = error.message;
  }
}

let changes = 0;
async function refresh(changed = false) {
  if (changed) changes += 1;
  const before = changes;
  const answer = await fetch("sounds").catch(() => null);
  if (!answer?.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!changed && (busy() || changes > before)) return; // what comes so late may be of before a change
  const open = [...known.querySelectorAll("details[open]")].map((part) => part.closest(".card").querySelector("h2").textContent);
  known.replaceChildren(...page.getElementById("known").childNodes);
  explainAll();
  document.getElementById("labels").replaceWith(page.getElementById("labels"));
  for (const card of known.querySelectorAll(".card")) {
    const details = card.querySelector("details");
    if (details && open.includes(card.querySelector("h2").textContent)) details.open = true;
  }
}

// What was changed is learned in the background.
setInterval(() => known.querySelector("[data-learning]") && !busy() && refresh(), 3000);

async function change(part, fields) {
  const { do: what, ...given } = part.dataset;
  const buttons = known.querySelectorAll("button");
  buttons.forEach((button) => (button.disabled = true));
  try {
    const reply = await send(`sounds/${what}`, { ...given, ...fields });
    const { message } = await reply.json();
    known.querySelectorAll("form").forEach((form) => (form.hidden = true));
    await refresh(true);
    told.className = "muted";
    told.textContent = message;
    told.focus();
  } catch (error) {
    if (part.type === "checkbox") part.checked = !part.checked;
    told.className = "error";
    told.textContent = error.message;
    told.scrollIntoView({ block: "nearest" });
  }
  buttons.forEach((button) => (button.disabled = false));
}

const isKnown = (name) => [...document.querySelectorAll("#labels option")].some((option) => option.value === name);

known.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.do) change(button, {});
  if (button.dataset.move) {
    const form = document.getElementById(button.dataset.move);
    Object.assign(form.dataset, { label: button.dataset.label, clip: button.dataset.clip });
    form.hidden = false;
    form.querySelector("label").textContent = `What is ${button.getAttribute("aria-label").slice(5)} a sound of?`;
    form.querySelector("input").focus();
  }
  if (button.dataset.more) unfold(button);
});
document.addEventListener("taught", () => refresh(true));
known.addEventListener("change", (event) => {
  const { target } = event;
  if (target.type === "range") sense(target);
  if (target.type === "checkbox") change(target, { on: target.checked ? "yes" : "no" });
});
known.addEventListener("input", (event) => {
  if (event.target.type === "range") return explain(event.target);
  const form = event.target.closest("form[data-do=rename]");
  if (!form) return undefined;
  const name = event.target.value.trim();
  const together = isKnown(name) && name !== form.dataset.label;
  form.dataset.together = together ? "yes" : "no";
  form.querySelector("button").textContent = together ? `Put it together with ${name}` : "Rename";
});
known.addEventListener("submit", (event) => {
  event.preventDefault();
  change(event.target, Object.fromEntries(new FormData(event.target)));
});

// The file of another device.
const elsewhere = document.getElementById("elsewhere-file");
elsewhere.addEventListener("change", async () => {
  const [file] = elsewhere.files;
  const said = document.getElementById("elsewhere-told");
  if (!file) return;
  elsewhere.disabled = true;
  said.className = "muted";
  said.textContent = `Sending ${file.name}.`;
  try {
    said.textContent = (await (await send("sounds/import", file)).json()).message;
  } catch (error) {
    said.className = "error";
    said.textContent = error.message;
  }
  elsewhere.disabled = false;
  elsewhere.value = "";
  await refresh(true);
});
