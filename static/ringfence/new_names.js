// The form of a new connector begins at what reaches the source, and with names. Before new.js: the first focus of the
// page fills no help, which would move what is below.
(() => {
  "use strict";
  const firstField = document.querySelector("#card-source .field:not([hidden]) :is(input:not([type=hidden]), select, textarea)") || document.getElementById("in-name");
  if (firstField && !firstField.value && !location.hash && matchMedia("(pointer: fine)").matches) firstField.focus({ preventScroll: true });

  // The proposed name of a topic follows the connector's, until somebody changes it.
  let named = document.getElementById("in-name")?.value || "";
  document.addEventListener("input", (event) => {
    if (event.target.id !== "in-name") return;
    const suffix = document.getElementById("topic-suffix").value;
    for (const topic of document.querySelectorAll("[name='setting:topic'], [name='setting:topic.prefix']")) {
      if (topic.value === named + suffix) topic.value = event.target.value + suffix;
    }
    named = event.target.value;
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id === "as-form") named = document.getElementById("in-name")?.value || "";
  });
})();
