// Tests of the module and its API, in Node: node --test doors/web/tests/module.mjs

import assert from "node:assert/strict";
import { readFileSync, readdirSync, existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { BbCrash, BbError, load } from "../bb.js";
import { tensor } from "./tensors.mjs";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
const wasm = readFileSync(join(target, "web/bb.wasm"));
const models = join(root, "tests/data/models");
const bb = await load(wasm);
const open = (name, options) => bb.session(readFileSync(join(models, name, "model.onnx")), options);

/** Reads a set of test data: inputs by name, and outputs in order. */
export function data(folder) {
  const set = join(folder, "test_data_set_0");
  const all = (kind) => {
    const files = readdirSync(set).filter((file) => file.startsWith(kind));
    return files.map((_, i) => tensor(join(set, `${kind}_${i}.pb`)));
  };
  return { inputs: all("input"), outputs: all("output") };
}

test("the registry finds the backend, because the constructors ran", () => {
  assert.deepEqual(bb.backends, ["cpu"]);
});

for (const name of readdirSync(models)) {
  test(`${name} gives the stored outputs`, () => {
    const folder = join(models, name);
    const { rtol = 1e-3, atol = 1e-7 } = existsSync(join(folder, "data.json")) ? JSON.parse(readFileSync(join(folder, "data.json"))) : {};
    const { inputs, outputs } = data(folder);
    const session = open(name);
    // A model that calls its inputs otherwise than the data gets them by position.
    const feeds = Object.fromEntries(inputs.map((input, i) => [session.inputs[i].name, input]));
    const results = session.run(feeds);
    assert.ok(outputs.length > 0);
    outputs.forEach((expected, i) => {
      const port = session.outputs[i];
      const got = results[port.name];
      assert.equal(got.type, expected.type);
      assert.deepEqual(got.shape, expected.shape);
      assert.equal(got.data.length, expected.data.length);
      for (let at = 0; at < got.data.length; at++) {
        const [x, y] = [got.data[at], expected.data[at]];
        if (typeof x !== "number") assert.equal(x, y);
        else assert.ok(Object.is(x, y) || Math.abs(x - y) <= atol + rtol * Math.abs(y), `${port.name}[${at}]: ${x} and ${y}`);
      }
    });
    session.free();
  });
}

test("a session describes its ports, its coverage and its graph", () => {
  const session = open("surfaces_gbr");
  assert.deepEqual(session.inputs[0].name, "input");
  assert.equal(session.inputs[0].type, "float32");
  const { nodes, counts } = session.coverage();
  assert.equal(nodes.length, Object.values(counts).reduce((a, b) => a + b));
  const graph = session.graph();
  const boxes = graph.boxes.filter(({ kind }) => kind !== "input" && kind !== "output");
  assert.equal(boxes.length, nodes.length);
  for (const { from, to } of graph.lines) {
    assert.ok(graph.boxes[from].y < graph.boxes[to].y, "what reads is below");
  }
  session.free();
  assert.throws(() => session.coverage(), BbError);
});

test("dims fix symbolic dimensions, and unknown ones are named", () => {
  const free = open("magika");
  const symbols = free.inputs[0].shape.filter((extent) => typeof extent === "string");
  assert.ok(symbols.length > 0);
  const fixed = open("magika", { dims: { [symbols[0]]: 3 } });
  assert.equal(fixed.inputs[0].shape[0], 3);
  assert.throws(() => open("magika", { dims: { nobody: 3 } }), /no input has a symbolic dimension `nobody`/);
  assert.throws(() => open("magika", { limits: { nodes: "3" } }), BbError);
});

test("a session that was freed does not become another", () => {
  const first = open("surfaces_gbr");
  first.free();
  const second = open("skl_pls");
  assert.throws(() => first.coverage(), /is not open/);
  first.free();
  assert.ok(second.coverage().nodes.length > 0);
  second.free();
});

test("errors have a message and say where", () => {
  const session = open("surfaces_gbr");
  const run = (feeds) => {
    try {
      session.run(feeds);
    } catch (error) {
      return error;
    }
    throw new Error("it ran");
  };
  assert.equal(run({}).input, "input");
  assert.equal(run({}).kind, "wrong-input");
  assert.match(run({ other: { shape: [1], data: new Float32Array(1) } }).message, /other/);
  const wrong = run({ input: { shape: [1, 4], data: new Float32Array(3) } });
  assert.ok(wrong instanceof BbError);
  assert.equal(wrong.input, "input");
  assert.match(run({ input: { type: "float32", shape: [1, 4], data: new Float64Array(4) } }).message, /Float64Array/);
  assert.match(run({ input: { type: "float31", shape: [1, 4], data: new Float32Array(4) } }).message, /float31/);
  assert.match(run({ input: { shape: [1, 4] } }).message, /typed array/);
  assert.ok(run({ input: { shape: [1, -4], data: new Float32Array(4) } }) instanceof BbError);
  const good = session.run({ input: { shape: [1, 4], data: Float32Array.of(0.57730556, 0.506829, 0.14141674, 0.8114217) } });
  // What ONNX Runtime computes.
  assert.ok(Math.abs(good.variable.data[0] - 0.26850086) < 1e-5);
});

test("errors have a kind, by which a page decides", () => {
  const kind = (call) => {
    try {
      call();
    } catch (error) {
      assert.ok(error instanceof BbError, String(error));
      return error.kind;
    }
    throw new Error("it ran");
  };
  const session = open("surfaces_gbr");
  const input = { shape: [1, 4], data: new Float32Array(4) };
  assert.equal(kind(() => bb.session(new Uint8Array([1, 2, 3]))), "invalid-model");
  assert.equal(kind(() => session.run({ input: { ...input, shape: [1, 3] } })), "wrong-input");
  assert.equal(kind(() => session.run({ input: { shape: [1, 5], data: new Float32Array(5) } })), "wrong-input");
  assert.equal(kind(() => session.run({ nobody: input })), "wrong-input");
  assert.equal(kind(() => session.run({ input: { shape: [1, 4] } })), "wrong-input");
  assert.equal(kind(() => open("magika", { dims: { nobody: 3 } })), "wrong-input");
  assert.equal(kind(() => open("magika", { limits: { nobody: "3" } })), "configuration");
  assert.equal(kind(() => open("magika", { limits: { nodes: "3" } })), "limit");
});

test("every hostile file gets a message, and the next model runs", async () => {
  const folder = join(root, "tests/data/hostile");
  const list = readFileSync(join(folder, "list.tsv"), "utf8");
  const files = readdirSync(folder).filter((file) => file.endsWith(".onnx"));
  assert.ok(files.length >= 30);
  for (const file of files) {
    const line = list.split("\n").find((line) => line.includes(file)) ?? "";
    try {
      const session = bb.session(readFileSync(join(folder, file)));
      session.graph();
      session.free();
      assert.doesNotMatch(line, /\treject\b/, `${file} was accepted`);
    } catch (error) {
      assert.ok(error instanceof BbError, `${file}: ${error}`);
      assert.ok(error.message.length > 0);
    }
  }
  open("surfaces_gbr").free();
});

test("an instance that ended says so, and another is started", async () => {
  const own = await load(new WebAssembly.Module(wasm));
  const model = readFileSync(join(models, "basic_pitch/model.onnx"));
  const session = own.session(model);
  // No input is known that ends an instance, so the stack of the engine is used up before it is called.
  const dive = (depth) => (depth > 0 ? dive(depth - 1) : session.graph());
  let most = 0;
  const probe = () => {
    most++;
    probe();
  };
  assert.throws(probe, RangeError);
  // Between the depths at which the call succeeds and those that do not even reach it are those at which it runs out of stack.
  let crash = null;
  for (let tries = 0; !crash && tries < 5; tries++) {
    for (let [good, deep] = [0, 4 * most]; !crash && deep - good > 1;) {
      const depth = Math.floor((good + deep) / 2);
      try {
        dive(depth);
        good = depth;
      } catch (error) {
        if (error instanceof BbCrash) crash = error;
        else deep = depth;
      }
    }
  }
  assert.match(crash?.message ?? "it ran", /^the instance (ended: |has ended)/);
  assert.equal(own.alive, false);
  assert.throws(() => session.coverage(), /await bb.restart\(\)/);
  session.free();
  await own.restart();
  assert.ok(own.alive);
  own.session(model).free();
  assert.throws(() => session.coverage(), BbCrash, "sessions stay with their instance");
});
