// Live pages: one stream of events, parts that are fetched again, and no swap of a part that the user is working in.
(() => {
  "use strict";
  const POLL = 5000;     // ms between two polls while the stream is away
  const SILENT = 10000;  // ms; the server sends something every 3 s: a longer silence means that server or connection is dead
  const live = document.getElementById("live");
  const PATIENCE = 13000;  // ms without any answer, after which the data is marked as stale
  const state = { open: false, lost: false, heard: Date.now(), polled: 0, answered: 0, at: "", atUntil: 0, missed: false, held: false };

  const show = (name, word, title) => {
    if (!live) return;
    live.title = title || "";
    if (live.dataset.state !== name) live.dataset.state = name;
    const slot = live.querySelector(".live-word");
    if (slot.textContent !== word) slot.textContent = word;
  };
  const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
  const tell = () => {
    if (!state.open && !state.lost) return;
    if (!state.lost) {
      if (state.held) show("held", "Updates paused", "Something has changed. It is shown when you have finished here.");
      else show("on", "Live", source ? "Changes are shown as they happen" : "Refreshed every 10 s");
    } else if (Math.max(state.answered, state.heard) > Date.now() - PATIENCE) show("lost", "Reconnecting", `The stream is interrupted; refreshed every ${POLL / 1000} s`);
    else show("stale", `Stale since ${clock(Math.max(state.heard, state.answered))}`, "The server does not answer. This is the last known state.");
  };
  const refresh = () => document.body.dispatchEvent(new CustomEvent("ringfence-refresh"));

  // The stream. htmx's extension opens it; this listens to it.
  let source = null;
  htmx.createEventSource = (url) => {
    source = new EventSource(url);
    const hear = () => { state.heard = Date.now(); };
    for (const name of ["hello", "beat", "changed", "rows", "numbers", "vital"]) source.addEventListener(name, hear);
    source.addEventListener("changed", (event) => { state.at = event.data; state.atUntil = Date.now() + 2000; });
    source.addEventListener("vital", () => document.body.dispatchEvent(new CustomEvent("ringfence-vital-signs")));
    source.addEventListener("rows", (event) => rows(JSON.parse(event.data)));
    source.addEventListener("numbers", (event) => numbers(JSON.parse(event.data).html));
    return source;
  };
  document.body.addEventListener("htmx:sseOpen", () => {
    const again = state.lost;
    Object.assign(state, { open: true, lost: false, heard: Date.now() });
    tell();
    if (again) refresh();
  });
  const away = () => {
    if (!state.lost) state.lost = true;
    tell();
  };
  const answered = () => {
    state.answered = Date.now();
    if (!source) Object.assign(state, { open: true, lost: false });  // a page without a stream polls
    else if (source.readyState === EventSource.OPEN) state.lost = false;  // one fetch failed, the stream did not
  };
  document.body.addEventListener("htmx:sseError", away);
  document.body.addEventListener("htmx:sseClose", away);

  // Returns whether the user is working in this part: then it is fetched only when they have finished.
  const busy = (part, ticked = true) => {
    if (document.querySelector("dialog[open]")) return true;
    const text = getSelection();
    if (text && !text.isCollapsed && text.rangeCount && text.getRangeAt(0).intersectsNode(part)) return true;
    if (ticked && part.querySelector("input[name=connector]:checked")) return true;
    const focused = document.activeElement;
    if (focused && part.contains(focused) && focused.matches("input:not([type=checkbox]), select, textarea")) return true;
    return [...part.querySelectorAll("input:not([type=checkbox]):not([type=hidden]), textarea")].some((field) => field.value !== field.defaultValue);
  };
  document.body.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.target;
    if (!part.matches("[data-live]")) return;
    if (document.hidden) state.missed = true;
    else if (busy(part)) state.held = true;
    else return;
    event.preventDefault();
    tell();
  });
  const release = () => {
    if (document.hidden || !(state.missed || state.held)) return;
    if (state.held && [...document.querySelectorAll("[data-live]")].some((part) => busy(part))) return;
    Object.assign(state, { missed: false, held: false });
    tell();
    refresh();
  };
  document.addEventListener("visibilitychange", release);
  document.addEventListener("close", () => setTimeout(release), true);
  document.addEventListener("focusout", () => setTimeout(release));

  // A part is fetched with the filters in the address, and with the time of the event that triggered it.
  document.body.addEventListener("htmx:configRequest", (event) => {
    const { elt, parameters } = event.detail;
    if (!elt.matches("[data-live]")) return;
    event.detail.headers["X-Ringfence-Background"] = "1";  // an automatic request keeps no session alive
    if (elt.matches("[data-own-query]")) for (const [key, value] of new URLSearchParams(location.search)) parameters[key] = value;
    for (const each of elt.querySelectorAll("[data-live-value]")) parameters[each.name] = each.value;  // what the part shows
    if (elt.matches("[data-fresh]") && Date.now() < state.atUntil) parameters.at = state.at;
  });
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const { elt, xhr, target } = event.detail;
    if (elt.matches("[data-live]")) {
      if (xhr.status >= 400) { event.detail.shouldSwap = false; away(); return; }
      answered();
      if (busy(target)) { event.detail.shouldSwap = false; state.held = true; tell(); return; }
    }
    if (target.matches("[data-live]") && xhr.status < 400) event.detail.swapOverride = "morph";
  });
  document.body.addEventListener("htmx:sendError", (event) => { if (event.target.matches("[data-live]")) away(); });

  // Numbers of a connector's page, with the ids of their elements. Selected text is not replaced.
  const numbers = (given) => {
    const marked = getSelection();
    for (const [id, html] of Object.entries(given)) {
      const slot = document.getElementById(id);
      const held = marked && !marked.isCollapsed && marked.rangeCount && slot && marked.getRangeAt(0).intersectsNode(slot);
      if (slot && !held) slot.innerHTML = html;
    }
  };

  // Rows in which only numbers have changed: only these rows are replaced, in place.
  let wanted = null, asking = false;
  const rows = async ({ at, names }) => {
    const list = document.querySelector("[data-rows]");
    if (!list) return;
    if (document.hidden) { state.missed = true; return; }
    const shown = [...list.querySelectorAll("[data-row]")].map((row) => row.dataset.row);
    const asked = names ? shown.filter((name) => names.includes(name)) : shown;
    wanted = { at, names: new Set([...(wanted ? wanted.names : []), ...asked]) };
    if (asking) return;
    asking = true;
    while (wanted && wanted.names.size) {
      const query = new URLSearchParams({ at: wanted.at });
      wanted.names.forEach((name) => query.append("row", name));
      wanted = null;
      try {
        const answer = await fetch(`${list.dataset.rows}?${query}`, { headers: { "HX-Request": "true", "X-Ringfence-Background": "1" } });
        if (!answer.ok) throw new Error(String(answer.status));
        const made = document.createElement("template");
        made.innerHTML = await answer.text();
        answered();
        if (busy(list, false)) { state.held = true; break; }
        for (const row of [...made.content.querySelectorAll("tr")]) {
          const old = document.getElementById(row.id);
          if (old) window.ringfence.morphNode(old, row);
        }
      } catch { away(); break; }
    }
    wanted = null;
    asking = false;
    tell();
  };

  setInterval(() => {
    const now = Date.now();
    if (state.open && !state.lost && now - state.heard > SILENT && source) {
      source.close();
      source.onerror?.(new Event("error"));
    }
    if (state.lost && !document.hidden && now - state.polled > POLL) { state.polled = now; refresh(); }
    release();
    tell();
  }, 1000);
})();
