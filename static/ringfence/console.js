"use strict";
// The button of a dangerous action is enabled when the name is typed (ringfence.js). The server checks it as well: this only saves a round trip.
for (const form of document.querySelectorAll("form[data-name]")) {
  form.querySelector("[data-needs-name]").disabled = form.elements.confirm.value !== form.dataset.name;
}
// A dangerous action gets the focus on Cancel; a form, on its first field.
const first = document.querySelector("[data-focus]") || document.querySelector("#act :is(input:not([type=hidden]), select, textarea)");
first?.focus({ preventScroll: true });
document.getElementById("secret")?.select();
