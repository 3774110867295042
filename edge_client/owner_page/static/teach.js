// The guided minute: the device records with its own microphone; this page shows the steps and beeps.
import { Meter, follow, send, sentence } from "./common.js";

const part = (name) => document.getElementById(name);
const meter = new Meter();
let abort = null;
let sound = null;

// A short tone: it ends well before the take begins.
function beep(hertz, seconds = 0.12) {
  if (!part("beep").checked || !sound) return;
  const tone = sound.createOscillator();
  const volume = sound.createGain();
  tone.frequency.value = hertz;
  volume.gain.setValueAtTime(0, sound.currentTime);
  volume.gain.linearRampToValueAtTime(0.25, sound.currentTime + 0.01);
  volume.gain.linearRampToValueAtTime(0, sound.currentTime + seconds);
  tone.connect(volume).connect(sound.destination);
  tone.start();
  tone.stop(sound.currentTime + seconds);
}

function big(kind, text) {
  part("big").dataset.kind = kind;
  part("big").textContent = text;
}

// Show how many takes are good; the last of them can be discarded.
function taken(count) {
  [...part("takes").children].forEach((dot, index) => dot.classList.toggle("done", index < count));
  part("discard").hidden = count === 0;
  part("discard").disabled = false;
  part("discard").value = count;
  part("discard").textContent = `Discard take ${count}`;
}

const STEPS = {
  room() {
    big("room", "…");
    part("step").textContent = "Listening to the room. Please be quiet.";
  },
  count(step) {
    // What became of the last take stays for as long as the first number would.
    if (step.number === 3 && ["kept", "refused"].includes(part("big").dataset.kind)) return;
    big("count", step.number);
    if (step.number > 1) part("step").textContent = `Take ${step.take} of ${step.count}: get ready.`;
    if (step.number === 1) beep(880);
  },
  now() {
    big("now", "Now!");
    part("step").textContent = "Make the sound.";
    part("advice").textContent = "";
  },
  kept(step) {
    big("kept", "✓");
    beep(1320, 0.08);
    part("step").textContent = `Take ${step.take} of ${step.count} is good.`;
    taken(step.take);
  },
  discarded(step) {
    part("step").textContent = `Take ${step.take} is discarded.`;
    taken(part("takes").querySelectorAll(".done").length - 1);
  },
  refused(step) {
    big("refused", "↻");
    beep(330, 0.2);
    part("step").textContent = "Once more.";
    part("advice").textContent = `That take was ${step.text}.`;
  },
};

function show(section) {
  for (const name of ["begin", "stage", "after"]) part(name).hidden = name !== section;
  part("adding").hidden = section !== "begin";
}

// Read the answer's lines; return the last one's result.
async function session(fields) {
  const answer = await send("teach/record", fields, { signal: abort.signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let done = null;
  for (;;) {
    const { value, done: ended } = await reader.read();
    if (ended) return done;
    text += value;
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines.map((one) => JSON.parse(one))) {
      if (line.step) STEPS[line.step.kind](line.step);
      if (line.level_db !== undefined) meter.show(line.level_db);
      if (line.done) done = line.done;
    }
  }
}

part("teach")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = new FormData(event.target);
  const label = fields.get("label").trim();
  sound ??= new AudioContext();
  abort = new AbortController();
  part("error").textContent = part("advice").textContent = "";
  part("stage-title").textContent = `Recording ${label}`;
  part("takes").replaceChildren(...Array.from({ length: fields.get("count") }, () => document.createElement("li")));
  taken(0);
  big("room", "…");
  part("step").textContent = "Asking the daemon for the microphone.";
  show("stage");
  part("stop").focus();
  try {
    finish(label, await session(fields));
  } catch (error) {
    if (error.name === "AbortError") return finish(label, await status(label));
    show("begin");
    part("error").textContent = error.message;
    part("label").focus();
  }
});

// Before, the browser would send the form itself, and nothing would begin.
if (part("start")) part("start").disabled = false;

