// The page Rules: makes, tests and removes what is done when something is heard.
import { tell } from "./common.js";

const told = document.getElementById("told");
const form = document.getElementById("new");
const { name: named, label } = form.elements;

document.getElementById("rules")?.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-do]");
  if (!button) return;
  const row = button.closest(".rule");
  const test = button.dataset.do === "test";
  told.textContent = test ? "It is told …" : "";
  const taken = await tell(`rules/${button.dataset.do}`, { name: row.dataset.name }, [button], row, told);
  if (taken && !test) location.reload();
});

// A rule is called as what it waits for, until its owner calls it otherwise.
const callIt = () => {
  if (!named.dataset.typed) named.value = label.value;
};
label.addEventListener("change", callIt);
named.addEventListener("input", () => (named.dataset.typed = "yes"));

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = new FormData(form);
  if (await tell("rules/add", fields, [form.querySelector("button")], form, told)) location.replace("rules");
});
// Who was quicker than this script has chosen already.
callIt();
form.querySelector("button").disabled = false;
