// Shows times in the browser's time zone. Without scripts they stand in UTC.
"use strict";

{
  const clock = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });

  // What says how long ago something was has the time in its tip; other times are the text itself.
  function localise() {
    for (const item of document.querySelectorAll("time[datetime]")) {
      const here = clock.format(new Date(item.dateTime));
      if (item.hasAttribute("data-ago")) {
        if (item.title !== here) item.title = here;
      } else if (item.textContent !== here) {
        item.title = item.textContent; // UTC
        item.textContent = here;
      }
    }
  }

  localise();
  // A live part of the page arrives in UTC.
  new MutationObserver(localise).observe(document.body, { childList: true, characterData: true, subtree: true });
  for (const item of document.querySelectorAll("[data-local]")) {
    item.textContent = item.dataset.local.replace("{zone}", clock.resolvedOptions().timeZone);
  }
}
