// The form of a new connector: fields or text, errors at their fields, and no typed value is lost.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const theForm = () => byId("new"); // looked up each time: a refused save swaps it

  document.documentElement.classList.add("scripted");

  // The drawer with all settings.
  const searchSettings = () => {
    const words = byId("settings-search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const fields = [...document.querySelectorAll("#all-settings .field:not([hidden])")];
    for (const field of fields) field.classList.toggle("unmatched", !words.every((word) => field.textContent.toLowerCase().includes(word)));
    for (const group of document.querySelectorAll("#all-settings .group")) group.classList.toggle("unmatched", !group.querySelector(".field:not([hidden], .unmatched)"));
    byId("settings-nothing").hidden = !fields.length || fields.some((field) => !field.matches(".unmatched"));
  };
  document.addEventListener("input", (event) => { if (event.target.id === "settings-search") searchSettings(); });

  // The fields or the text count, whichever was edited last.
  const setMode = (mode) => { theForm().dataset.mode = byId("mode").value = mode; };
  window.ringfenceForm = { setMode };

  // Values typed during a request, and secrets, survive a swap of all fields.
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
    if (slot.childElementCount) slot.closest("#selection")?.setAttribute("open", "");
  };
  document.body.addEventListener("htmx:oobAfterSwap", (event) => {
    if (event.detail.target.matches(".field-errors")) mark(event.detail.target);
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    const target = event.detail.target;
    if (target.matches(".field-errors")) mark(target);
    if (byId("settings-search")?.value && (target.id === "later" || target.id === "as-form")) searchSettings();
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
        for (let outer = input.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
        input.focus();
        input.scrollIntoView({ block: "center" });
      }
    }
    const sample = event.target.closest("[data-sample]");
    if (sample) {
      byId("sample").value = sample.dataset.sample;
      byId("trial").open = true;
      byId("sample").dispatchEvent(new Event("input", { bubbles: true }));
    }
  });

  // Ticked choices join what is typed in the list's field.
  document.addEventListener("change", (event) => {
    const choice = event.target.closest("[data-choice]");
    if (!choice) return;
    const input = byId(choice.dataset.choice);
    const others = input.value.split(",").map((each) => each.trim()).filter((each) => each && each !== choice.value);
    input.value = [...others, ...(choice.checked ? [choice.value] : [])].join(",");
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });

  // Help for the focused field, if there is room for it.
  document.addEventListener("focusin", (event) => {
    const field = event.target.closest(".wizard-main .field");
    if (!field || !byId("guide")) return;
    // Not by :focus-within: what a button's press hides would move the button away before it is released.
    document.querySelector(".field.current")?.classList.remove("current");
    field.classList.add("current");
    const label = field.querySelector("label");
    const name = label.querySelector("code")?.textContent;
    byId("guide-label").textContent = (label.firstChild?.textContent || "").trim();
    const lines = [name, field.querySelector(".help")?.textContent, field.dataset.default && `Default: ${field.dataset.default}`];
    byId("guide").replaceChildren(...lines.map((text, number) => {
      if (!text) return "";
      const line = document.createElement(number ? "p" : "code");
      line.textContent = text.trim();
      return line;
    }), field.querySelector(".more")?.cloneNode(true) || "");
  });

  // The menu of transforms.
  const items = () => [...document.querySelectorAll("#add-transform li")].filter((item) => !item.hidden).map((item) => item.querySelector("button"));
  const find = (query) => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    for (const item of document.querySelectorAll("#add-transform li")) {
      const group = item.closest(".menu-group").querySelector("h3").textContent;
      const text = `${group} ${item.textContent}`.toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
    }
    for (const group of document.querySelectorAll("#add-transform .menu-group")) group.hidden = !group.querySelector("li:not([hidden])");
    byId("menu-nothing").hidden = items().length > 0;
  };
  document.addEventListener("input", (event) => { if (event.target.id === "menu-search") find(event.target.value); });
  document.addEventListener("toggle", (event) => {
    if (event.target.id === "add-transform" && event.target.open) byId("menu-search").focus();
  }, true);
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target) || event.target.closest("li button")) menu.open = false;
    }
  });
  const browse = (event) => {
    const menu = event.target.closest("#add-transform[open]");
    if (!menu) return;
    if (event.key === "Escape") { menu.open = false; menu.querySelector("summary").focus(); }
    if (event.key === "Enter" && event.target.id === "menu-search") {
      event.preventDefault();
      const [first] = items();
      (/\bkey\b/i.test(event.target.value) && first?.parentElement.querySelector(".of-key") || first)?.click();
    }
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    const all = items();
    const next = all.indexOf(document.activeElement) + way;
    (next < 0 ? byId("menu-search") : all[Math.min(next, all.length - 1)])?.focus();
  };

  // Moving transforms.
  const move = (alias, command) => { const button = byId("move-step"); button.value = `${command}:${alias}`; button.click(); };
  const step = (event) => {
    const item = event.target.closest(".step");
    const command = { ArrowUp: "up", ArrowDown: "down" }[event.key];
    if (!item || !event.altKey || !command) return;
    event.preventDefault();
    move(item.dataset.alias, command);
  };
  let dragged = null;
  document.addEventListener("dragstart", (event) => {
    dragged = event.target.closest?.(".grip")?.closest(".step") || null;
    if (dragged) { event.dataTransfer.setDragImage(dragged, 20, 20); event.dataTransfer.effectAllowed = "move"; dragged.classList.add("dragged"); }
  });
  document.addEventListener("dragover", (event) => { if (dragged && event.target.closest(".pipeline")) event.preventDefault(); });
  document.addEventListener("drop", (event) => {
    const onto = dragged && event.target.closest(".step");
    if (!onto || onto === dragged) return;
    event.preventDefault();
    move(dragged.dataset.alias, `move:${onto.dataset.step}`);
  });
  document.addEventListener("dragend", () => { dragged?.classList.remove("dragged"); dragged = null; });

  // The focus goes to the added or moved transform, otherwise to the add button.
  document.body.addEventListener("ringfence-step", (event) => {
    const [command, ...rest] = event.detail.value.split(":");
    const steps = [...document.querySelectorAll(".step")];
    const item = command === "add" ? steps.at(-1) : steps.find((one) => one.dataset.alias === rest.at(-1));
    if (command === "add") item?.querySelector(".field input:not([type=hidden]), .field select")?.focus();
    else if (item && ["only", "share", "widen"].includes(command)) {
      item.querySelector(".which :is(.field:not([hidden]) :is(input:not([type=hidden]), select), summary)")?.focus();
    }
    else if (item && ["up", "down"].includes(command)) {
      const same = item.querySelector(`button[value^="${command}:"]:not(:disabled)`);
      (same || item.querySelector(".step-buttons button:not(:disabled)")).focus();
    } else (item?.querySelector("h3") || document.querySelector("#add-transform summary")).focus();
    item?.scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("keydown", (event) => { browse(event); step(event); });

  // Enter in a field does not create the connector: only the button does.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.closest("#new") && event.target.matches("input:not([type=checkbox]):not([type=radio])")) {
      if (event.target.id === "menu-search") return;
      event.preventDefault();
      if (event.target.type === "search") return;
      event.target.dispatchEvent(new Event("change", { bubbles: true }));
    }
  });
})();
