// The keyboard: shortcuts, which are off in fields and can be disabled, their list under ?, and the palette.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const KEPT = "ringfence-keys";
  const kept = () => { try { return localStorage.getItem(KEPT); } catch { return null; } };
  let on = kept() !== "off", gone = 0;

  const help = byId("keys-help"), palette = byId("palette");
  const open = (dialog) => { if (dialog && !document.querySelector("dialog[open]")) dialog.showModal(); };
  const box = byId("keys-on");
  if (box) {
    box.checked = on;
    box.addEventListener("change", () => {
      on = box.checked;
      try { localStorage.setItem(KEPT, on ? "on" : "off"); } catch { /* then it holds for this page */ }
    });
  }

  // The focus moves between the rows' links, so that Enter opens a row and screen readers announce it.
  const links = () => [...document.querySelectorAll("[data-row] th a")];
  const row = () => document.activeElement?.closest("[data-row]");
  const walk = (step) => {
    const all = links();
    if (!all.length) return;
    const here = row() ? all.indexOf(row().querySelector("th a")) : step > 0 ? -1 : all.length;
    const to = all[Math.min(all.length - 1, Math.max(0, here + step))];
    to.focus();
    to.scrollIntoView({ block: "nearest" });
  };
  const search = () => { const field = byId("q"); if (field) { field.focus(); field.select(); } else open(palette); };
  const again = () => {
    if (row()) document.dispatchEvent(new CustomEvent("ringfence-restart-row", { detail: row() }));
    else byId("do-restart")?.click();
  };
  const keys = {
    "/": search, "?": () => open(help), j: () => walk(1), k: () => walk(-1), r: again,
    x: () => { row()?.querySelector("input[name=connector]")?.click(); },
    g: () => { gone = Date.now(); },
  };
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      if (!on || !palette) return;
      event.preventDefault();
      if (palette.open) palette.close(); else open(palette);
      return;
    }
    if (!on || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, dialog, [contenteditable]")) return;
    if (gone && Date.now() - gone < 1500) {
      gone = 0;
      const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); return; }
    }
    const act = Object.hasOwn(keys, event.key) && keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("#palette-button")) open(palette);
    if (event.target.closest("#keys-button")) open(help);
  });

  // The palette: pages immediately, connectors when the server has found them.
  if (!palette) return;
  const field = byId("palette-q"), options = byId("palette-list"), told = byId("palette-told");
  const pages = [...document.querySelectorAll(".side nav a")].map((link) => ({ href: link.getAttribute("href"),
    word: link.querySelector("span").textContent.trim(), icon: link.querySelector("svg") }));
  const theme = byId("theme");
  const iconOf = (href) => {
    const place = /^\/ui\/(connectors|incidents)/.exec(href)?.[0] || "/ui/topics";
    return pages.find((page) => page.href === place)?.icon;
  };
  const commands = theme ? [{ word: "Switch theme: light, dark, system", icon: theme.querySelector("svg"), run: () => theme.click() }] : [];

  // What was opened lately: connectors, topics, groups and incidents, the newest first.
  const OPENED = "ringfence-opened", MOST = 6;
  const opened = () => { try { return JSON.parse(localStorage.getItem(OPENED)) || []; } catch { return []; } };
  const one = /^\/ui\/(connectors|topics|consumer-groups|share-groups|incidents)\/[^/]+/.exec(location.pathname);
  const heading = document.querySelector("main h1")?.textContent.trim();
  if (one && heading && !/\/(rules|destinations|silences)/.test(one[0])) {
    const rest = opened().filter((page) => page.href !== one[0]).slice(0, MOST - 1);
    try { localStorage.setItem(OPENED, JSON.stringify([{ href: one[0], word: heading, hint: one[1].replace("-", " ").replace(/s$/, "") }, ...rest])); } catch { /* then none are kept */ }
  }
  let at = 0, timer = 0, asked = 0;
  let searching = false, opensFirst = false;  // Enter, pressed before the answer, opens what the answer selects
  const all = () => [...options.children];
  const mark = (to) => {
    const found = all();
    at = found.length ? (to + found.length) % found.length : 0;
    found.forEach((option, number) => option.setAttribute("aria-selected", String(number === at)));
    if (found.length) { field.setAttribute("aria-activedescendant", found[at].id); found[at].scrollIntoView({ block: "nearest" }); }
    else field.removeAttribute("aria-activedescendant");
  };
  const fill = (found, failure) => {
    const text = field.value.trim().toLowerCase();
    const hrefs = new Set(found.map((option) => option.getAttribute("href")));
    const recent = text ? [] : opened().filter((page) => page.href !== location.pathname);
    const own = [...recent.map(({ href, word, hint }) => ({ href, word, hint, recent: true, icon: iconOf(href) })), ...[...pages, ...commands].filter((page) => page.word.toLowerCase().includes(text) && !hrefs.has(page.href))].map((page, number) => {
      const link = Object.assign(document.createElement("a"), { href: page.href || "#", id: `page-${number}`, tabIndex: -1 });
      link.setAttribute("role", "option");
      if (page.icon) link.append(page.icon.cloneNode(true));
      link.append(Object.assign(document.createElement("span"), { textContent: page.word }));
      if (page.recent) link.append(Object.assign(document.createElement("span"), { className: "muted", textContent: `opened lately, ${page.hint}` }));
      if (page.run) link.addEventListener("click", (event) => { event.preventDefault(); palette.close(); page.run(); });
      return link;
    });
    const known = new Set(recent.map((page) => page.href));
    const more = found.filter((option) => !known.has(option.getAttribute("href")));
    options.replaceChildren(...(text ? [...more, ...own] : [...own, ...more]));
    told.textContent = failure || (options.childElementCount ? `${options.childElementCount} found` : "Nothing found");
    told.classList.toggle("visually-hidden", options.childElementCount > 0 && !failure);
    mark(0);
  };
  const openSelected = () => all()[at]?.click();
  options.addEventListener("click", (event) => { if (event.target.closest("[data-ask]")) palette.close(); });
  const find = async (number) => {
    try {
      const answer = await fetch(`/ui/find?q=${encodeURIComponent(field.value)}`, { headers: { "HX-Request": "true" } });
      if (!answer.ok) throw new Error(answer.statusText);
      const made = document.createElement("template");
      made.innerHTML = await answer.text();
      if (number !== asked) return;
      fill([...made.content.children]);
    } catch {
      if (number !== asked) return;
      fill([], "The server does not answer: only pages are searched");
    }
    searching = false;
    if (opensFirst) openSelected();
  };
  const searchSoon = (delay) => {
    const number = ++asked;
    searching = true;
    opensFirst = false;
    clearTimeout(timer);
    timer = setTimeout(() => find(number), delay);
  };
  palette.addEventListener("toggle", () => {
    if (!palette.open) { clearTimeout(timer); asked += 1; return; }
    field.value = "";
    fill([]);
    searchSoon(0);
    field.focus();
  });
  field.addEventListener("input", () => searchSoon(120));
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); mark(at + step); }
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (searching) opensFirst = true; else openSelected();
  });
})();
