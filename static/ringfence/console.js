"use strict";
// A dangerous action gets the focus on Cancel; a form, on its first field.
const act = document.getElementById("act");
act?.querySelector(act.dataset.name ? "[data-close]" : ":is(input:not([type=hidden]), select, textarea)")?.focus({ preventScroll: true });
document.getElementById("secret")?.select();
