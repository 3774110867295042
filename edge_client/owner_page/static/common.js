// What the pages share: requests, playing, the level, and the live stream.

const token = document.querySelector("meta[name=csrf-token]").content;

// Send a form's fields, or a file; throws an Error with the device's own words where it refuses.
export async function send(address, fields, options = {}) {
  const answer = await fetch(address, {
    method: "POST",
    headers: { "x-csrf-token": token },
    body: fields instanceof Blob ? fields : new URLSearchParams(fields),
    ...options,
  });
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Error(told.error || `The device answered ${answer.status}.`);
  }
  return answer;
}

// Tell the device what its owner says by a row of a list; `told` has the answer. Returns whether the device took it.
export async function tell(address, fields, buttons, row, told) {
  buttons.forEach((button) => (button.disabled = true));
  let taken = false;
  try {
    const reply = await send(address, fields);
    told.className = "muted";
    told.textContent = (await reply.json()).message;
    row.querySelectorAll("form").forEach((form) => (form.hidden = true));
    taken = true;
  } catch (error) {
    told.className = "error";
    told.textContent = error.message;
  }
  buttons.forEach((button) => (button.disabled = false));
  return taken;
}

// Show or hide the form that a button controls.
export function unfold(button) {
  const form = document.getElementById(button.getAttribute("aria-controls"));
  form.hidden = !form.hidden;
  button.setAttribute("aria-expanded", String(!form.hidden));
  if (form.hidden) return;
  const first = form.querySelector("input, button");
  first.focus();
  first.select?.(); // a guess that stands there is typed over
}

// Play one sound at a time; a second press stops it.
const player = new Audio();
let pressed = null;
let words = "";

function silence() {
  player.pause();
  if (pressed) {
    pressed.textContent = words;
    pressed.removeAttribute("data-playing");
  }
  pressed = null;
}

player.addEventListener("ended", silence);
player.addEventListener("error", () => {
  const button = pressed;
  silence();
  if (button) button.textContent = "not kept any more";
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-play]");
  if (!button) return;
  const again = button === pressed;
  silence();
  if (again) return;
  pressed = button;
  words = button.textContent;
  button.textContent = words.replace("▶", "■");
  button.setAttribute("data-playing", "");
  player.src = button.dataset.play;
  player.play().catch(() => {});
});

export const isPlaying = () => pressed !== null;

// A level meter; screen readers get a new number at most once a second.
export class Meter {
  constructor() {
    this.bar = document.getElementById("level");
    this.fill = this.bar.querySelector(".bar-fill");
    this.text = document.getElementById("level-text");
    this.written = this.told = 0;
  }

  // No sound comes: there is no level.
  clear() {
    this.fill.style.width = "0";
    this.text.textContent = "–";
  }

  show(decibels) {
    const bounded = Math.max(-80, Math.min(0, decibels));
    this.fill.style.width = `${100 * (1 + bounded / 80)}%`;
    const now = Date.now();
    if (now - this.written >= 200) {
      this.written = now;
      this.text.textContent = `${String(Math.round(decibels)).replace("-", "−")} dB`;
    }
    if (now - this.told >= 1000) {
      this.told = now;
      this.bar.setAttribute("aria-valuenow", Math.round(bounded));
      this.bar.setAttribute("aria-valuetext", `${Math.round(decibels)} decibels`);
    }
  }
}

// What the device says as a part of a sentence, as a sentence.
export const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1).replace(/[.]$/, "")}.` : "");

// Follow what the daemon hears: `moment` gets every hop, `state` "on", "silent", "off", "forbidden" or "gone", and why.
export function follow(moment, state) {
  const source = new EventSource("live");
  source.addEventListener("moment", (event) => {
    state("on", "");
    moment(JSON.parse(event.data));
  });
  source.addEventListener("state", (event) => {
    const told = JSON.parse(event.data);
    state(told.state, told.why ?? "");
  });
  source.addEventListener("error", () => state("gone", ""));
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => event.persisted && location.reload());
  return source;
}

export function bytes(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
