// Uses each part of the API, so that the compiler checks its types. It does not run.

import { BbCrash, BbError, generating, load, type Elements, type ErrorKind, type Generator, type Result, type Session } from "../bb.js";
import { start } from "../bb-worker.js";

const bb = await load("bb.wasm");
const names: string[] = bb.backends;
const session: Session = bb.session(new ArrayBuffer(8), { dims: { batch: 1 }, limits: { run_bytes: "1GiB" } });
const extents: (number | string | null)[] | null = session.inputs[0].shape;
try {
  const { y } = session.run({ x: { shape: [1, 2], data: new Float32Array([1, 2]) }, z: { type: "bool", shape: [1], data: [true] } });
  const data: Elements = y.data;
  const native: number = session.coverage().counts.native;
  const places = session.graph().boxes.map(({ x, y }) => [x, y]);
  const { label } = await bb.fileTypes(session, "{}").identify(new Blob([]));
  console.log(names, extents, data, native, places, label.length);
} catch (error) {
  if (error instanceof BbError) console.log(error.kind satisfies ErrorKind, error.node, error.operator, error.causes.join());
  if (error instanceof BbCrash && !bb.alive) await bb.restart();
}
const { z } = session.run<Result>({});
const first: Result | null = "items" in z ? z.items[0] : null;
console.log(first);
console.log(bb.inspect(new Uint8Array(8)).coverage.counts.unsupported);
session.free();
// @ts-expect-error: an input needs its extents
session.run({ x: { data: new Float32Array(1) } });
// @ts-expect-error: there is no such option
bb.session(new Uint8Array(1), { dimensions: {} });

const far = await start();
const there = await far.open("model.onnx", { externalData: { "weights.bin": new Blob([]) } }, { timeout: 1000 });
const { y: later } = await there.run({ x: { shape: [1], data: new Float32Array(1) } }, { transfer: [] });
console.log(later.shape, (await bb.open(new URL("file:///model.onnx"))).inputs.length);
await there.free();
far.terminate();

const talking = await load(generating());
const generator: Generator = await talking.generator("model.gguf", { context: 512 });
for await (const piece of generator.generate([{ role: "user", content: "Hello" }], { maxTokens: 3, temperature: 0.5, seed: 1, stop: ["."] })) {
  const why: "token" | "stop" | "length" | "context" | null = piece.end;
  console.log(piece.text, piece.token.toFixed(), why, generator.chats);
}
// @ts-expect-error: a message has a role
generator.generate([{ content: "Hello" }]);
generator.free();
const farther = await start(generating());
const apart = await farther.generator(new Blob([]), {}, { timeout: 1000 });
for await (const { text } of apart.generate("Once", { topK: 40, topP: 0.9, minP: 0.1, repetitionPenalty: 1.1 }, { timeout: 1000 })) console.log(text);
await apart.free();
