"use strict";
// A heavy act's button opens when the name is typed (ringfence.js). The server asks for the same: this only spares a round trip.
for (const form of document.querySelectorAll("form[data-name]")) {
  form.querySelector("[data-needs-name]").disabled = form.elements.confirm.value !== form.dataset.name;
}
// What is dangerous begins at Cancel; a form to fill in, at its first field.
const first = document.querySelector("[data-focus]") || document.querySelector("#act :is(input:not([type=hidden]), select, textarea)");
first?.focus({ preventScroll: true });
document.getElementById("secret")?.select();