// A demonstration has takes of sounds that its device does not know yet.
part("offers")?.addEventListener("click", async (event) => {
  const label = event.target.closest("button")?.dataset.offer;
  if (!label) return;
  part("error").textContent = "";
  try {
    finish(label, await (await send("teach/offered", { label })).json());
  } catch (error) {
    part("error").textContent = error.message;
  }
});

part("discard").addEventListener("click", async (event) => {
  event.target.disabled = true;
  await send("teach/discard", { take: event.target.value }).catch((error) => (part("advice").textContent = error.message));
});
part("stop").addEventListener("click", () => abort.abort());
part("again").addEventListener("click", () => {
  following?.close();
  watching = null;
  if (!part("teach")) return location.reload();
  show("begin");
  part("label").value = "";
  part("label").focus();
});

// After the takes: wait until the device has learned them, and then until it hears the sound.
let watching = null;
let following = null;

const status = (label) =>
  fetch(`status?${new URLSearchParams({ label })}`)
    .then((answer) => answer.json())
    .catch(() => null);

function finish(label, done) {
  show("after");
  part("after-title").textContent = `Teaching ${label}`;
  part("after-title").focus();
  part("after-error").textContent = sentence(done?.error);
  for (const name of ["kept", "learned", "tried"]) part(name).removeAttribute("data-state");
  part("learned").textContent = "The device learns it.";
  part("after-advice").textContent = "";
  part("tried").textContent = part("teach") ? "Make the sound, and see whether it is heard." : "The device plays it: see whether it is heard.";
  for (const name of ["learned", "tried"]) part(name).hidden = !done?.takes;
  if (!done?.takes) {
    part("kept").textContent = "No take was kept: there is nothing to learn.";
    return;
  }
  part("kept").textContent = `The device has ${done.takes === 1 ? "1 take" : `${done.takes} takes`} of ${label}.`;
  part("kept").dataset.state = "done";
  part("learned").dataset.state = "doing";
  watching = { label, learned: false };
  following?.close();
  following = follow(heard, (_, why) => {
    // Just after the takes the daemon says for a while that somebody records.
    const early = part("learned").dataset.state === "doing" && !watching?.taught;
    part("after-silent").textContent = why && !early ? `The device hears nothing now: ${why}.` : "";
  });
  setTimeout(look, 1000, watching);
}

function tell(text) {
  part("after-told").textContent = text;
}

async function look(mine) {
  if (mine !== watching || mine.learned) return;
  const now = await status(mine.label);
  if (mine !== watching) return;
  if (now && !now.listens) {
    part("learned").textContent = "The next round learns it.";
    part("learned").removeAttribute("data-state");
    return;
  }
  if (now && !now.running) {
    part("after-error").textContent = "The daemon does not run. It learns the takes when it is started: auricle-edge run";
  } else if (now) {
    part("after-error").textContent = now.error;
    const waits = now.waiting_for ? ` It waits for ${now.waiting_for}.` : "";
    if (now.learning) part("learned").textContent = `The device learns it: seconds on a PC, a minute or two on a small board.${waits}`;
    mine.taught = !now.learning;
    if (mine.taught) part("after-advice").textContent = now.advice.map(sentence).join(" ");
  }
  setTimeout(look, 1000, mine);
}

function heard(moment) {
  const mine = watching;
  if (!mine) return;
  if (mine.taught && !mine.learned && mine.label in moment.scores) {
    mine.learned = true;
    part("learned").textContent = `The device has learned it, and listens for ${mine.label} now.`;
    part("learned").dataset.state = "done";
    part("tried").dataset.state = "doing";
    tell(part("learned").textContent);
  }
  const event = moment.heard.find((one) => one.label === mine.label);
  if (mine.learned && event) {
    part("tried").textContent = `Heard: ${mine.label}, ${Math.round(100 * event.score)} %.`;
    part("tried").dataset.state = "done";
    tell(part("tried").textContent);
  }
}
