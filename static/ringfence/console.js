"use strict";
// A heavy act's button opens when the name is typed. The server asks for the same: this only spares a round trip.
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-name]");
  if (form === null || event.target.name !== "confirm") return;
  form.querySelector("[data-needs-name]").disabled = event.target.value !== form.dataset.name;
});
document.addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll("form[data-name]")) {
    form.querySelector("[data-needs-name]").disabled = form.elements.confirm.value !== form.dataset.name;
  }
  document.querySelector("[data-focus]")?.focus({ preventScroll: true });
  document.querySelector(".rf-secret")?.select();
});
// What does not answer, in the head of each page.
setInterval(async () => {
  const bar = document.getElementById("vital-signs");
  if (bar === null || document.hidden) return;
  try {
    const answer = await fetch("/ui/vital-signs", { headers: { "HX-Request": "true" } });
    const text = answer.ok ? (await answer.text()).trim() : bar.innerHTML.trim();
    if (text !== bar.dataset.shown) { bar.innerHTML = text; bar.dataset.shown = text; }
  } catch { /* the server is away: nothing newer is known */ }
}, 5000);
