// The form of a new connector: two shapes of one thing, errors at their fields, and nothing lost that was typed.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const theForm = () => byId("new"); // looked up each time: a refused save swaps it

  // Form or text: the other one stays in the page, since it may hold secrets, which the server never sends back.
  const setMode = (mode) => {
    theForm().dataset.mode = byId("mode").value = mode;
    for (const shape of ["form", "json"]) byId(`to-${shape}`).setAttribute("aria-pressed", String(shape === mode));
  };
  document.body.addEventListener("ringfence-mode", (event) => {
    const mode = event.detail.value || event.detail.mode;
    setMode(mode);
    (mode === "json" ? byId("json") : theForm().querySelector("#as-form input:not([type=hidden]), #as-form select"))?.focus();
  });

  // What was typed meanwhile, and secrets, survive a swap of all fields.
  let typed = null;
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const target = event.detail.target;
    if (target.id !== "as-form" && !target.querySelector("#as-form")) return;
    const focused = document.activeElement;
    typed = {
      secrets: [...target.querySelectorAll("input[type=password]")].filter((input) => input.value),
      focused: focused && target.contains(focused) && "value" in focused ? focused : null,
    };
  });

  const mark = (slot) => {
    const input = slot.closest(".field")?.querySelector("input:not([type=hidden]), select, textarea");
    if (!input) return;
    if (slot.childElementCount) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid");
  };
  document.body.addEventListener("htmx:oobAfterSwap", (event) => {
    if (event.detail.target.matches(".field-errors")) mark(event.detail.target);
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    const target = event.detail.target;
    if (target.matches(".field-errors")) mark(target);
    if (!typed || (target.id !== "as-form" && !target.querySelector("#as-form"))) return;
    for (const old of typed.secrets) {
      const input = target.querySelector(`input[type=password][name="${CSS.escape(old.name)}"]`);
      if (input && !("typed" in input.dataset)) input.value = old.value;
    }
    const again = typed.focused && byId(typed.focused.id);
    if (again && again.name === typed.focused.name) again.value = typed.focused.value;
    typed = null;
  });

  document.addEventListener("click", (event) => {
    const jump = event.target.closest('a[href^="#in-"]');
    if (jump) {
      const input = byId(decodeURIComponent(jump.hash.slice(1)));
      if (input) {
        event.preventDefault();
        if (theForm()?.dataset.mode === "json") setMode("form");
        for (let outer = input.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
        input.focus();
        input.scrollIntoView({ block: "center" });
      }
    }
    const way = event.target.closest("[data-way]");
    if (way) {
      const row = byId(way.dataset.way);
      row.hidden = !row.hidden;
      way.setAttribute("aria-expanded", String(!row.hidden));
    }
    const sample = event.target.closest("[data-sample]");
    if (sample) {
      byId("sample").value = sample.dataset.sample;
      byId("trial").open = true;
      byId("sample").focus();
    }
  });

  // What is ticked stands in the list's field, and what is typed there besides stays.
  document.addEventListener("change", (event) => {
    const choice = event.target.closest("[data-choice]");
    if (!choice) return;
    const input = byId(choice.dataset.choice);
    const others = input.value.split(",").map((each) => each.trim()).filter((each) => each && each !== choice.value);
    input.value = [...others, ...(choice.checked ? [choice.value] : [])].join(",");
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });

  // Enter in a field makes no connector: the button does.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.closest("#new") && event.target.matches("input:not([type=checkbox]):not([type=radio])")) {
      event.preventDefault();
      event.target.dispatchEvent(new Event("change", { bubbles: true }));
    }
  });
})();
