// The live page: spectrogram, level, scores, and what was heard.
import { Meter, bytes, follow, isPlaying, send, sentence, tell } from "./common.js";
import { answerable } from "./events.js";

const BANDS = 40;
const SPAN = 500;
const canvas = document.getElementById("spectrum");
const context = canvas.getContext("2d");
const meter = new Meter();
const history = new Uint8Array(BANDS * SPAN);
let waiting = [];
let colours = [];
let columnSeconds = 0.02;
let paused = false;

function mixed(stops, at) {
  const place = at * (stops.length - 1);
  const index = Math.min(stops.length - 2, Math.floor(place));
  return stops[index].map((from, part) => from + (stops[index + 1][part] - from) * (place - index));
}

// The colours of the page's style, for each of the 256 levels.
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const stops = [0, 1, 2, 3, 4].map((number) => {
    const hex = style.getPropertyValue(`--spectrum-${number}`).trim().slice(1);
    return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
  });
  colours = Array.from({ length: 256 }, (_, level) => mixed(stops, level / 255));
  draw();
}

// What the quietest tenth of the picture has is the room's own noise: it is pale, whatever the microphone's gain.
function noiseFloor() {
  const counts = new Uint32Array(256);
  history.forEach((level) => (counts[level] += 1));
  let below = (history.length - counts[0]) / 10;
  for (let level = 1; level < 200; level += 1) {
    below -= counts[level];
    if (below <= 0) return level;
  }
  return 0;
}

