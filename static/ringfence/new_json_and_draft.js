// Beside the form: samples, JSON, a draft that the browser keeps, and a warning before it is lost.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const theForm = () => byId("new");
  const { setMode } = window.ringfenceForm;
  const HIDDEN = "[hidden]";
  const QUIET_MS = 500;
  let dirty = false;
  let waiting = 0;
  let applied = "";      // the text that was sent to be converted to a form
  let behind = false;    // the text differs from the form, until the user decides

  const ask = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => byId("beside")?.dispatchEvent(new CustomEvent("ringfence-beside")), QUIET_MS);
  };
  const apply = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      applied = byId("json").value;
      setMode("json");
      byId("json").dispatchEvent(new CustomEvent("ringfence-apply"));
    }, QUIET_MS);
  };

  document.addEventListener("input", (event) => {
    if (!event.target.closest("#new") || event.target.type === "search") return;
    if (event.target.id === "sample") { ask(); return; }
    dirty = true;
    if (event.target.id === "json") {
      behind = false;
      setMode("json");
      if (event.target.value.trim()) apply();
      return;
    }
    if (theForm().dataset.mode === "json" && byId("as-form").querySelector(".pipe")) {
      setMode("form");
      behind = true;
    }
    byId("take-form").hidden = !behind;
    ask();
  });
  document.addEventListener("change", (event) => {
    if (event.target.closest("#new") && event.target.id !== "json") ask();
  });
  document.body.addEventListener("ringfence-step", () => { dirty = true; ask(); });

  // The server has read the text: the form counts, unless the text was edited in the meantime.
  document.body.addEventListener("ringfence-mode", (event) => {
    const mode = event.detail.value || event.detail.mode;
    if (mode !== "form" || byId("json").value !== applied) return;
    setMode("form");
    delete theForm().dataset.empty;
    byId("take-form").hidden = true;
    ask();
  });
  document.body.addEventListener("ringfence-unread", () => {
    byId("json").setAttribute("aria-invalid", "true");
    const at = /line (\d+) column (\d+)/.exec(byId("json-error").textContent);
    byId("json").dataset.wrongLine = at ? at[1] : "";
  });

  const parse = (text) => {
    try {
      const value = JSON.parse(text);
      return value.config && typeof value.config === "object" ? { ...value, flat: false } : { name: value.name, config: value, flat: true };
    } catch { return null; }
  };
  const same = (one, other) => {
    const names = new Set([...Object.keys(one), ...Object.keys(other)]);
    names.delete("name");
    return [...names].every((name) => String(one[name]) === String(other[name]));
  };
  // The form as JSON, if the text does not have the same content already. Secrets typed into the text stay in it.
  const follow = (force) => {
    const area = byId("json"), now = parse(byId("json-now")?.textContent || "");
    if (!now || !area) return;
    if (!force && (theForm().dataset.mode === "json" || behind || area === document.activeElement)) return;
    const old = parse(area.value);
    for (const [name, value] of Object.entries(now.config)) {
      const typed = old?.config?.[name];
      if (value === HIDDEN && typed) now.config[name] = typed;
    }
    if (old && same(old.config, now.config) && (old.name || "") === (now.name || "")) return;
    const flat = old ? old.flat : Boolean(byId("version"));
    const shown = flat ? { ...(byId("version") ? {} : { name: now.name }), ...now.config } : { name: now.name, config: now.config };
    area.value = JSON.stringify(shown, null, 2);
  };
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#take-form")) return;
    behind = false;
    byId("json-error").replaceChildren();
    byId("take-form").hidden = true;
    follow(true);
  });

  // Drafts: the server returns what may be kept, which never includes a secret.
  const PREFIX = "ringfence-draft:";
  const DAYS = 7;
  const key = () => `${PREFIX}${theForm().dataset.user}:${theForm().dataset.draft}`;
  const state = (text) => { if (byId("draft-state")) byId("draft-state").textContent = text; };
  const keep = () => {
    const kept = byId("draft-now")?.textContent;
    if (!dirty || !kept || theForm().dataset.mode === "json") return;
    try {
      localStorage.setItem(key(), JSON.stringify({ at: Date.now(), version: byId("version")?.value, ...JSON.parse(kept) }));
      state("Draft kept in this browser, without secrets");
    } catch { state(""); }  // no space, or storage is not allowed: the warning below remains
  };
  const stored = () => {
    try {
      const draft = JSON.parse(localStorage.getItem(key()) || "null");
      if (draft && Date.now() - draft.at < DAYS * 86400000) return draft;
      localStorage.removeItem(key());
    } catch { /* not ours */ }
    return null;
  };
  const forget = () => { try { localStorage.removeItem(key()); } catch { /* no storage */ } };
  const offer = () => {
    const draft = stored();
    if (!draft || !byId("draft")) return;
    byId("draft-time").textContent = new Date(draft.at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    byId("draft-left").textContent = draft.left_out.length ? `Not kept, as they may be secret: ${draft.left_out.join(", ")}.` : "";
    byId("draft").hidden = false;
  };
  document.addEventListener("click", (event) => {
    if (event.target.closest("#draft-drop")) { forget(); byId("draft").hidden = true; }
    if (!event.target.closest("#draft-take")) return;
    const draft = stored();
    byId("draft").hidden = true;
    if (!draft) return;
    if (byId("version") && draft.version) byId("version").value = draft.version;  // a version saved in the meantime is not overwritten
    const now = parse(byId("json").value)?.config || {};
    for (const name of draft.left_out) if (name in now) draft.config[name] = now[name];
    const shown = byId("version") ? draft.config : { name: draft.name, config: draft.config };
    byId("json").value = JSON.stringify(shown, null, 2);
    dirty = true;
    setMode("json");
    apply();
  });

  // An answer that was requested for the old steps has samples that no step shows any more; afterSwap asks again.
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (["as-form", "edit"].includes(event.detail.target.id) && byId("beside")) htmx.trigger(byId("beside"), "htmx:abort");
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    const id = event.detail.target.id;
    if (id === "beside") { follow(false); keep(); }
    if (id === "as-form") { byId("json")?.removeAttribute("aria-invalid"); ask(); }
    if (id === "edit") { behind = false; ask(); }
    if (id === "preview" && !byId("sample").dataset.touched) {
      const first = event.detail.target.querySelector("[data-sample]");
      if (first) { byId("sample").value = first.dataset.sample; ask(); }
    }
  });
  document.addEventListener("input", (event) => { if (event.target.id === "sample") event.target.dataset.touched = "1"; });

  // A warning before typed values are lost. Values that the server has accepted are not lost.
  window.addEventListener("beforeunload", (event) => { if (dirty) event.preventDefault(); });
  document.addEventListener("submit", (event) => { if (event.target.id !== "new") dirty = false; });
  document.body.addEventListener("htmx:beforeOnLoad", (event) => {
    if (!event.detail.xhr.getResponseHeader("HX-Redirect")) return;
    dirty = false;
    forget();
  });

  offer();
  if (byId("as-form")?.querySelector(".pipe")) ask();
})();
