// The page History: what its owner says of past events, and deletes.
import { send } from "./common.js";
import { answerable } from "./events.js";

const heard = document.getElementById("heard");
const told = document.getElementById("told");

answerable(heard, told, async () => {
  const answer = await fetch(location.href).catch(() => null);
  if (!answer?.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  heard.replaceChildren(...page.getElementById("heard").childNodes);
});

const form = document.getElementById("delete");
const sure = document.getElementById("sure");

function ask(asked) {
  sure.hidden = !asked;
  form.querySelector("button").hidden = asked;
  (asked ? document.getElementById("no") : form.querySelector("button")).focus();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask(true);
});
document.getElementById("no").addEventListener("click", () => ask(false));
document.getElementById("yes").addEventListener("click", async () => {
  const { from, to, label } = form.dataset;
  try {
    const reply = await send("history/delete", { from, to, label });
    told.textContent = (await reply.json()).message;
    location.reload();
  } catch (error) {
    told.className = "error";
    told.textContent = error.message;
    ask(false);
  }
});
