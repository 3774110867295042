// What its owner says of an event in a list; `told` has the answer, `refresh` shows the list anew.
import { tell, unfold } from "./common.js";

export function answerable(heard, told, refresh) {
  async function say(row, address, fields) {
    const buttons = row.querySelectorAll("button");
    if (!(await tell(address, fields, buttons, row, told))) return;
    buttons.forEach((button) => (button.disabled = true)); // a second tap would meet what is said already
    await refresh();
  }

  const answer = (row, fields) => say(row, "heard/answer", { kind: row.dataset.kind, at_ms: row.dataset.at, ...fields });

  heard.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    const row = button?.closest(".event");
    if (!row) return;
    if (button.dataset.says) answer(row, { says: button.dataset.says, label: button.dataset.label || "" });
    if (button.dataset.know) say(row, "sounds/know", { sound: button.dataset.know });
    if (button.dataset.undo) say(row, "sounds/undo", { kind: "said", number: button.dataset.undo });
    if (button.hasAttribute("data-more")) unfold(button);
  });
  heard.addEventListener("submit", (event) => {
    const row = event.target.closest(".event");
    if (!row) return;
    event.preventDefault();
    answer(row, { says: "is", label: new FormData(event.target).get("label") });
  });
}
