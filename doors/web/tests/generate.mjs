// Tests of the module that generates text, in Node: node --test doors/web/tests/generate.mjs
// `cargo run -p bb-generate --example small_models` wrote the models, and what they answer on this machine's processor.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { BbCrash, BbError, load } from "../bb.js";
import { start } from "../bb-worker.js";

const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../../../target", import.meta.url));
const folder = join(target, "web/language");
const list = (name) => JSON.parse(readFileSync(join(folder, name)));
const wasm = new WebAssembly.Module(readFileSync(join(target, "web/bb-generate.wasm")));
const bb = await load(wasm);
const model = (file) => readFileSync(join(folder, file));
/** Tokens whose logits are nearer than this may be others on other processors, because sums are rounded in another order. */
const NEAR = 0.02;

const runs = list("runs.json");
const said = runs.find(({ file, from }) => file === "f32.gguf" && Array.isArray(from));

/** Compares a generation with what the native library made, as far as no two tokens are nearly as probable. */
function compare(pieces, expected) {
  const near = expected.pieces.findIndex(({ margin }) => margin < NEAR);
  const sure = near < 0 ? expected.pieces.length : near;
  const tokens = (list) => list.slice(0, sure).map(({ token, text }) => ({ token, text }));
  assert.deepEqual(tokens(pieces), tokens(expected.pieces));
  if (near < 0) {
    assert.equal(pieces.map(({ text }) => text).join(""), expected.text);
    assert.equal(pieces.at(-1).end, expected.end);
    assert.ok(pieces.slice(0, -1).every(({ end }) => end === null));
  }
  return sure;
}

test("each format of weights gives the tokens of the native library", async () => {
  const counts = {};
  for (const run of runs) {
    const generator = await bb.generator(model(run.file));
    assert.equal(generator.chats, true);
    const pieces = [...generator.generate(run.from, run.options)];
    // What is drawn does not depend on the nearest other token.
    const drawn = run.options.temperature === undefined ? run : { ...run, pieces: run.pieces.map((piece) => ({ ...piece, margin: 1 })) };
    counts[run.file] = (counts[run.file] ?? 0) + compare(pieces, drawn);
    generator.free();
  }
  assert.ok(Object.keys(counts).length >= 11);
  for (const [file, count] of Object.entries(counts)) {
    assert.ok(count >= 16, `${file}: only ${count} tokens are sure`);
  }
});

test("a conversation goes on from what is cached, and gives what a fresh one gives", async () => {
  const generator = await bb.generator(model("f32.gguf"));
  const options = { maxTokens: 12 };
  const answer = (messages) => [...generator.generate(messages, options)].map(({ text }) => text).join("");
  const messages = [...said.from];
  messages.push({ role: "assistant", content: answer(messages) }, { role: "user", content: "And a matrix?" });
  const second = answer(messages);
  const fresh = await bb.generator(model("f32.gguf"));
  assert.equal([...fresh.generate(messages, options)].map(({ text }) => text).join(""), second);
  generator.free();
  fresh.free();
});

test("equal seeds draw equal tokens, and generations without a seed draw others", async () => {
  const generator = await bb.generator(model("f32.gguf"));
  const draw = (options) => [...generator.generate("the", { temperature: 1.5, maxTokens: 20, ...options })].map(({ token }) => token).join();
  assert.equal(draw({ seed: 3 }), draw({ seed: 3 }));
  assert.notEqual(draw({ seed: 3 }), draw({ seed: 4 }));
  assert.notEqual(draw({}), draw({}));
  generator.free();
});

test("a loop that is left ends the generation, and another one ends it, too", async () => {
  const generator = await bb.generator(model("f32.gguf"));
  let count = 0;
  for await (const piece of generator.generate(said.from, { maxTokens: 100 })) {
    assert.equal(typeof piece.text, "string");
    if (++count === 3) break;
  }
  const first = generator.generate("one", { maxTokens: 100 });
  first.next();
  const second = generator.generate("two", { maxTokens: 5 });
  second.next();
  assert.throws(() => first.next(), /another one of the same language model began/);
  // The end of the first does not end the second.
  assert.equal([...second].length, 4);
  compare([...generator.generate(said.from, said.options)], said);
  assert.deepEqual([...generator.generate(said.from, { maxTokens: 0 })], []);
  generator.free();
  assert.throws(() => [...generator.generate("one")], /language model 0 is not open/);
});

