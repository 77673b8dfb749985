// Runs ONNX's own cases on the module, in Node: node doors/web/tests/cases.mjs FOLDER
// The folder has the unpacked archive of `tests/cases`. A case counts if its inputs and outputs are tensors. It fails the process if a case
// gives wrong results, or an error that is not expected.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BbCrash, load } from "../bb.js";
import { Unread, tensor } from "./tensors.mjs";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const out = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "web");
const excluded = new Set(readFileSync(join(root, "tests/cases/exclude.txt"), "utf8").split("\n").map((line) => line.split("#")[0].trim()));
/** Operators that the module does without, because their libraries are larger than their use. */
const WITHOUT = /ImageDecoder|RegexFullMatch|Tokenizer/;
/** Cases of `CastLike` give an input of another shape than their models declare. */
const DECLARED = /^input `like` is declared as f32\[3, 4\], got f32\[1\]/;

/** Reads floats of two bytes. */
const halves = {
  bfloat16: (bits) => new Float32Array(Uint32Array.of(bits << 16).buffer)[0],
  float16: (bits) => {
    const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  },
};

/** Some cases name the bits of `bfloat16` `uint16`. */
const as = (port, value) => (port.type === "bfloat16" && value.type === "uint16" ? { ...value, type: "bfloat16" } : value);

/** Says how a result differs from what is expected; null if it does not. ONNX's comparison, with its tolerances. */
function difference(got, expected, { rtol = 1e-3, atol = 1e-7 }) {
  if (got.type !== expected.type) return `type ${got.type}, expected ${expected.type}`;
  if (`${got.shape}` !== `${expected.shape}`) return `shape [${got.shape}], expected [${expected.shape}]`;
  if (got.data.length !== expected.data.length) return `${got.data.length} elements, expected ${expected.data.length}`;
  if (got.type === "bfloat16") rtol = Math.max(rtol, 2 ** -6);
  const read = halves[got.type] ?? ((x) => x);
  for (let i = 0; i < got.data.length; i++) {
    const [x, y] = [read(got.data[i]), read(expected.data[i])];
    const same = typeof x === "number" ? Object.is(x, y) || x === y || Math.abs(x - y) <= atol + rtol * Math.abs(y) : x === y;
    if (!same) return `element ${i}: ${x}, expected ${y}`;
  }
  return null;
}

let bb = await load(readFileSync(join(out, "bb.wasm")));
const counts = { passed: 0, "other than tensors": 0, "without their libraries": 0, "declared otherwise": 0, excluded: 0, failed: 0 };

function run(folder) {
  const options = existsSync(join(folder, "data.json")) ? JSON.parse(readFileSync(join(folder, "data.json"), "utf8")) : {};
  const session = bb.session(readFileSync(join(folder, "model.onnx")));
  try {
    for (const set of readdirSync(folder).filter((name) => name.startsWith("test_data_set"))) {
      const files = readdirSync(join(folder, set));
      const all = (kind) => files.filter((file) => file.startsWith(kind)).sort((a, b) => parseInt(a.split("_")[1]) - parseInt(b.split("_")[1]));
      const feeds = {};
      for (const file of all("input")) {
        const value = tensor(join(folder, set, file));
        const port = session.inputs.find(({ name }) => name === value.name) ?? session.inputs[parseInt(file.split("_")[1])];
        if (port.type === null) throw new Unread("an input is no tensor");
        feeds[port.name] = as(port, value);
      }
      const results = session.run(feeds);
      for (const file of all("output")) {
        const port = session.outputs[parseInt(file.split("_")[1])];
        if (!results[port.name].shape) throw new Unread("an output is no tensor");
        const wrong = difference(results[port.name], as(port, tensor(join(folder, set, file))), options);
        if (wrong) return `${port.name}: ${wrong}`;
      }
    }
    return null;
  } finally {
    session.free();
  }
}

for (const kind of readdirSync(process.argv[2])) {
  for (const name of readdirSync(join(process.argv[2], kind)).sort()) {
    const count = (what) => { counts[what]++; };
    if (excluded.has(`${kind}/${name}`)) {
      count("excluded");
      continue;
    }
    try {
      const wrong = run(join(process.argv[2], kind, name));
      count(wrong ? "failed" : "passed");
      if (wrong) console.log(`${kind}/${name}: ${wrong}`);
    } catch (error) {
      if (error instanceof Unread) {
        count("other than tensors");
      } else if (WITHOUT.test(error.message)) {
        count("without their libraries");
      } else if (DECLARED.test(error.message)) {
        count("declared otherwise");
      } else {
        count("failed");
        console.log(`${kind}/${name}: ${error.message}`);
        if (error instanceof BbCrash) await bb.restart();
      }
    }
  }
}
console.log(Object.entries(counts).map(([what, n]) => `${n} ${what}`).join(", "));
process.exitCode = counts.failed ? 1 : 0;
