// What the pages need beyond htmx: theme, dialogs, relative times, and state that survives a swap.
(() => {
  "use strict";
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // Theme: system -> light -> dark, kept in a cookie so that the server renders the page correctly from the start.
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#theme")) return;
    const next = { "": "light", light: "dark", dark: "" }[root.dataset.theme || ""];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    document.cookie = `ringfence_theme=${next}; path=/; max-age=31536000; samesite=strict`;
  });

  // What was corrected goes from the summary of errors, and the last one takes the summary with it.
  const settle = (slot) => {
    const jump = document.querySelector(`.jumps a[href="#in-${slot.id.replace("err-", "")}"]`)?.parentElement;
    if (!jump) return;
    jump.hidden = !slot.querySelector(".field-error");
    const summary = jump.closest(".alert"), left = summary.querySelectorAll(".jumps li:not([hidden])").length;
    summary.hidden = !left;
    summary.querySelector("b").textContent = `${left} setting${left === 1 ? "" : "s"} to correct`;
  };

  // Open details, focus and scroll of code survive a swap.
  let kept = null;
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const target = event.detail.target;
    const focused = document.activeElement;
    kept = {
      open: [...target.querySelectorAll("details[id][open]")].map((item) => item.id),
      focus: focused && target.contains(focused) ? focused.id : "",
    };
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (kept) {
      kept.open.forEach((id) => byId(id)?.setAttribute("open", ""));
      if (kept.focus) byId(kept.focus)?.focus({ preventScroll: true });
      kept = null;
    }
    const slot = event.detail.target;
    if (slot.matches(".field-errors")) {
      const input = slot.closest(".field").querySelector("input, select");
      if (slot.querySelector(".field-error")) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid");
      settle(slot);
    }
    times();
  });

  // Dialogs. The browser returns the focus to the opener; if that was swapped in the meantime, this script does.
  let openedBy = "";
  document.addEventListener("close", (event) => {
    const focused = document.activeElement;
    if (event.target.matches("dialog") && (!focused || focused === document.body || event.target.contains(focused))) {
      (byId(openedBy) || byId("main")).focus({ preventScroll: true });
    }
  }, true);
  document.addEventListener("click", (event) => {
    const closer = event.target.closest("[data-close]");
    const open = closer && closer.closest("dialog");
    if (open) { event.preventDefault(); open.close(); }
    const dismissed = event.target.closest("[data-dismiss]");
    if (dismissed) dismissed.closest(".alert").remove();
  });
  // The button is enabled when the name is typed. The server checks it as well: this only saves a round trip.
  const gate = (part) => {
    for (const form of part.querySelectorAll("form[data-name]")) form.querySelector("[data-needs-name]").disabled = form.elements.confirm.value !== form.dataset.name;
  };
  gate(document);
  document.addEventListener("input", () => gate(document));
  document.body.addEventListener("htmx:afterRequest", (event) => {
    if (event.target.matches("form[data-closes]")) event.target.closest("dialog").close();
  });

  // What asks first does so where the user is: the fetched confirmation opens its dialog; success closes it. An error gets
  // the focus.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-ask]");
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    window.htmx.ajax("GET", link.getAttribute("href"), { source: link.closest("dialog") ? document.body : link, target: "#ask", swap: "innerHTML" });
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    const target = event.detail.target;
    gate(target);
    if (target.matches("dialog") && !target.open) { openedBy = event.detail.requestConfig.elt.id; target.showModal(); }
    target.querySelector("#problem")?.focus();
  });
  document.body.addEventListener("ringfence-close", () => {
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
    for (const slot of document.querySelectorAll("[data-clears]")) slot.replaceChildren();  // done: remove the confirmation, which must not be sent again
  });

  // A success is shown for a while, longer if the user is interacting with it; a failure, until it is dismissed.
  const TOLD = 12000;
  let fading = 0;
  const fade = () => {
    const notice = document.querySelector("#notices > .alert:not(.bad)");
    if (!notice) return;
    if (notice.matches(":hover") || notice.contains(document.activeElement)) fading = setTimeout(fade, TOLD);
    else notice.remove();
  };
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "notices") return;
    clearTimeout(fading);
    fading = setTimeout(fade, TOLD);
  });

  // Copies a text; if the browser refuses the clipboard, selects it.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = byId(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.value ?? source.textContent);
      if (button.textContent === "Copied") return;
      const before = button.innerHTML;
      button.textContent = "Copied";
      setTimeout(() => { button.innerHTML = before; }, 1500);
    } catch {
      getSelection().selectAllChildren(source);
    }
  });

  // Relative times.
  const words = (seconds) => {
    if (seconds < 1) return "now";
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} d`;
  };
  // Times are those of the server. A smaller difference is the time that the page took to load.
  const ahead = Date.now() - Number(document.body.dataset.now || Date.now());
  const skew = Math.abs(ahead) > 5000 ? ahead : 0;
  const times = () => {
    // The data is from then: an age that kept counting would be wrong.
    const now = Number(document.body.dataset.asOf) || Date.now() - skew;
    for (const item of document.querySelectorAll("time[data-ms]")) {
      const text = words(Math.max(0, (now - Number(item.dataset.ms)) / 1000));
      item.textContent = text === "now" ? text : text + item.dataset.suffix;
    }
  };
  setInterval(() => { if (!document.hidden) times(); }, 1000);

  // A logout deletes the drafts of forms.
  document.addEventListener("submit", (event) => {
    if (!event.target.matches('form[action="/ui/logout"]')) return;
    for (const key of Object.keys(localStorage)) if (key.startsWith("ringfence-draft:")) localStorage.removeItem(key);
  });

  // Times of day in the user's time zone, as long as the server's; UTC stays in the title.
  const two = (number) => String(number).padStart(2, "0");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
  const localise = (part) => {
    for (const item of part.querySelectorAll("time[data-local]")) {
      const at = new Date(item.dateTime);
      const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
      const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
      item.textContent = { date: `${date} ${clock}`, minute: clock.slice(0, 5), day: `${date} ${clock.slice(0, 5)}` }[item.dataset.local] || clock;
    }
    for (const word of part.querySelectorAll("[data-zone]")) word.textContent = zone;
  };
  window.ringfence = { ...window.ringfence, localise };
  localise(document);
  document.body.addEventListener("htmx:afterSwap", () => localise(document));

  // On a phone a strip of tabs is wider than the window: the current one is in sight.
  const showTabs = (part) => {
    for (const tab of part.querySelectorAll(".tabs [aria-current]")) {
      const strip = tab.parentElement, place = tab.getBoundingClientRect().left - strip.getBoundingClientRect().left;
      strip.scrollLeft += place - (strip.clientWidth - tab.offsetWidth) / 2;
    }
  };
  showTabs(document);
  document.body.addEventListener("htmx:afterSwap", (event) => showTabs(event.detail.target));

  byId("problem")?.focus();

  // A section of a connector's page is a page of its own: its links and forms without an address lead to that.
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".section a[href^='?']");
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    window.location.assign(link.closest(".section").dataset.address + link.getAttribute("href"));
  });
  document.addEventListener("submit", (event) => {
    const section = event.target.closest(".section");
    if (section && !event.target.hasAttribute("action")) event.target.action = section.dataset.address;
  }, true);
})();
