"use strict";
// A heavy act's button opens when the name is typed (ringfence.js). The server asks for the same: this only spares a round trip.
for (const form of document.querySelectorAll("form[data-name]")) {
  form.querySelector("[data-needs-name]").disabled = form.elements.confirm.value !== form.dataset.name;
}
document.querySelector("[data-focus]")?.focus({ preventScroll: true });
document.getElementById("secret")?.select();
