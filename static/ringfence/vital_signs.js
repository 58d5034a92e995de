// The head of every page: which components do not answer. The page's stream sends changes; a page without one polls every three seconds.
(() => {
  "use strict";
  const EVERY = 3000;
  const bar = document.getElementById("vital-signs");
  if (!bar) return;
  let asking = false;

  const show = () => {
    const facts = document.getElementById("vital-facts");
    const stale = Boolean(facts && facts.dataset.stale);
    const badge = document.getElementById("incident-badge");
    if (badge && facts && badge.textContent !== facts.dataset.incidents) badge.textContent = facts.dataset.incidents;
    document.body.toggleAttribute("data-stale", stale);
    const asOf = stale ? Number(facts.dataset.asOf) : 0;
    if (asOf) document.body.dataset.asOf = asOf; else delete document.body.dataset.asOf;
  };
  const ask = async () => {
    if (asking || document.hidden) return;
    asking = true;
    try {
      const answer = await fetch("/ui/vital-signs", { headers: { "HX-Request": "true" } });
      if (answer.ok) {
        const made = document.createElement("template");
        made.innerHTML = await answer.text();
        window.ringfence.morph(bar, made.content);
        show();
      }
    } catch { /* the page says by itself that the server does not answer */ }
    asking = false;
  };
  document.body.addEventListener("ringfence-vital-signs", ask);
  document.body.addEventListener("htmx:sseOpen", ask);  // something may have changed since the page was made
  document.addEventListener("visibilitychange", ask);
  if (!document.querySelector("[sse-connect]")) setInterval(ask, EVERY);
  show();
})();
