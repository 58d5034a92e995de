// The list: rows are selected, counted, and processed together. The forms do the work; this script only counts.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const bar = byId("bulk"), list = byId("list");
  const boxes = () => [...list.querySelectorAll("input[name=connector]")];
  const ticked = () => boxes().filter((box) => box.checked);
  const matching = () => Number(byId("rows")?.dataset.matching || 0);
  const count = () => (byId("bulk-all").value ? matching() : ticked().length);
  let last = null;

  const every = (on) => {
    byId("bulk-all").value = on ? "1" : "";
    byId("bulk-expected").value = on ? String(matching()) : "";
    const filters = byId("bulk-filters");
    filters.replaceChildren();
    if (!on) return;
    for (const [name, value] of new URLSearchParams(location.search)) {
      if (!["q", "state", "plugin"].includes(name)) continue;
      filters.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
    }
  };
  const update = () => {
    const chosen = ticked().length, all = byId("pick-all"), more = byId("bulk-every");
    if (all) {
      all.checked = chosen > 0 && chosen === boxes().length;
      all.indeterminate = chosen > 0 && !all.checked;
      if (!all.checked) every(false);
    }
    bar.hidden = !chosen;
    document.body.classList.toggle("with-bulk", chosen > 0);
    const word = `${count().toLocaleString("en")} selected`;
    if (byId("bulk-count").textContent !== word) byId("bulk-count").textContent = word;
    more.hidden = !(all && all.checked && matching() > chosen && !byId("bulk-all").value);
    more.textContent = `Select all ${matching().toLocaleString("en")} matching`;
    for (const row of list.querySelectorAll("[data-row]")) row.classList.toggle("picked", row.querySelector("input").checked);
  };
  const none = () => { boxes().forEach((box) => { box.checked = false; }); every(false); update(); };

  list.addEventListener("click", (event) => {
    const box = event.target.closest("input[name=connector]");
    if (!box) return;
    if (event.shiftKey && last && last.isConnected) {
      const all = boxes(), [from, to] = [all.indexOf(last), all.indexOf(box)].sort((a, b) => a - b);
      all.slice(from, to + 1).forEach((each) => { each.checked = box.checked; });
    }
    last = box;
  });
  list.addEventListener("change", (event) => {
    if (event.target.id === "pick-all") boxes().forEach((box) => { box.checked = event.target.checked; });
    every(false);
    update();
  });
  byId("bulk-none").addEventListener("click", () => { none(); byId("pick-all")?.focus(); });
  byId("bulk-every").addEventListener("click", () => { every(true); update(); byId("bulk-count").focus?.(); });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-bulk]");
    if (!button) return;
    const tasks = byId("bulk-all").value ? "" : ticked().reduce((sum, box) => sum + Number(box.closest("tr").dataset.tasks), 0);
    window.htmx.ajax("GET", `/ui/bulk/${button.dataset.bulk}?count=${count()}&tasks=${tasks}`, { source: button, target: "#ask", swap: "innerHTML" });
  });

  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id === "list") update();
    if (event.detail.target.id !== "bulk-results") return;
    document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
    if (event.detail.target.querySelector("[data-bulk-done]")) none();
    byId("bulk-results").focus({ preventScroll: true });
  });
  // A keyboard action concerns one row only.
  document.addEventListener("ringfence-restart-row", (event) => {
    none();
    event.detail.querySelector("input[name=connector]").checked = true;
    update();
    byId("bulk-restart").click();
  });
  update();
})();
