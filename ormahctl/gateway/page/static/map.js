// Draws memories as dots, at the places that the daemon gave them, on a canvas; connections are lines. The list beside it has
// the same: what has the focus there is in the middle here. Loaded by page.js on the map alone; nothing here moves by itself.

const FAMILIES = ["knows", "does", "who", "when"];
const OF_TYPE = { decision: 1, procedure: 1, preference: 1, person: 2, project: 2, event: 3, goal: 3 }; // the others: 0
const MOST_EDGES = 20_000; // more are drawn only for the memory that is pointed at
const DRAGGED_EDGES = 5_000; // more are not drawn while the map is dragged
const LABELS = 30;
const DAY = 86_400_000;
const UNSEEN = /[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu; // control characters, and those that turn the direction of a text

let stop = null; // the AbortController of the map that is shown
let kept = { address: "" }; // the data that was fetched last

export async function start() {
  stop?.abort();
  const ending = (stop = new AbortController());
  const root = document.querySelector("main .map");
  const wait = root.querySelector(".wait");
  if (kept.address !== root.dataset.graph) {
    const answer = await fetch(root.dataset.graph, { signal: ending.signal }).catch(() => null);
    if (ending.signal.aborted) return;
    if (!answer?.ok) return (wait.textContent = "The picture could not be loaded. The list has the same.");
    kept = arrays((await answer.json()).columns, root.dataset.graph);
  }
  if (ending.signal.aborted) return;
  wait.hidden = true;
  show(root, kept, ending);
}

function arrays(columns, address) {
  return {
    address, count: columns.id.length, id: columns.id, index: new Map(columns.id.map((id, at) => [id, at])), type: columns.type, tier: columns.tier,
    title: columns.title.map((title) => title.replace(UNSEEN, " ")), degree: columns.degree, edge: columns.edge_type,
    x: Float32Array.from(columns.x), y: Float32Array.from(columns.y), day: Int32Array.from(columns.created, (day) => Date.parse(day) / DAY),
    radius: Float32Array.from(columns.degree, (degree) => 2.5 + Math.min(7, Math.sqrt(degree))),
    family: Uint8Array.from(columns.type, (type) => OF_TYPE[type] ?? 0),
    source: Uint32Array.from(columns.source), target: Uint32Array.from(columns.target),
  };
}

function show(root, data, ending) {
  const canvas = root.querySelector("canvas");
  const pen = canvas.getContext("2d");
  const card = root.querySelector("#card");
  const slider = document.querySelector(".days input");
  const on = { signal: ending.signal };
  const view = (data.view ??= { x: 0, y: 0, scale: 0 }); // the place in the middle, and pixels for a distance of 1
  let [width, height, until, chosen, over, waiting] = [0, 0, Infinity, -1, -1, 0];
  const held = new Map(); // pointers that are down
  let colours = {};
  let beside = new Set(); // the neighbours of the memory that is pointed at

  const left = (at) => (data.x[at] - view.x) * view.scale + width / 2;
  const top = (at) => (data.y[at] - view.y) * view.scale + height / 2;
  const hidden = (at) => data.day[at] > until;
  const about = root.dataset.near ? data.id.findIndex((id) => id.startsWith(root.dataset.near)) : -1; // what the map is around
  const grown = () => Math.min(2, Math.max(data.count > 2000 ? 0.5 : 0.8, view.scale / 8)); // how much dots grow with the zoom

  // ---------------------------------------------------------- drawing

  function redraw() {
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      if (!canvas.isConnected) return ending.abort();
      draw();
    });
  }

  function draw() {
    const ratio = devicePixelRatio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const focus = over >= 0 ? over : chosen;
    if (focus < 0 && data.source.length <= (held.size ? DRAGGED_EDGES : MOST_EDGES)) lines(colours.edge, data.source.length > 2000 ? 0.7 : 1.5, () => true);
    pen.globalAlpha = focus < 0 ? 1 : 0.25;
    dots((at) => focus < 0 || (at !== focus && !beside.has(at)));
    pen.globalAlpha = 1;
    if (focus >= 0) {
      lines(colours.near, 2, (edge) => data.source[edge] === focus || data.target[edge] === focus);
      dots((at) => at === focus || beside.has(at));
    }
    if (about >= 0 && !hidden(about)) {
      Object.assign(pen, { strokeStyle: colours.ink, lineWidth: 2 });
      pen.beginPath();
      pen.arc(left(about), top(about), data.radius[about] * grown() + 5, 0, 7);
      pen.stroke();
    }
    labels(focus);
  }

  function lines(colour, thickness, wanted) {
    pen.strokeStyle = colour;
    pen.lineWidth = thickness;
    for (const dashed of [false, true]) {
      pen.setLineDash(dashed ? [4, 3] : []);
      pen.beginPath();
      let drawn = 0;
      for (let edge = 0; edge < data.source.length; edge++) {
        const [from, to] = [data.source[edge], data.target[edge]];
        if ((data.edge[edge] === "contradicts") !== dashed || hidden(from) || hidden(to) || !wanted(edge)) continue;
        const [ax, ay, bx, by] = [left(from), top(from), left(to), top(to)];
        if ((ax < 0 && bx < 0) || (ay < 0 && by < 0) || (ax > width && bx > width) || (ay > height && by > height)) continue;
        pen.moveTo(ax, ay);
        pen.lineTo(bx, by);
        if (thickness === 2 && data.edge[edge] === "evolved_from") arrow(ax, ay, bx, by, data.radius[to] * grown());
        if (++drawn % 400) continue; // long paths are slow
        pen.stroke();
        pen.beginPath();
      }
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  function arrow(ax, ay, bx, by, radius) {
    const angle = Math.atan2(by - ay, bx - ax);
    const [x, y] = [bx - (radius + 2) * Math.cos(angle), by - (radius + 2) * Math.sin(angle)];
    for (const turn of [-0.4, 0.4]) {
      pen.moveTo(x, y);
      pen.lineTo(x - 8 * Math.cos(angle + turn), y - 8 * Math.sin(angle + turn));
    }
  }

  function dots(wanted) {
    const groups = new Map(); // those of one look are drawn at once
    for (let at = 0; at < data.count; at++) {
      if (hidden(at) || !wanted(at)) continue;
      const [x, y] = [left(at), top(at)];
      if (x < -20 || y < -20 || x > width + 20 || y > height + 20) continue;
      const look = data.tier[at] === "archival" ? "hollow" : data.tier[at] === "core" ? `core ${data.family[at]}` : data.family[at];
      groups.get(look)?.push(at) ?? groups.set(look, [at]);
    }
    for (const [look, some] of groups) {
      pen.fillStyle = look === "hollow" ? colours.ground : colours[FAMILIES[data.family[some[0]]]];
      pen.strokeStyle = look === "hollow" ? colours.archived : colours.ink;
      pen.lineWidth = 1.5;
      for (let first = 0; first < some.length; first += 250) {
        pen.beginPath();
        for (const at of some.slice(first, first + 250)) shape(data.family[at], left(at), top(at), data.radius[at] * grown());
        pen.fill();
        if (typeof look === "string") pen.stroke();
      }
    }
  }

  function shape(family, x, y, r) {
    const corners = [null, [-0.9, -0.9, 0.9, -0.9, 0.9, 0.9, -0.9, 0.9], [0, -1.25, 1.25, 0, 0, 1.25, -1.25, 0], [0, -1.2, 1.15, 0.85, -1.15, 0.85]][family];
    pen.moveTo(x + r * (corners?.[0] ?? 1), y + r * (corners?.[1] ?? 0));
    if (!corners) return pen.arc(x, y, r, 0, 7);
    for (let at = 2; at < corners.length; at += 2) pen.lineTo(x + r * corners[at], y + r * corners[at + 1]);
    pen.closePath();
  }

  // The most connected come first. A label stands beside its dot where no other does; of few memories it covers no dot either.
  function labels(focus) {
    const taken = [];
    for (let at = 0; data.count <= 300 && at < data.count; at++) {
      const [x, y, r] = [left(at), top(at), data.radius[at] * grown()];
      if (!hidden(at)) taken.push([x - r, y - r, x + r, y + r]);
    }
    Object.assign(pen, { font: "13px system-ui, sans-serif", textBaseline: "middle", lineWidth: 3, lineJoin: "round" });
    let put = 0;
    const first = focus < 0 ? Array.from({ length: Math.min(data.count, 400) }, (_, at) => at) : [focus, ...beside];
    for (const at of first) {
      const [x, y, r] = [left(at), top(at), data.radius[at] * grown() + 4];
      if (put >= LABELS || hidden(at) || x < 0 || y < 0 || x > width || y > height) continue;
      const text = data.title[at].length > 36 ? `${data.title[at].slice(0, 35)}…` : data.title[at];
      const wide = pen.measureText(text).width;
      const boxes = [[x + r, y], [x - r - wide, y], [x - wide / 2, y + r + 8], [x - wide / 2, y - r - 8]].map(([tx, ty]) => [tx, ty - 8, tx + wide, ty + 8]);
      const free = (one) => one[0] > 0 && one[2] < width && one[1] > 0 && one[3] < height && !taken.some((other) => one[0] < other[2] && one[2] > other[0] && one[1] < other[3] && one[3] > other[1]);
      const box = boxes.find(free) ?? (at === focus ? boxes[0] : null);
      if (!box) continue;
      put++;
      taken.push(box);
      pen.strokeStyle = colours.ground;
      pen.strokeText(text, box[0], box[1] + 8);
      pen.fillStyle = at === focus ? colours.ink : colours.soft;
      pen.fillText(text, box[0], box[1] + 8);
    }
  }

  // ---------------------------------------------------------- where one looks

  function fit() {
    let [x1, y1, x2, y2] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let at = 0; at < data.count; at++) {
      [x1, x2] = [Math.min(x1, data.x[at]), Math.max(x2, data.x[at])];
      [y1, y2] = [Math.min(y1, data.y[at]), Math.max(y2, data.y[at])];
    }
    view.scale = Math.min(60, (width - 48) / Math.max(1, x2 - x1), (height - 48) / Math.max(1, y2 - y1));
    [view.x, view.y] = [(x1 + x2) / 2, (y1 + y2) / 2];
  }

  function zoom(factor, px = width / 2, py = height / 2) {
    const scale = Math.min(200, Math.max(0.2, view.scale * factor));
    view.x += (px - width / 2) * (1 / view.scale - 1 / scale);
    view.y += (py - height / 2) * (1 / view.scale - 1 / scale);
    view.scale = scale;
    redraw();
  }

  function point(at) {
    over = at;
    const focus = over >= 0 ? over : chosen;
    beside = new Set();
    for (let edge = 0; focus >= 0 && edge < data.source.length; edge++) {
      if (data.source[edge] === focus) beside.add(data.target[edge]);
      if (data.target[edge] === focus) beside.add(data.source[edge]);
    }
    canvas.classList.toggle("over", over >= 0);
    redraw();
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect();
    let [found, best] = [-1, 14];
    for (let at = 0; at < data.count; at++) {
      const far = Math.hypot(left(at) - event.clientX + box.left, top(at) - event.clientY + box.top) - data.radius[at] * grown() / 2;
      if (far < best && !hidden(at)) [found, best] = [at, far];
    }
    return found;
  }

  // ---------------------------------------------------------- the card of the chosen memory

  async function choose(at) {
    chosen = at;
    point(-1);
    card.hidden = at < 0;
    if (at < 0) return;
    const [link, facts, text] = card.querySelectorAll("h2 a, .facts, .beginning");
    const near = root.dataset.near;
    Object.assign(link, { href: `/m/${data.id[at]}`, textContent: data.title[at] });
    facts.textContent = `${data.type[at]} · ${data.degree[at]} connections · made ${new Date(data.day[at] * DAY).toISOString().slice(0, 10)}`;
    text.textContent = "";
    card.querySelector("[data-way=near]").href = `/map?near=${data.id[at]}`;
    Object.assign(card.querySelector("[data-way=to]"), { href: `/map?near=${near}&to=${data.id[at]}`, hidden: !near || data.id[at].startsWith(near) });
    const answer = await fetch(`/ui/graph/node/${data.id[at]}`, on).catch(() => null);
    if (answer?.ok && chosen === at) text.textContent = (await answer.json()).node.content.slice(0, 280).replace(UNSEEN, " ");
  }

  card.querySelector("button").addEventListener("click", () => choose(-1), on);

  // ---------------------------------------------------------- pointer, list, slider

  let moved = 0; // pixels since a pointer went down
  canvas.addEventListener("pointerdown", (event) => {
    held.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
    if (held.size === 1) moved = 0;
  }, on);
  canvas.addEventListener("pointermove", (event) => {
    const last = held.get(event.pointerId);
    if (!last) {
      const at = nearest(event);
      return at !== over && point(at);
    }
    const other = [...held.values()].find((one) => one.pointerId !== event.pointerId);
    const far = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
    if (other && far(last)) zoom(far(event) / far(last));
    view.x -= (event.clientX - last.clientX) / view.scale / held.size;
    view.y -= (event.clientY - last.clientY) / view.scale / held.size;
    moved += Math.abs(event.clientX - last.clientX) + Math.abs(event.clientY - last.clientY);
    held.set(event.pointerId, event);
    redraw();
  }, on);
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => {
      held.delete(event.pointerId);
      redraw();
      if (name === "pointerup" && moved < 6) choose(nearest(event));
    }, on);
  }
  canvas.addEventListener("pointerleave", () => point(-1), on);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { ...on, passive: false });

  root.addEventListener("click", (event) => {
    const factor = event.target.closest("[data-zoom]")?.dataset.zoom;
    if (factor === "0") fit();
    if (factor) zoom(Number(factor) || 1);
  }, on);
  root.addEventListener("focusin", (event) => {
    const at = data.index.get(event.target.closest("[data-id]")?.dataset.id);
    if (at === undefined) return;
    [view.x, view.y, view.scale] = [data.x[at], data.y[at], Math.max(view.scale, 8)];
    point(at);
  }, on);
  root.addEventListener("keydown", (event) => {
    const row = event.target.closest("[data-id]");
    const next = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling }[event.key];
    if (!next) return;
    next.querySelector("a").focus();
    event.preventDefault();
  }, on);

  if (slider) {
    const [field, word] = [slider.form.elements.until, slider.parentElement.querySelector("output")];
    const iso = (day) => new Date(day * DAY).toISOString().slice(0, 10);
    const [first, last] = [data.day.reduce((a, b) => Math.min(a, b), Infinity), Math.floor(Date.now() / DAY)];
    const slide = () => {
      until = Number(slider.value);
      word.textContent = until >= last ? "today" : iso(until);
      redraw();
    };
    [slider.min, slider.max] = [first, last];
    slider.value = field.value ? Math.floor(Date.parse(field.value) / DAY) : last;
    slider.parentElement.hidden = first >= last;
    slide();
    slider.addEventListener("input", slide, on);
    slider.addEventListener("change", () => {
      field.value = until >= last ? "" : iso(until);
      slider.form.requestSubmit();
    }, on);
  }

  function dress() {
    const style = getComputedStyle(canvas);
    for (const name of [...FAMILIES, "ground", "ink", "soft", "archived", "edge", "near"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
    redraw();
  }
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) matchMedia(query).addEventListener("change", dress, on);
  const sizes = new ResizeObserver(() => {
    [width, height] = [canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [width * devicePixelRatio, height * devicePixelRatio];
    if (!view.scale) fit();
    draw();
    performance.mark("map");
  });
  ending.signal.addEventListener("abort", () => sizes.disconnect());
  dress();
  sizes.observe(canvas);
}
