// Times of a language model on the module that generates text, in Node: node doors/web/tests/tokens.mjs MODEL.gguf
// A call reads a part of the prompt or makes a token; a page's worker answers other calls between two, so that the longest one counts.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { load } from "../bb.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const out = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "web");
const [model] = process.argv.slice(2);
if (!model) {
  console.error("node doors/web/tests/tokens.mjs MODEL.gguf");
  process.exit(2);
}

/** Runs a function; returns its result and the milliseconds that it took. */
async function timed(f) {
  const begun = performance.now();
  const result = await f();
  return [result, performance.now() - begun];
}

const [bb, started] = await timed(() => load(pathToFileURL(join(out, "bb-generate.wasm"))));
const [generator, opened] = await timed(() => bb.generator(pathToFileURL(model)));
console.log(`module started in ${started.toFixed(0)} ms, model opened in ${opened.toFixed(0)} ms\n`);

const text = readFileSync(join(root, "README.md"), "utf8").replace(/\s+/g, " ");
const prompts = [
  ["a question", "Which planet is the largest?", 100],
  ["3000 characters", `What is this? ${text.slice(0, 3000)}`, 60],
  ["12000 characters", `What is this? ${text.repeat(9).slice(0, 12000)}`, 60],
];
console.log("| prompt | its tokens | read, tokens a second | the longest call, ms | answer, tokens a second | the longest call, ms |");
console.log("|---|---|---|---|---|---|");
for (const [name, content, maxTokens] of prompts) {
  const { generation, prompt } = generator.begin([{ role: "user", content }], { maxTokens, seed: 1 });
  const [reading, writing] = [[], []];
  for (;;) {
    const [part, time] = await timed(() => generator.next(generation));
    if (part === null) break;
    (part.read === undefined ? writing : reading).push(time);
  }
  const row = (times, tokens) => {
    const sum = times.reduce((sum, time) => sum + time, 0);
    return `${((1000 * tokens) / sum).toFixed(1)} | ${Math.max(...times).toFixed(0)}`;
  };
  console.log(`| ${name} | ${prompt} | ${row(reading, prompt)} | ${row(writing, writing.length)} |`);
}
generator.free();
