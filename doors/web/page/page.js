// The page: takes files, asks the worker, and shows what it answers.

import { isLanguageModel, showChat } from "./chat.js";
import { bytes, element, failed, ms } from "./elements.js";
import { draw } from "./graph.js";
import { Work, part } from "./work.js";

/** The widest picture that is drawn. */
const WIDEST = 1600;
/** More boxes than this are counted and not drawn. */
const DRAWN = 5000;
/** The colour of the boxes around lines of text. */
const BOX = "#e6007e";

const state = document.getElementById("state");
const results = document.getElementById("results");
const drop = document.getElementById("drop");
const chooser = document.getElementById("files");

const shape = (port) => (port.shape ? `${port.type}[${port.shape.map((extent) => extent ?? "?").join(", ")}]` : port.text);

/** Shows a picture with boxes around its lines of text. */
async function showPicture(article, file) {
  const found = await work.ask("detect", { file });
  const picture = await createImageBitmap(file);
  const scale = Math.min(1, WIDEST / Math.max(picture.width, picture.height));
  const canvas = element("canvas", { width: Math.round(picture.width * scale), height: Math.round(picture.height * scale) });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${file.name} with ${found.boxes.length} boxes`);
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  context.strokeStyle = BOX;
  context.lineWidth = 2;
  for (const { left, top, right, bottom } of found.boxes) {
    context.strokeRect(left * scale, top * scale, (right - left) * scale, (bottom - top) * scale);
  }
  canvas.dataset.boxes = JSON.stringify(found.boxes);
  const opened = found.openTime === null ? "" : `model opened in ${ms(found.openTime)}, `;
  article.append(
    element("p", {}, `${found.boxes.length} lines of text`),
    element("p", { className: "quiet times" }, `${opened}run of ${found.seen.join(" × ")} in ${ms(found.time)}`),
    canvas,
  );
}

/** Writes what is known of a box as a table. */
function details(box) {
  const rows = [["operator", `${box.title}${box.domain ? ` of ${box.domain}, opset ${box.opset}` : ""}`], ["name", box.name], ["runs", box.kind]];
  if (box.type) rows.splice(0, 3, [box.kind, box.name], ["type", box.type]);
  for (const [word, values] of [["reads", box.inputs], ["gives", box.outputs]]) {
    for (const value of values ?? []) {
      if (value) rows.push([word, `${value.name} ${value.type}`]);
    }
  }
  for (const [name, value] of box.attributes ?? []) rows.push([name, value]);
  for (const text of box.missing ?? []) rows.push(["missing", text]);
  return element("table", {}, ...rows.map(([name, value]) => element("tr", {}, element("th", {}, name), element("td", {}, value))));
}

/** Shows a model's graph. */
async function showModel(article, file) {
  const { graph, coverage: { counts }, inputs, outputs, warnings, time, openTime, refused } = await work.ask("inspect", { file });
  const nodes = Object.values(counts).reduce((sum, n) => sum + n, 0);
  const legend = element("ul", { className: "legend" });
  for (const kind of ["native", "lowered", "host", "unsupported"]) {
    const item = element("li", { className: kind }, element("span"), `${counts[kind]} ${kind}`);
    item.dataset.kind = kind;
    legend.append(item);
  }
  article.append(
    element("p", {}, `${nodes} nodes; ${inputs.map((x) => `${x.name} ${shape(x)}`).join(", ")} → ${outputs.map((x) => `${x.name} ${shape(x)}`).join(", ")}`),
    element("p", { className: "quiet times" }, `described in ${ms(time)}${refused ? "" : `, made ready to run in ${ms(openTime)}`}`),
  );
  if (refused) failed(article, refused);
  for (const warning of warnings.slice(0, 5)) article.append(element("p", { className: "quiet" }, warning));
  article.append(legend);
  if (!graph.placed || graph.boxes.length > DRAWN) {
    article.append(element("p", {}, `The graph has ${graph.boxes.length} boxes, which are too many to draw.`));
    return;
  }
  const chosen = element("div", { className: "details" });
  chosen.setAttribute("aria-live", "polite");
  article.append(draw(graph, (box) => chosen.replaceChildren(details(box))), chosen);
  article.append(element("p", { className: "quiet" }, "Drag to move, turn the wheel to enlarge, click a box for its details. Keys: arrows, +, −, 0 for the whole, n and p for the next and the previous box."));
}

async function show(file) {
  const label = element("span", { className: "label" }, "…");
  const article = element("article", {},
    element("div", { className: "head" }, element("h2", {}, file.name), label, element("span", { className: "quiet" }, bytes(file.size))));
  article.dataset.file = file.name;
  results.prepend(article);
  try {
    const guess = await work.ask("identify", { file });
    label.textContent = guess.label;
    label.title = `${(100 * guess.score).toFixed(1)} % sure`;
    article.append(element("p", { className: "quiet times" }, `${(100 * guess.score).toFixed(1)} % sure, in ${ms(guess.time)}`));
    if (await isLanguageModel(file)) {
      await showChat(article, file);
    } else if (/\.onnx$/i.test(file.name) || guess.label === "onnx") {
      await showModel(article, file);
    } else if (["png", "jpeg", "gif", "bmp", "webp"].includes(guess.label)) {
      await showPicture(article, file);
    }
  } catch (error) {
    if (label.textContent === "…") label.textContent = "";
    failed(article, error);
  }
  article.dataset.done = "true";
}

/** Files are shown one after another, so that the times are those of one task. */
let queue = Promise.resolve();
function take(files) {
  for (const file of files) queue = queue.then(() => show(file));
}

addEventListener("dragover", (event) => {
  event.preventDefault();
  drop.classList.add("over");
});
addEventListener("dragleave", () => drop.classList.remove("over"));
addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  take([...event.dataTransfer.files]);
});
chooser.addEventListener("change", () => {
  take([...chooser.files]);
  chooser.value = "";
});

const begun = performance.now();
const [wasm, magika, config, detector] = await Promise.all(["wasm", "magika", "config", "detector"].map(part));
const unpacked = performance.now() - begun;
const parts = { wasm, magika, detector, config: new TextDecoder().decode(config) };
const work = new Work(parts);
try {
  const { loadTime, openTime, backends } = await work.start();
  state.textContent = `Ready: page unpacked in ${ms(unpacked)}, WebAssembly (${bytes(wasm.byteLength)}) started in ${ms(loadTime)}, model for file types opened in ${ms(openTime)}; backends: ${backends.join(", ")}.`;
  state.dataset.ready = "true";
} catch (error) {
  state.textContent = `This browser cannot run the page: ${error.message}`;
  state.className = "wrong";
}
