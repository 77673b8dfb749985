// Tests of where the module and models come from, and of the worker, in Node: node --test doors/web/tests/sources.mjs

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { copyFileSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { BbCrash, BbError, load } from "../bb.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
const wasm = readFileSync(join(target, "web/bb.wasm"));
const model = readFileSync(join(root, "tests/data/models/surfaces_gbr/model.onnx"));

// The module as it is published: its files in one folder.
const folder = mkdtempSync(join(tmpdir(), "bb-web-"));
copyFileSync(join(target, "web/bb.wasm"), join(folder, "bb.wasm"));
for (const name of ["bb.js", "bb-worker.js"]) copyFileSync(join(root, "web", name), join(folder, name));
copyFileSync(join(root, "doors/web/package.json"), join(folder, "package.json"));
const published = (name) => import(pathToFileURL(join(folder, name)));

/** A server that answers as the path says. */
const server = createServer((request, response) => {
  const answers = {
    "/bb.wasm": [200, { "content-type": "application/wasm" }, wasm],
    "/plain.wasm": [200, { "content-type": "text/plain" }, wasm],
    "/model.onnx": [200, { "content-length": model.length }, model],
    "/chunked.onnx": [200, {}, model],
    "/page": [200, { "content-type": "text/html" }, "<!doctype html>"],
  };
  const [status, headers, body] = answers[request.url] ?? [404, { "content-type": "text/html" }, "<!doctype html> not here"];
  response.writeHead(status, headers);
  response.end(body);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const at = (path) => `http://127.0.0.1:${server.address().port}${path}`;
after(() => server.close());

/** ONNX's messages, written as bytes: numbers of fields as ONNX's schema has them. */
const varint = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...varint(n >>> 7)]);
const field = (number, value) => {
  if (typeof value === "number") return [...varint(number << 3), ...varint(value)];
  const bytes = typeof value === "string" ? [...new TextEncoder().encode(value)] : value;
  return [...varint((number << 3) | 2), ...varint(bytes.length), ...bytes];
};

/** `y = x + w`, in which `w` is three floats in the file `location`. */
function external(location) {
  const port = (name) => [...field(1, name), ...field(2, field(1, [...field(1, 1), ...field(2, field(1, field(1, 3)))]))];
  const entry = (key, value) => field(13, [...field(1, key), ...field(2, value)]);
  const weights = [...field(1, 3), ...field(2, 1), ...field(8, "w"), ...entry("location", location), ...field(14, 1)];
  const node = [...field(1, "x"), ...field(1, "w"), ...field(2, "y"), ...field(4, "Add")];
  const graph = [...field(1, node), ...field(2, "g"), ...field(5, weights), ...field(11, port("x")), ...field(12, port("y"))];
  return Uint8Array.from([...field(1, 10), ...field(7, graph), ...field(8, [...field(1, ""), ...field(2, 21)])]);
}

test("the module is found beside its script", async () => {
  const { load } = await published("bb.js");
  assert.deepEqual((await load()).backends, ["cpu"]);
});

test("the module comes from a server, whatever type that gives it", async () => {
  for (const path of ["/bb.wasm", "/plain.wasm"]) {
    assert.deepEqual((await load(at(path))).backends, ["cpu"]);
    assert.deepEqual((await load(await fetch(at(path)))).backends, ["cpu"]);
  }
});

test("what is not there says so", async () => {
  const absent = { name: "BbError", kind: "configuration", message: /absent\.wasm` cannot be fetched: the server answers 404 Not Found/ };
  await assert.rejects(load(at("/absent.wasm")), absent);
  await assert.rejects(load(await fetch(at("/absent.wasm"))), absent);
  await assert.rejects(load("http://127.0.0.1:1/bb.wasm"), { name: "BbError", kind: "device", message: /cannot be fetched/ });
  const bb = await load(wasm);
  await assert.rejects(bb.open(at("/absent.onnx")), { name: "BbError", message: /404/ });
  await assert.rejects(bb.open(at("/page")), BbError);
});

test("a model comes from bytes, addresses, responses, blobs and files", async () => {
  const bb = await load(wasm);
  const file = pathToFileURL(join(root, "tests/data/models/surfaces_gbr/model.onnx"));
  const sources = [model, at("/model.onnx"), new URL(at("/chunked.onnx")), await fetch(at("/model.onnx")), new Blob([model]), file, file.href];
  for (const source of sources) {
    const session = await bb.open(source);
    assert.equal(session.inputs[0].name, "input");
    session.free();
  }
});

test("external data is given by location", async () => {
  const bb = await load(wasm);
  const w = new Float32Array([10, 20, 30]);
  const x = { shape: [3], data: new Float32Array([1, 2, 3]) };
  for (const location of ["w.bin", "./w.bin", "parts/../w.bin"]) {
    const session = bb.session(external(location), { externalData: { "w.bin": w } });
    assert.deepEqual([...session.run({ x }).y.data], [11, 22, 33]);
  }
  const session = await bb.open(external("w.bin"), { externalData: { "w.bin": new Blob([w]) } });
  assert.deepEqual([...session.run({ x }).y.data], [11, 22, 33]);
  assert.throws(() => bb.session(external("w.bin"), { externalData: { "v.bin": w } }), /`w\.bin` does not exist in what was given/);
  assert.throws(() => bb.session(external("w.bin")), BbError);
  assert.throws(() => bb.session(external("w.bin"), { externalData: { "w.bin": w.subarray(1) } }), /8 bytes|12/);
});

test("a worker does what the module does", async () => {
  const { start } = await published("bb-worker.js");
  const bb = await start();
  try {
    assert.deepEqual(bb.backends, ["cpu"]);
    const session = await bb.open(at("/model.onnx"));
    const shape = session.inputs[0].shape.map((extent) => (typeof extent === "number" ? extent : 1));
    const x = { shape, data: new Float32Array(shape.reduce((a, b) => a * b, 1)) };
    const far = (await session.run({ input: x }))[session.outputs[0].name];
    const here = (await load(wasm)).session(model).run({ input: x })[session.outputs[0].name];
    assert.deepEqual(far, here);
    assert.equal((await session.coverage()).nodes.length, (await bb.inspect(model)).coverage.nodes.length);
    assert.ok((await session.graph()).boxes.length > 0);

    // Memory that is moved is the page's no longer.
    const moved = { shape, data: x.data.slice() };
    await session.run({ input: moved }, { transfer: [moved.data.buffer] });
    assert.equal(moved.data.byteLength, 0);

    await assert.rejects(session.run({ nobody: x }), { name: "BbError", message: /nobody/ });
    await assert.rejects(bb.session(new Uint8Array([1, 2, 3])), { name: "BbError", kind: "invalid-model" });
    await assert.rejects(bb.session(() => 1), { name: "BbError", message: /cannot be sent/ });
    await session.free();
    await assert.rejects(session.run({ input: x }), { name: "BbError", message: /freed/ });
  } finally {
    bb.terminate();
  }
  assert.equal(bb.alive, false);
  await assert.rejects(bb.session(model), (error) => error instanceof Error && /restart/.test(error.message));
});

test("a call that takes too long ends the worker, and another is started", async () => {
  const { start } = await published("bb-worker.js");
  const bb = await start();
  try {
    const session = await bb.session(model);
    const shape = [200000, session.inputs[0].shape.at(-1)];
    const x = { shape, data: new Float32Array(shape[0] * shape[1]) };
    const late = session.run({ input: x }, { timeout: 1 });
    const waiting = session.coverage();
    await assert.rejects(late, { name: "BbCrash", message: /took longer than 1 ms/ });
    await assert.rejects(waiting, { name: "BbCrash" });
    await bb.restart();
    assert.deepEqual((await bb.session(model)).inputs[0].name, "input");
  } finally {
    bb.terminate();
  }
});

test("a module that cannot be loaded ends the worker", async () => {
  const { start } = await published("bb-worker.js");
  await assert.rejects(start(at("/absent.wasm")), { name: "BbError", message: /404/ });
});
