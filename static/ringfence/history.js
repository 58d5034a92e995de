"use strict";
/* The History tab: lanes over one time axis. Null points are gaps, in which nothing was recorded. */
(() => {
  const root = document.getElementById("history");
  if (!root || root.dataset.drawn) return;
  root.dataset.drawn = "yes";
  const NS = "http://www.w3.org/2000/svg";
  const WIDTH = Math.max(320, root.clientWidth - 36 || 1000), LEFT = 110, LANE = 46, PAD = 8;
  const LANES = [
    ["records", "Records", "area"], ["commit_ms", "Commit, ms", "line"], ["open_transactions", "Open", "area"],
    ["lag", "Source lag", "line"], ["dead_letters", "Dead letters", "bar"], ["state", "State", "state"],
  ];
  const TONES = { RUNNING: "ok", FAILED: "bad", RETRYING: "warn", PAUSED: "rest", STOPPED: "rest" };
  const readout = document.getElementById("history-readout");
  let data, svg, cursor, brush, at = -1, dragged = -1;

  const make = (name, attributes, text) => {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const x = (index) => LEFT + (index / data.points.length) * (WIDTH - LEFT);
  const show = (value) => (value === null || value === undefined ? "–"
    : typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: 1 }) : value || "–");
  const when = (ms) => new Date(ms).toLocaleString();

  const clock = (ms) => {
    const long = data.to_ms - data.from_ms > 86400000;
    return new Date(ms).toLocaleString([], long ? { month: "short", day: "numeric", hour: "2-digit" }
      : { hour: "2-digit", minute: "2-digit" });
  };

  function picture(key, kind, top) {
    const values = data.points.map((point) => point[key]);
    const group = make("g", { class: `lane-of-${kind}` });
    if (kind === "state") {
      values.forEach((state, index) => {
        if (state) group.append(make("rect", { x: x(index), y: top + PAD, width: x(index + 1) - x(index) + 0.3,
          height: LANE - 2 * PAD, class: `tone-${TONES[state] || "motion"}` }));
      });
      return group;
    }
    const peak = Math.max(0, ...values.filter((value) => value !== null));
    const y = (value) => top + LANE - 4 - (peak ? (value / peak) * (LANE - PAD - 4) : 0);
    group.append(make("text", { x: LEFT - 6, y: top + 22, class: "axis-number" }, show(peak)));
    let path = "", run = [];
    const end = () => {
      if (!run.length) return;
      const points = run.map((index) => `${((x(index) + x(index + 1)) / 2).toFixed(1)} ${y(values[index]).toFixed(1)}`);
      if (points.length === 1) points.push(`${x(run[0] + 1).toFixed(1)} ${y(values[run[0]]).toFixed(1)}`);
      path += `M${points.join("L")}`;
      run = [];
    };
    values.forEach((value, index) => {
      if (value === null) end();
      else if (kind === "bar") {
        if (value) group.append(make("rect", { x: x(index), y: y(value), width: Math.max(1, x(index + 1) - x(index) - 0.5),
          height: top + LANE - 4 - y(value), class: "bad-bar" }));
      } else run.push(index);
    });
    end();
    if (path) group.append(make("path", { d: path, class: "series" }));
    return group;
  }

  function draw() {
    const height = LANES.length * LANE + 34;
    svg = make("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "history", tabindex: "0", role: "slider",
      "aria-label": "Moment", "aria-valuemin": "0", "aria-valuemax": String(data.points.length - 1), "aria-valuenow": "0" });
    data.points.forEach((point, index) => {
      if (point.records === null) svg.append(make("rect", { x: x(index), y: 0, width: x(index + 1) - x(index) + 0.3,
        height: LANES.length * LANE, class: "no-data" }));
    });
    LANES.forEach(([key, word, kind], number) => {
      const top = number * LANE;
      svg.append(make("text", { x: 0, y: top + 22, class: "lane-name" }, word),
        make("path", { d: `M${LEFT} ${top + LANE - 3.5}H${WIDTH}`, class: "rule" }), picture(key, kind, top));
    });
    const span = data.to_ms - data.from_ms;
    const own = Number(root.dataset.mark);
    const marks = own ? [...data.marks, { time_ms: own, kind: "incident", text: "The incident began" }] : data.marks;
    for (const mark of marks) {
      const place = LEFT + ((mark.time_ms - data.from_ms) / span) * (WIDTH - LEFT);
      const line = make("path", { d: `M${place.toFixed(1)} 0V${LANES.length * LANE}`, class: `mark-${mark.kind}` });
      line.append(make("title", {}, `${mark.text}, ${when(mark.time_ms)}`));
      svg.append(line);
    }
    for (let part = 0; part <= 4; part += WIDTH < 500 ? 2 : 1) {
      svg.append(make("text", { x: LEFT + (part / 4) * (WIDTH - LEFT), y: height - 12,
        class: `axis-time at-${part}` }, clock(data.from_ms + (part / 4) * span)));
    }
    brush = make("rect", { y: 0, height: LANES.length * LANE, width: 0, x: 0, class: "brush" });
    cursor = make("path", { d: "", class: "cursor" });
    svg.append(brush, cursor);
    svg.addEventListener("pointermove", (event) => move(indexOf(event)));
    svg.addEventListener("pointerdown", (event) => { dragged = indexOf(event); svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointerup", (event) => finish(indexOf(event)));
    svg.addEventListener("keydown", press);
    root.replaceChildren(svg);
    move(data.points.length - 1);
  }

  function indexOf(event) {
    const box = svg.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * WIDTH;
    const index = Math.floor(((place - LEFT) / (WIDTH - LEFT)) * data.points.length);
    return Math.max(0, Math.min(data.points.length - 1, index));
  }

  function move(index) {
    at = index;
    const point = data.points[at];
    cursor.setAttribute("d", `M${((x(at) + x(at + 1)) / 2).toFixed(1)} 0V${LANES.length * LANE}`);
    const told = point.records === null ? "no data: the platform was not running"
      : LANES.map(([key, word]) => `${word} ${show(point[key])}`).join(", ");
    readout.textContent = `${when(point.time_ms)}: ${told}`;
    svg.setAttribute("aria-valuenow", String(at));
    svg.setAttribute("aria-valuetext", readout.textContent);
    if (dragged >= 0) {
      const [low, high] = [Math.min(dragged, at), Math.max(dragged, at) + 1];
      brush.setAttribute("x", x(low));
      brush.setAttribute("width", dragged === at ? 0 : x(high) - x(low));
    }
  }

  function finish(index) {
    const from = dragged;
    dragged = -1;
    if (from < 0) return;
    if (Math.abs(from - index) > 1) {
      const step = data.step_seconds * 1000;
      zoom(data.points[Math.min(from, index)].time_ms, data.points[Math.max(from, index)].time_ms + step);
    } else open(index);
  }

  function open(index) {
    const middle = data.points[index].time_ms + data.step_seconds * 500;
    address({ at: Math.round(middle) }, false);
    window.htmx.ajax("GET", `${root.dataset.moment}?at=${Math.round(middle)}`, { target: "#moment", swap: "innerHTML" });
  }

  function press(event) {
    const span = data.to_ms - data.from_ms;
    const middle = data.points[at].time_ms;
    const last = data.points.length - 1;
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 20, PageDown: at + 20, Home: 0, End: last };
    if (event.key in moves) move(Math.max(0, Math.min(last, moves[event.key])));
    else if (event.key === "Enter") open(at);
    else if (event.key === "+") zoom(middle - span / 4, middle + span / 4);
    else if (event.key === "-") zoom(middle - span, middle + span);
    else return;
    event.preventDefault();
  }

  function address(changes, pushed) {
    if (root.dataset.mark) return;  // the page is about an incident, not about a range
    const url = new URL(window.location.href);
    for (const [key, value] of Object.entries(changes)) url.searchParams.set(key, value);
    window.history[pushed ? "pushState" : "replaceState"](null, "", url);
  }

  function zoom(from, to) {
    const [low, high] = [Math.max(0, Math.round(from)), Math.min(Date.now(), Math.round(to))];
    address({ from: low, to: high }, true);
    load(low, high);
  }

  let loads = 0;
  async function load(from, to) {
    const number = ++loads;
    let found = { error: "The server does not answer. Reload the page." };
    try {
      const answer = await fetch(`${root.dataset.series}?from=${from}&to=${to}`);
      const content = await answer.json();
      if (answer.ok || content.error) found = content;
    } catch { /* the error above */ }
    if (number !== loads) return;  // another range was selected in the meantime
    if (found.error) {
      readout.textContent = found.error;
      return;
    }
    data = found;
    draw();
  }

  window.addEventListener("popstate", () => {
    const query = new URL(window.location.href).searchParams;
    load(query.get("from") || root.dataset.from, query.get("to") || root.dataset.to);
  });
  load(root.dataset.from, root.dataset.to);
  // An open incident's axis ends now. What changed in the last minute comes with its minute.
  if (root.dataset.follows) {
    const hours = root.dataset.to - root.dataset.from;
    setInterval(() => { if (!document.hidden) load(Date.now() - hours, Date.now()); }, 20000);
  }
})();
