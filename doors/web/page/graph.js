// Draws a model's graph as SVG: boxes by what runs them, lines for values. The picture moves with the pointer, the wheel and keys.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 20;
const TITLE = 28;

function svgElement(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function shortened(text) {
  return text.length <= TITLE ? text : `${text.slice(0, 9)}…${text.slice(9 - TITLE + 1)}`;
}

/** The line of a value: from the bottom of a box through its points to the top of another. */
function path(from, to, bends, height) {
  let [x, y] = [from.x, from.y + height];
  let text = `M${x} ${y}`;
  for (const [nx, ny] of [...bends, [to.x, to.y]]) {
    const middle = (y + ny) / 2;
    text += nx === x ? `V${ny}` : `C${x} ${middle} ${nx} ${middle} ${nx} ${ny}`;
    [x, y] = [nx, ny];
  }
  return text;
}

/** Draws a graph, and calls `choose` with the box that is clicked or opened with the key Enter. */
export function draw(graph, choose) {
  const height = graph.box_height;
  const whole = {
    x: -MARGIN, y: -MARGIN, w: graph.width + 2 * MARGIN, h: graph.height + 2 * MARGIN,
  };
  const lines = svgElement("g", { class: "lines" });
  for (const { from, to, value, bends } of graph.lines) {
    const line = svgElement("path", { d: path(graph.boxes[from], graph.boxes[to], bends, height) });
    line.append(svgElement("title", {}, value));
    lines.append(line);
  }
  const boxes = svgElement("g", { class: "boxes" });
  graph.boxes.forEach((box, index) => {
    const left = box.x - box.width / 2;
    const group = svgElement("g", { class: `box ${box.kind}`, "data-index": index },
      svgElement("rect", { x: left, y: box.y, width: box.width, height, rx: 5 }),
      svgElement("text", { x: box.x, y: box.y + height / 2 + 4 }, shortened(box.title)),
      svgElement("title", {}, `${box.title}: ${box.name} (${box.kind})`));
    boxes.append(group);
  });
  const svg = svgElement("svg", { class: "graph", tabindex: 0, role: "img", "aria-label": `graph ${graph.name}` }, lines, boxes);

  // The view is a part of the picture, as wide and high as the element at the scale.
  let view = { x: 0, y: 0, scale: 1 };
  const size = () => [svg.clientWidth || 800, svg.clientHeight || 480];
  const show = () => {
    const [w, h] = size();
    svg.setAttribute("viewBox", `${view.x} ${view.y} ${w / view.scale} ${h / view.scale}`);
  };
  const fit = (all) => {
    const [w, h] = size();
    const scale = Math.min(w / whole.w, all ? h / whole.h : 1, 1.5);
    view = { scale, x: whole.x + (whole.w - w / scale) / 2, y: whole.y };
    show();
  };
  const zoom = (factor, px, py) => {
    const scale = Math.min(4, Math.max(0.01, view.scale * factor));
    view = { scale, x: view.x + px / view.scale - px / scale, y: view.y + py / view.scale - py / scale };
    show();
  };
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const place = svg.getBoundingClientRect();
    zoom(1.0015 ** -event.deltaY, event.clientX - place.left, event.clientY - place.top);
  }, { passive: false });
  let held = null;
  svg.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY, moved: false };
  });
  svg.addEventListener("pointermove", (event) => {
    if (!held || !(event.buttons & 1)) return;
    const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
    if (!held.moved && Math.hypot(dx, dy) < 4) return;
    if (!held.moved) svg.setPointerCapture(event.pointerId);
    view.x -= dx / view.scale;
    view.y -= dy / view.scale;
    held = { x: event.clientX, y: event.clientY, moved: true };
    show();
  });
  const select = (group) => {
    boxes.querySelectorAll(".chosen").forEach((other) => other.classList.remove("chosen"));
    group.classList.add("chosen");
    choose(graph.boxes[group.dataset.index]);
  };
  svg.addEventListener("pointerup", (event) => {
    const group = held && !held.moved && event.target.closest(".box");
    held = null;
    if (group) select(group);
  });
  /** Chooses the box after or before the chosen one, and shows it. */
  const step = (by) => {
    const all = [...boxes.children];
    const at = all.findIndex((group) => group.classList.contains("chosen"));
    const next = Math.min(all.length - 1, Math.max(0, at + by));
    if (!all.length) return;
    select(all[next]);
    const [w, h] = size();
    const { x, y } = graph.boxes[next];
    view = { ...view, x: x - w / view.scale / 2, y: y - h / view.scale / 2 };
    show();
  };
  svg.addEventListener("keydown", (event) => {
    const [w, h] = size();
    const moves = {
      "+": () => zoom(1.25, w / 2, h / 2), "=": () => zoom(1.25, w / 2, h / 2), "-": () => zoom(0.8, w / 2, h / 2),
      0: () => fit(true), 1: () => fit(false), n: () => step(1), p: () => step(-1),
      ArrowLeft: () => { view.x -= 60 / view.scale; }, ArrowRight: () => { view.x += 60 / view.scale; },
      ArrowUp: () => { view.y -= 60 / view.scale; }, ArrowDown: () => { view.y += 60 / view.scale; },
    };
    const move = event.ctrlKey || event.metaKey || event.altKey ? null : moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
    show();
  });
  new ResizeObserver(show).observe(svg);
  requestAnimationFrame(() => fit(false));
  return svg;
}
