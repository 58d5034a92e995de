// The data browser: times in the reader's zone, and the inspector of one record.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const two = (number) => String(number).padStart(2, "0");

  const from = byId("from"), local = byId("local-time"), utc = byId("time"), offset = byId("offset");
  if (!from || !local) return;
  const given = utc.value && new Date(utc.value);
  if (given && !Number.isNaN(given.getTime())) {
    local.value = `${given.getFullYear()}-${two(given.getMonth() + 1)}-${two(given.getDate())}T${two(given.getHours())}:${two(given.getMinutes())}:${two(given.getSeconds())}`;
  }
  const store = () => { utc.value = local.value ? new Date(local.value).toISOString() : ""; };
  local.addEventListener("input", () => { store(); if (local.value) { from.value = "time"; show(); } });
  // A place without its value is no place: only the chosen one's field is there.
  const show = () => {
    for (const [place, field] of [["time", local], ["offset", offset]]) {
      field.closest("label").hidden = from.value !== place && !field.value;
    }
  };
  from.addEventListener("change", () => {
    if (from.value !== "time") { local.value = ""; store(); }
    if (from.value !== "offset") offset.value = "";
    show();
  });
  show();

  const inspector = byId("inspector"), inspected = byId("inspected");
  let row = null;
  const inspect = (next) => {
    const content = next?.querySelector("template");
    if (!content) return;
    row?.removeAttribute("aria-selected");
    row = next;
    row.setAttribute("aria-selected", "true");
    inspected.replaceChildren(content.content.cloneNode(true));
    window.ringfence.localise(inspected);
    window.htmx.process(inspected);
    byId("inspect-previous").disabled = !row.previousElementSibling;
    byId("inspect-next").disabled = !row.nextElementSibling;
    if (!inspector.open) inspector.showModal();
  };
  document.addEventListener("click", (event) => {
    const record = event.target.closest("tr.record");
    if (record && !event.target.closest("a, form") && !getSelection().toString()) inspect(record);
    if (event.target.closest("#inspect-previous")) inspect(row?.previousElementSibling);
    if (event.target.closest("#inspect-next")) inspect(row?.nextElementSibling);
  });
  inspector.addEventListener("keydown", (event) => {
    const next = { ArrowUp: "previousElementSibling", ArrowDown: "nextElementSibling" }[event.key];
    if (!next || event.target.closest("pre")) return;
    event.preventDefault();
    inspect(row?.[next]);
  });
  inspector.addEventListener("close", () => row?.querySelector("[data-inspect]")?.focus());
})();
