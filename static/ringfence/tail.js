// The live tail of a topic: only while the page is visible, and with a limited number of rows.
(() => {
  "use strict";
  const next = () => document.getElementById("tail-next");
  // An answer that arrives after its form is gone has nothing to swap.
  const abort = () => { if (next()) htmx.trigger(next(), "htmx:abort"); };
  let missed = false;

  document.body.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.target.id === "records") abort();
    if (event.target.id !== "tail-next" || !document.hidden) return;
    missed = true;
    event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !missed) return;
    missed = false;
    next()?.dispatchEvent(new CustomEvent("ringfence-tail"));
  });
  document.body.addEventListener("htmx:oobAfterSwap", () => {
    const rows = document.getElementById("tail-rows");
    if (rows) for (const old of [...rows.children].slice(Number(rows.dataset.most))) old.remove();
  });
  // A refusal replaces the form with its reason; a request without an answer is repeated.
  document.body.addEventListener("htmx:sendError", (event) => {
    if (event.target.id === "tail-next") setTimeout(() => next()?.dispatchEvent(new CustomEvent("ringfence-tail")), 3000);
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("#tail-stop");
    if (!button) return;
    abort();
    next()?.remove();
    button.remove();
    document.getElementById("tail-state").textContent = "Stopped. Follow starts again with the newest records.";
    document.getElementById("records-title").lastChild.textContent = "Followed";
  });
})();
