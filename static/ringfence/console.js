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