function draw() {
  const image = context.createImageData(SPAN, BANDS);
  const floor = 0.95 * noiseFloor();
  const shades = colours.map((_, level) => colours[Math.round(Math.max(0, (255 * (level - floor)) / (255 - floor)))]);
  for (let column = 0; column < SPAN; column += 1) {
    for (let band = 0; band < BANDS; band += 1) {
      const colour = shades[history[column * BANDS + band]];
      const pixel = 4 * ((BANDS - 1 - band) * SPAN + column);
      image.data.set(colour, pixel);
      image.data[pixel + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

// Columns come several at a time, and are shown one after the other at the pace of the sound.
let due = 0;
let last = performance.now();
function play(now) {
  // The first frame may carry a time before this script's.
  due += Math.max(0, Math.min(0.25, (now - last) / 1000)) / columnSeconds;
  last = now;
  const late = Math.max(0, waiting.length - 30);
  const count = Math.min(waiting.length, Math.floor(due) + late);
  due = waiting.length ? due - Math.floor(due) : Math.min(due, 1);
  if (count && !paused) {
    const shown = waiting.splice(0, count).slice(-SPAN);
    history.copyWithin(0, shown.length * BANDS);
    shown.forEach((one, index) => history.set(one.levels, (SPAN - shown.length + index) * BANDS));
    meter.show(Math.max(...shown.map((one) => one.decibels)));
    draw();
  }
  requestAnimationFrame(play);
}

function queue(moment) {
  if (paused) return;
  columnSeconds = moment.column_s || columnSeconds;
  const levels = bytes(moment.columns);
  moment.levels_db.forEach((decibels, index) => {
    waiting.push({ decibels, levels: levels.subarray(index * BANDS, (index + 1) * BANDS) });
  });
}

const pause = document.getElementById("pause");
pause.addEventListener("click", () => {
  paused = !paused;
  waiting = [];
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Freeze";
});

// Scores: a row for each label, made once.
const scores = document.getElementById("scores");
const rows = new Map();

function element(name, className, parent) {
  const made = document.createElement(name);
  made.className = className;
  parent.append(made);
  return made;
}

function makeRow(label) {
  const row = element("li", "score", scores);
  element("span", "score-name", row).textContent = label;
  const bar = element("span", "bar", row);
  const fill = element("span", "bar-fill", bar);
  const mark = element("span", "bar-mark", bar);
  const number = element("span", "number", row);
  return { row, fill, mark, number };
}

function showScores(moment) {
  const labels = Object.keys(moment.scores);
  if (labels.length !== rows.size || labels.some((label) => !rows.has(label))) {
    scores.replaceChildren();
    rows.clear();
    labels.sort((a, b) => a.localeCompare(b)).forEach((label) => rows.set(label, makeRow(label)));
    document.getElementById("no-scores").hidden = labels.length > 0;
  }
  if (paused) return;
  for (const [label, score] of Object.entries(moment.scores)) {
    const { row, fill, mark, number } = rows.get(label);
    fill.style.width = `${100 * score}%`;
    mark.style.left = `calc(${100 * moment.thresholds[label]}% - 1px)`;
    number.textContent = `${Math.round(100 * score)} %`;
    row.classList.toggle("now", score >= moment.thresholds[label]);
  }
}

// What the sounds of the last ten seconds may be; one that is built in is listened for at a click.
const guesses = document.getElementById("guesses");
const builtIn = new Set(guesses?.dataset.builtIn.split("|"));

function makeGuess(word) {
  const row = element("li", "", guesses);
  row.dataset.word = word;
  element("strong", "", row).textContent = word;
  element("span", "muted number", row);
  if (!builtIn.has(word)) return row;
  const button = element("button", "quiet small", row);
  button.type = "button";
  button.textContent = "Listen for it";
  button.setAttribute("aria-label", `Listen for ${word} from now on`);
  button.addEventListener("click", async () => {
    if (!(await tell("sounds/know", { sound: word }, [button], row, told))) return;
    builtIn.delete(word);
    button.remove();
    await refresh();
  });
  return row;
}

function showGuesses(found) {
  if (paused || !guesses) return;
  const rows = new Map([...guesses.children].map((row) => [row.dataset.word, row]));
  rows.forEach((row, word) => word in found || row.contains(document.activeElement) || row.remove());
  for (const [word, share] of Object.entries(found)) {
    const row = rows.get(word) ?? makeGuess(word);
    row.querySelector(".number").textContent = `${Math.round(100 * share)} %`;
  }
  document.getElementById("no-guess").hidden = guesses.children.length > 0;
}

// What was heard. The list is left alone while somebody is at work in it.
const heard = document.getElementById("heard");
const told = document.getElementById("told");
let stale = null;

const busy = () => isPlaying() || heard.querySelector("form:not([hidden])") !== null;

async function refresh(query = "") {
  if (busy()) {
    stale = query;
    return;
  }
  stale = null;
  const answer = await fetch(`heard${query}`).catch(() => null);
  if (!answer?.ok) return;
  const list = await answer.text();
  if (busy()) {
    stale = query;
    return;
  }
  const focused = document.activeElement?.closest?.(".event")?.dataset.at;
  const scrolled = heard.querySelector(".events")?.scrollTop;
  heard.innerHTML = list;
  if (scrolled) heard.querySelector(".events").scrollTop = scrolled;
  if (focused) heard.querySelector(`[data-at="${focused}"] button`)?.focus();
}

setInterval(() => stale !== null && refresh(stale), 1000);

answerable(heard, told, refresh);

async function keep(on) {
  const box = document.getElementById("keep");
  box.checked = on;
  try {
    const reply = await send("heard/keep", { keep: on ? "on" : "off" });
    told.className = "muted";
    told.textContent = (await reply.json()).message;
  } catch (error) {
    box.checked = !on;
    told.className = "error";
    told.textContent = error.message;
  }
  await refresh();
  document.getElementById("keep").focus();
}

// What was kept goes with the switch, so its owner is asked first.
function ask(sure, asked) {
  sure.hidden = !asked;
  document.getElementById("keep").checked = true;
  (asked ? sure.querySelector("button") : document.getElementById("keep")).focus();
}

heard.addEventListener("change", (event) => {
  if (event.target.id !== "keep") return;
  const sure = document.getElementById("keep-sure");
  if (event.target.checked || !sure) keep(event.target.checked);
  else ask(sure, true);
});
heard.addEventListener("submit", (event) => {
  if (event.target.id !== "keep-sure") return;
  event.preventDefault();
  event.target.hidden = true;
  keep(false);
});
heard.addEventListener("click", (event) => {
  if (event.target.id === "keep-on") ask(document.getElementById("keep-sure"), false);
});

const STATES = {
  on: ["on", "Listening"],
  silent: ["off", "No sound comes"],
  paused: ["off", "Paused"],
  off: ["off", "The daemon does not run: auricle-edge run"],
  forbidden: ["off", "The daemon runs as another user; this page must run as the same"],
  gone: ["off", "The page has lost the device"],
};
const state = document.getElementById("state");
let shown = "";

follow(
  (moment) => {
    queue(moment);
    showScores(moment);
    showGuesses(moment.guesses);
    moment.heard.forEach((event) => refresh(`?kind=${event.kind}&at_ms=${Date.parse(event.time)}`));
  },
  (name, why) => {
    if (name + why === shown) return;
    shown = name + why;
    const [kind, words] = STATES[name];
    state.dataset.state = kind;
    document.getElementById("state-text").textContent = words;
    document.getElementById("trouble").textContent = sentence(why);
    if (kind === "off") meter.clear();
  },
);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColours);
readColours();
requestAnimationFrame(play);
