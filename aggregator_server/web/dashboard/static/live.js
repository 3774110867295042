// Keeps the live parts of a page as the server has them: asks for the page again, and takes over what changed. What
// says that a part changed is its attribute data-live.
"use strict";

{
  const PAUSE_MS = 2000;

  async function look() {
    const answer = await fetch(location.pathname + location.search);
    if (!answer.ok || answer.redirected) return; // the server is away, or nobody is signed in any more
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const found = page.getElementById(part.id);
      if (found && found.dataset.live !== part.dataset.live) part.replaceWith(found);
    }
  }

  async function goOn() {
    if (!document.hidden) await look().catch(() => {}); // the next look may reach the server again
    setTimeout(goOn, PAUSE_MS);
  }

  setTimeout(goOn, PAUSE_MS);
}
