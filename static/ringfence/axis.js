"use strict";
/* The time axis, which the server draws: reads a moment, opens it, and opens a range that was brushed. */
(() => {
  const byId = (id) => document.getElementById(id);
  let at = -1, anchor = -1, dragging = false, known = "", data;

  // What the axis shows is replaced as the present moves on.
  const read = () => {
    const text = byId("axis")?.dataset.points || "";
    if (text !== known) { known = text; data = text && JSON.parse(text); }
    return data;
  };
  const count = () => data.lanes[0].values.length;
  const place = (index) => `${(index / count()) * 100}%`;
  const when = (index) => data.from + index * data.step;
  const duration = (ms) => {
    const [size, unit] = ms < 1000 ? [1, "ms"] : ms < 60000 ? [1000, "s"] : ms < 3600000 ? [60000, "min"] : [3600000, "h"];
    return `${(ms / size).toLocaleString("en", { maximumFractionDigits: unit === "h" ? 1 : 0 })} ${unit}`;
  };
  const show = (lane, value) => {
    if (value === null || value === "") return "–";
    if (lane.key === "state") return value.toLowerCase();
    if (lane.key === "age" || lane.key === "commit") return duration(value);
    return value.toLocaleString("en") + lane.unit;
  };
  const tell = (index) => {
    const from = when(index), marks = data.marks.filter(([ms]) => ms >= from && ms < from + data.step);
    if (data.lanes[0].values[index] === null) return "no data: the platform was not running";
    return [...data.lanes.map((lane) => `${lane.word} ${show(lane, lane.values[index])}`), ...marks.map(([, text]) => text)].join(", ");
  };

  const move = (index) => {
    at = Math.max(0, Math.min(count() - 1, index));
    const cursor = byId("axis-cursor"), brush = byId("axis-brush"), svg = byId("axis");
    for (const name of ["x1", "x2"]) cursor.setAttribute(name, place(at + 0.5));
    cursor.removeAttribute("visibility");
    const [low, high] = anchor < 0 ? [at, at] : [Math.min(anchor, at), Math.max(anchor, at) + 1];
    brush.setAttribute("x", place(low));
    brush.setAttribute("width", anchor < 0 || anchor === at ? 0 : place(high - low));
    const clock = (ms) => new Date(ms).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    const text = anchor < 0 || anchor === at ? `${clock(when(at))}: ${tell(at)}`
      : `${clock(when(low))} to ${clock(when(high))}: let go, or press Enter, to open this range`;
    byId("axis-readout").textContent = text;
    svg.setAttribute("aria-valuenow", String(at));
    svg.setAttribute("aria-valuetext", text);
  };
  const forget = () => { anchor = -1; dragging = false; if (at >= 0) move(at); };

  const zoom = (from, to) => {
    const [low, high] = [Math.max(1, Math.round(from)), Math.min(Date.now(), Math.round(to))];
    location.assign(`${byId("axis").dataset.address}?from=${low}&to=${Math.max(low + 60000, high)}#axis-card`);
  };
  const open = () => {
    const moment = byId("axis").dataset.moment, middle = Math.round(when(at) + data.step / 2);
    if (anchor >= 0 && anchor !== at) zoom(when(Math.min(anchor, at)), when(Math.max(anchor, at) + 1));
    else if (moment) window.htmx.ajax("GET", `${moment}?at=${middle}`, { target: "#moment", swap: "innerHTML" });
    else zoom(middle - Math.max(data.step, 300000), middle + Math.max(data.step, 300000));
  };

  const indexOf = (event, svg) => {
    const box = svg.getBoundingClientRect();
    return Math.floor(((event.clientX - box.left) / box.width) * count());
  };
  const on = (name, act) => document.addEventListener(name, (event) => {
    const svg = dragging ? byId("axis") : event.target.closest?.("#axis");
    if (svg && read()) act(event, svg);
  });
  on("pointermove", (event, svg) => move(indexOf(event, svg)));
  on("pointerdown", (event, svg) => {
    if (event.button) return;
    dragging = true;
    move(indexOf(event, svg));
    anchor = at;
  });
  on("pointerup", (event, svg) => {
    if (!dragging) return;
    move(indexOf(event, svg));
    open();
    forget();
  });
  on("pointercancel", forget);
  on("keydown", (event) => {
    if (at < 0) at = count() - 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -count(), End: count() };
    const span = count() * data.step;
    if (event.key in steps) {
      if (!event.shiftKey) anchor = -1; else if (anchor < 0) anchor = at;
      move(at + steps[event.key]);
    } else if (event.key === "Enter") open();
    else if (event.key === "Escape" && anchor >= 0) forget();
    else if (event.key === "+") zoom(when(at) - span / 4, when(at) + span / 4);
    else if (event.key === "-") zoom(when(at) - span, when(at) + span);
    else return;
    event.preventDefault();
  });
})();
