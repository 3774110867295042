// What its owner says of an event in a list; `told` has the answer, `refresh` shows the list anew.
import { send } from "./common.js";

export function answerable(heard, told, refresh) {
  async function tell(row, address, fields) {
    const buttons = row.querySelectorAll("button");
    buttons.forEach((button) => (button.disabled = true));
    try {
      const reply = await send(address, fields);
      told.className = "muted";
      told.textContent = (await reply.json()).message;
      row.querySelectorAll("form").forEach((form) => (form.hidden = true));
      await refresh();
    } catch (error) {
      told.className = "error";
      told.textContent = error.message;
    }
    buttons.forEach((button) => (button.disabled = false));
  }

  const answer = (row, fields) => tell(row, "heard/answer", { kind: row.dataset.kind, at_ms: row.dataset.at, ...fields });

  heard.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    const row = button?.closest(".event");
    if (!row) return;
    if (button.dataset.says) answer(row, { says: button.dataset.says, label: button.dataset.label || "" });
    if (button.dataset.undo) tell(row, "sounds/undo", { kind: "said", number: button.dataset.undo });
    if (button.dataset.more) {
      const form = document.getElementById(button.dataset.more);
      form.hidden = !form.hidden;
      button.setAttribute("aria-expanded", String(!form.hidden));
      if (!form.hidden) form.querySelector("input").focus();
    }
  });
  heard.addEventListener("submit", (event) => {
    const row = event.target.closest(".event");
    if (!row) return;
    event.preventDefault();
    answer(row, { says: "is", label: new FormData(event.target).get("label") });
  });
}
