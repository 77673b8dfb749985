// Times of runs and sizes beside ONNX Runtime Web, on one page in one browser: node doors/web/tests/speed.mjs [MODEL…]
// A model is a folder as in `tests/data/models`. Both run on one thread, in turns; a time is the median.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { browser, serve } from "./browser.mjs";
import { tensor } from "./tensors.mjs";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const out = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "web");
const ort = dirname(createRequire(import.meta.url).resolve("onnxruntime-web/wasm"));
/** The longest time that the runs of a model take, and the number of runs that are enough. */
const [TIME, RUNS] = [Number(process.env.BB_SPEED_MS ?? 4000), 201];

const own = ["magika", "basic_pitch", "silero_vad_op16", "attacut_sc", "tiny_llama_primitives_op17"];
const folders = process.argv.length > 2 ? process.argv.slice(2) : own.map((name) => join(root, "tests/data/models", name));
const detector = join(out, "detector.onnx");

function inputs(folder) {
  const set = join(folder, "test_data_set_0");
  const files = readdirSync(set).filter((file) => file.startsWith("input"));
  return files.map((_, i) => tensor(join(set, `input_${i}.pb`)));
}

/** A picture for the detector: the plan of the test's picture, without its pixels. */
function noise(width, height) {
  const data = new Float32Array(3 * width * height);
  let state = 1;
  for (let i = 0; i < data.length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    data[i] = state / 2 ** 31 - 1;
  }
  return [{ name: "x", type: "float32", shape: [1, 3, height, width], data }];
}

const models = folders.map((folder) => ({ name: basename(folder), file: join(folder, "model.onnx"), feeds: inputs(folder) }));
if (process.argv.length <= 2 && existsSync(detector)) {
  models.push({ name: "ppocr_v4_det 640×320", file: detector, feeds: noise(640, 320) });
}

/** Runs in the page: times both on a model, in turns. */
async function compare({ address, feeds, time, runs }) {
  const { bb, ort } = window;
  const bytes = await (await fetch(address)).arrayBuffer();
  const begun = performance.now();
  const ours = bb.session(bytes);
  const opened = performance.now();
  const theirs = await ort.InferenceSession.create(new Uint8Array(bytes), { executionProviders: ["wasm"] });
  const openTimes = [opened - begun, performance.now() - opened];
  const arrays = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array, float64: Float64Array, bool: Uint8Array };
  const values = feeds.map(({ type, shape, data }) => ({ type, shape, data: arrays[type].from(data, type === "int64" ? BigInt : undefined) }));
  const given = Object.fromEntries(values.map((value, i) => [ours.inputs[i].name, value]));
  const tensors = Object.fromEntries(values.map(({ type, shape, data }, i) => [ours.inputs[i].name, new ort.Tensor(type, data, shape)]));
  const [times, results] = [[[], []], []];
  const until = performance.now() + time;
  for (let run = 0; run < runs && (run < 5 || performance.now() < until); run++) {
    let now = performance.now();
    results[0] = ours.run(given);
    times[0].push(performance.now() - now);
    now = performance.now();
    results[1] = await theirs.run(tensors);
    times[1].push(performance.now() - now);
  }
  // The first run of each makes plans, so it does not count.
  const median = (list) => list.slice(1).sort((a, b) => a - b)[Math.floor((list.length - 1) / 2)];
  let difference = 0;
  for (const [name, { data }] of Object.entries(results[0])) {
    const other = results[1][name].data;
    for (let i = 0; i < other.length; i++) {
      const [x, y] = [Number(data[i]), Number(other[i])];
      if (x !== y) difference = Math.max(difference, Math.abs(x - y) / Math.max(1, Math.abs(y)));
    }
  }
  ours.free();
  await theirs.release();
  return { openTimes, medians: times.map(median), runs: times[0].length - 1, difference };
}

const page = `<!DOCTYPE html><meta charset="utf-8"><script type="module">
import * as ort from "/ort/ort.wasm.min.mjs";
import { load } from "/bb/bb.js";
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = "/ort/";
window.ort = ort;
window.bb = await load();
document.title = "ready";
</script>`;
const files = Object.fromEntries(models.map(({ file }, i) => [`/model/${i}`, file]));
const server = await serve({ "/": { text: page }, ...files }, { "/ort/": `${ort}/`, "/bb/": `${out}/` });
const chromium = await browser();
try {
  const tab = await chromium.newPage();
  tab.on("pageerror", (error) => console.error(error.message));
  await tab.goto(server.address);
  await tab.waitForFunction(() => document.title === "ready", null, { timeout: 60_000 });
  console.log(`Chromium ${chromium.version()}, ONNX Runtime Web ${await tab.evaluate(() => window.ort.env.versions.web)}, one thread\n`);
  console.log("| model | bb, ms | ONNX Runtime Web, ms | their time / ours | opened in ms, bb | opened in ms, ONNX Runtime Web | largest difference | runs |");
  console.log("|---|---|---|---|---|---|---|---|");
  for (const [i, { name, feeds }] of models.entries()) {
    const plain = feeds.map(({ type, shape, data }) => ({ type, shape, data: Array.from(data, Number) }));
    try {
      const { openTimes, medians, runs, difference } = await tab.evaluate(compare, { address: `/model/${i}`, feeds: plain, time: TIME, runs: RUNS });
      const [a, b] = medians;
      const number = (x) => (x < 10 ? x.toFixed(2) : x.toFixed(1));
      console.log(`| ${name} | ${number(a)} | ${number(b)} | ${(b / a).toFixed(2)} | ${openTimes.map((t) => t.toFixed(0)).join(" | ")} | ${difference.toExponential(0)} | ${runs} |`);
    } catch (error) {
      console.log(`| ${name} | ${error.message.split("\n")[0]} |`);
    }
  }
} finally {
  await chromium.close();
  server.close();
}

console.log("\n| module | bytes | gzip -9 | brotli -11 |\n|---|---|---|---|");
for (const [name, file] of [["bb.wasm", join(out, "bb.wasm")], ["bb-generate.wasm", join(out, "bb-generate.wasm")], ["ort-wasm-simd-threaded.wasm", join(ort, "ort-wasm-simd-threaded.wasm")]]) {
  const bytes = readFileSync(file);
  const brotli = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } });
  console.log(`| ${name} | ${bytes.length} | ${gzipSync(bytes, { level: 9 }).length} | ${brotli.length} |`);
}
