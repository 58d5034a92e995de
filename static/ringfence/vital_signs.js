// The head of every page: which components do not answer. The page's stream sends changes; a page without one polls every three seconds.
(() => {
  "use strict";
  const EVERY = 3000;
  const bar = document.getElementById("vital-signs");
  if (!bar) return;
  const streams = Boolean(document.querySelector("[sse-connect]"));
  const PATIENCE = 10000;
  let asking = false, retry = 0;
  let again = false;  // a change came while an answer was under way that may be older

  const show = () => {
    const facts = document.getElementById("vital-facts");
    const stale = Boolean(facts && facts.dataset.stale);
    const badge = document.getElementById("incident-badge");
    if (badge && facts && badge.textContent !== facts.dataset.incidents) badge.textContent = facts.dataset.incidents;
    document.body.toggleAttribute("data-stale", stale);
    const asOf = stale ? Number(facts.dataset.asOf) : 0;
    if (asOf) document.body.dataset.asOf = asOf; else delete document.body.dataset.asOf;
  };
  const fetchOnce = async () => {
    const answer = await fetch("/ui/vital-signs", {
      headers: { "HX-Request": "true" },
      signal: AbortSignal.timeout(PATIENCE),
    });
    if (answer.status >= 500) throw new Error(answer.statusText);
    if (!answer.ok) return;
    const made = document.createElement("template");
    made.innerHTML = await answer.text();
    window.ringfence.morph(bar, made.content);
    show();
  };
  const ask = async () => {
    if (document.hidden) return;
    if (asking) { again = true; return; }
    clearTimeout(retry);
    asking = true;
    again = false;
    try {
      await fetchOnce();
    } catch {  // the page says by itself that the server does not answer
      if (streams) retry = setTimeout(ask, EVERY);
    }
    asking = false;
    if (again) ask();
  };
  document.body.addEventListener("ringfence-vital-signs", ask);
  document.body.addEventListener("htmx:sseOpen", ask);  // something may have changed since the page was made
  document.addEventListener("visibilitychange", ask);
  if (!streams) setInterval(ask, EVERY);
  show();
})();