test("a conversation that is too long, options out of range and wrong requests are errors", async () => {
  const generator = await bb.generator(model("f32.gguf"), { context: 32 });
  assert.equal(generator.context, 32);
  const failure = (from, options) => {
    try {
      [...generator.generate(from, options)];
    } catch (error) {
      assert.ok(error instanceof BbError, String(error));
      return [error.kind, error.message];
    }
    throw new Error("it ran");
  };
  assert.match(failure("x".repeat(100)).join(), /^wrong-input,the sequence would have \d+ tokens, expected at most 32/);
  assert.match(failure("x", { temperature: -1 }).join(), /^wrong-input,`temperature` is -1, expected 0 or more/);
  assert.match(failure("x", { warmth: 1 }).join(), /^wrong-input,the request of a generation cannot be read: unknown field `warmth`/);
  assert.match(failure([{ role: "user" }]).join(), /missing field `content`/);
  assert.match(failure("").join(), /^wrong-input,the prompt has no tokens/);
  const full = [...generator.generate("x", { maxTokens: 100 })];
  assert.equal(full.at(-1).end, "context");
  generator.free();
});

test("templates are told the time by JavaScript", async () => {
  const bytes = model("f32.gguf");
  // The template is replaced by another one of the same length.
  const [first, last, now] = ["{% for m in messages %}", "assistant\n{% endif %}", "{{ strftime_now('%Y') }}"];
  const at = bytes.indexOf(first);
  const length = bytes.indexOf(last, at) + last.length - at;
  assert.ok(at > 0 && length > now.length + 4);
  bytes.write(`${now}{#${" ".repeat(length - now.length - 4)}#}`, at);
  const generator = await bb.generator(bytes);
  const tokens = (from) => [...generator.generate(from, { maxTokens: 8 })].map(({ token }) => token);
  assert.deepEqual(tokens([]), tokens(String(new Date().getUTCFullYear())));
  generator.free();
});

test("files that are no models are refused as the native library refuses them", async () => {
  const refused = list("refused.json");
  assert.ok(refused.length >= 20);
  for (const { file, message, kind } of refused) {
    const error = await bb.generator(model(file)).then(() => null, (error) => error);
    assert.ok(error instanceof BbError, `${file}: ${error}`);
    assert.ok(error.message.startsWith(message), `${file}: ${error.message}`);
    assert.equal(error.kind, kind, `${file}: ${error.message}`);
  }
  assert.ok(bb.alive);
});

test("no changed byte ends the instance", async () => {
  const bytes = model("q4_1.gguf");
  // The metadata is before the weights, whose bytes are numbers in any case.
  const head = bytes.indexOf("output_norm.weight");
  let state = 1;
  const random = (below) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  for (let tries = 0; tries < 400; tries++) {
    const changed = Uint8Array.from(bytes);
    for (let count = 1 + random(3); count > 0; count--) {
      changed[random(head)] = [0, 1, 0x20, 0x7f, 0x80, 0xff, random(256)][random(7)];
    }
    try {
      const generator = await bb.generator(changed);
      [...generator.generate("the text", { maxTokens: 3 })];
      generator.free();
    } catch (error) {
      assert.ok(error instanceof BbError, `try ${tries}: ${error}`);
    }
  }
});

test("a module without text generation says which one has it", async () => {
  const other = await load(readFileSync(join(target, "web/bb.wasm")));
  await assert.rejects(other.generator(new Uint8Array(4)), /load `bb-generate.wasm`/);
  assert.deepEqual(bb.backends, other.backends);
});

test("a worker generates, answers other calls between tokens, and stops", async () => {
  const far = await start(wasm);
  const generator = await far.generator(pathToFileURL(join(folder, "f32.gguf")));
  const pieces = [];
  for await (const piece of generator.generate(said.from, said.options)) {
    pieces.push(piece);
    if (pieces.length === 2) assert.equal((await far.generator(new Blob([model("q8_0.gguf")]))).context, generator.context);
  }
  compare(pieces, said);
  for await (const piece of generator.generate(said.from, { maxTokens: 100 })) {
    if (piece) break;
  }
  await assert.rejects(far.generator(new Uint8Array(8)), BbError);
  const pending = generator.generate(said.from).next();
  far.terminate();
  await assert.rejects(pending, BbCrash);
});
