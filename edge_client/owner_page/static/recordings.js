// Recordings from elsewhere: chosen or dropped, heard here, and sent to the device one after the other.
import { send } from "./common.js";
import { cut, decode, wave } from "./cutting.js";

const form = document.getElementById("recordings");
const picker = document.getElementById("files");
const list = document.getElementById("chosen");
const keep = document.getElementById("keep-recordings");
const told = document.getElementById("recordings-told");
const chosen = new Map();

function button(words, label, row) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "quiet small";
  made.textContent = words;
  made.setAttribute("aria-label", label);
  row.append(made);
  return made;
}

function leave(row) {
  URL.revokeObjectURL(row.querySelector("[data-play]").dataset.play);
  chosen.delete(row);
  row.remove();
  keep.hidden = chosen.size === 0;
}

const rate = Number(form.dataset.rate);
const clip = Number(form.dataset.clip);
const read = form.dataset.read.split(" ");

function show(name, sound) {
  const row = document.createElement("li");
  const said = document.createElement("span");
  said.textContent = name;
  row.append(said);
  button("▶ Play", `Play ${name}`, row).dataset.play = URL.createObjectURL(sound);
  button("Leave out", `Leave out ${name}`, row).addEventListener("click", () => leave(row));
  list.append(row);
  chosen.set(row, new File([sound], sound instanceof File ? name : `${name}.wav`, { type: sound.type }));
}

const clock = (seconds) => `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(1).padStart(4, "0")}`;

// The takes of a file: itself, where the device reads it and one sound is in it, or where this browser cannot.
async function takes(file) {
  const samples = await decode(file, rate);
  if (!samples?.length) return [[file.name, file]];
  const parts = cut(samples, rate, clip);
  if (parts.length === 1) {
    const asItIs = file.size <= form.dataset.largest && read.some((ending) => file.name.toLowerCase().endsWith(ending));
    return [asItIs ? [file.name, file] : [file.name, wave(parts[0].samples, rate)]];
  }
  return parts.map((part, index) => [`${file.name}, take ${index + 1} at ${clock(part.from)}`, wave(part.samples, rate)]);
}

async function choose(files) {
  for (const file of [...files]) {
    told.textContent = `Reading ${file.name}.`;
    (await takes(file)).forEach(([name, sound]) => show(name, sound));
  }
  keep.hidden = chosen.size === 0;
  told.textContent = "";
}

picker.addEventListener("change", async () => {
  const files = [...picker.files];
  picker.value = "";
  await choose(files);
});
choose(picker.files); // which were chosen while this page was loading
for (const name of ["dragover", "drop"]) {
  form.addEventListener(name, (event) => {
    event.preventDefault();
    if (name === "drop") choose(event.dataTransfer.files);
  });
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const label = new FormData(form).get("label").trim();
  const all = chosen.size;
  let kept = 0;
  let after = "";
  keep.disabled = true;
  for (const [row, file] of [...chosen]) {
    told.textContent = `Sending ${file.name}.`;
    try {
      if (file.size > form.dataset.largest) throw new Error(`more than ${form.dataset.largest >> 20} MB: cut out the sound`);
      const reply = await send(`teach/add?${new URLSearchParams({ label, name: file.name })}`, file);
      after = (await reply.json()).after;
      kept += 1;
      leave(row);
    } catch (error) {
      row.querySelector("span").textContent = `${file.name}: ${error.message}`;
      row.querySelector("span").className = "error";
    }
  }
  keep.disabled = false;
  told.textContent = `${kept} of ${all} kept as ${label}. ${after}`;
  document.dispatchEvent(new Event("taught"));
});
