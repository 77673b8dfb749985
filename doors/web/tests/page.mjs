// Tests of the page in Chromium, opened from its file: node --test doors/web/tests/page.mjs
// BB_SCREENSHOT names a file to which the last picture of the page is written.

import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { browser } from "./browser.mjs";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const out = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "web");
const data = join(root, "tests/data");
const detector = existsSync(join(out, "detector.onnx"));
const patience = { timeout: 120_000 };

let chromium, tab;
const problems = [];

before(async () => {
  chromium = await browser();
  tab = await chromium.newPage({ viewport: { width: 1100, height: 900 } });
  tab.on("pageerror", (error) => problems.push(error.message));
  tab.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  tab.on("request", (request) => /^https?:/.test(request.url()) && problems.push(`the page asked for ${request.url()}`));
  await tab.goto(pathToFileURL(join(out, "index.html")).href);
  await tab.waitForSelector("#state[data-ready]", patience);
}, patience);

after(() => chromium?.close());

const article = (name) => tab.locator(`article[data-file="${name}"]`).first();

/** Chooses files with a click on the field, and waits until they are shown. */
async function choose(...files) {
  const [chooser] = await Promise.all([tab.waitForEvent("filechooser"), tab.click("#files")]);
  await chooser.setFiles(files);
  await shown(files);
}

/** Drops a file on the page, as a file manager does. */
async function dropped(file) {
  const box = await tab.locator("#drop").boundingBox();
  const session = await tab.context().newCDPSession(tab);
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  for (const type of ["dragEnter", "dragOver", "drop"]) {
    await session.send("Input.dispatchDragEvent", { type, x, y, data: { items: [], files: [file], dragOperationsMask: 1 } });
  }
  await shown([file]);
}

async function shown(files) {
  for (const file of files) {
    await tab.waitForSelector(`article[data-file="${basename(file)}"][data-done]`, patience);
  }
}

/** Counts the pixels of a picture of the page near a colour, inside a part of it. */
async function near(png, [r, g, b], part = null) {
  return tab.evaluate(async ({ png, r, g, b, part }) => {
    const bytes = Uint8Array.from(atob(png), (c) => c.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes]));
    const { x, y, width, height } = part ?? { x: 0, y: 0, width: picture.width, height: picture.height };
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(picture, -x, -y);
    const { data } = context.getImageData(0, 0, width, height);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) {
      count += Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 60;
    }
    return count;
  }, { png: png.toString("base64"), r, g, b, part });
}

test("the page says how long it took to start", async () => {
  const text = await tab.textContent("#state");
  assert.match(text, /WebAssembly \([\d.]+ MB\) started in [\d.]+ ms, model for file types opened in [\d.]+ ms; backends: cpu/);
});

test("files are identified as what they are", async () => {
  // `LABEL.*` are files of these types, as Magika's own program identifies them.
  const files = readdirSync(join(data, "file-types"));
  assert.ok(files.length >= 10);
  for (const file of files) {
    await choose(join(data, "file-types", file));
    const [label, times] = [await article(file).locator(".label").textContent(), await article(file).locator(".times").first().textContent()];
    assert.equal(label, file.replace(/\..*/, ""));
    assert.match(times, /^[\d.]+ % sure, in [\d.]+ ms$/);
  }
});

test("a dropped picture has boxes where ONNX Runtime finds lines of text", { skip: !detector && "no detector" }, async () => {
  const file = fileURLToPath(new URL("lines.png", import.meta.url));
  const expected = JSON.parse(readFileSync(new URL("lines.json", import.meta.url)));
  await dropped(file);
  const canvas = article("lines.png").locator("canvas");
  const boxes = JSON.parse(await canvas.getAttribute("data-boxes")).sort((a, b) => a.top - b.top || a.left - b.left);
  assert.equal(boxes.length, expected.boxes.length);
  boxes.forEach((box, i) => {
    for (const [side, value] of Object.entries(expected.boxes[i])) {
      const most = side === "score" ? 1e-3 : 1;
      assert.ok(Math.abs(box[side] - value) <= most, `${side} of box ${i}: ${box[side]}, expected ${value}`);
    }
  });
  // The box is around the drawn text, to the few pixels that the model leaves out.
  for (const [left, top, right, bottom] of expected.lines) {
    assert.ok(boxes.some((box) => box.left <= left + 6 && box.top <= top + 6 && box.right >= right - 6 && box.bottom >= bottom - 6));
  }
  // What the page shows: each side of each box has its colour, and the middle has not.
  const place = await canvas.evaluate((canvas) => [canvas.width, canvas.height, canvas.clientWidth]);
  assert.deepEqual(place, [...expected.size, expected.size[0]], "the picture is shown in its own extents");
  const png = await canvas.screenshot();
  for (const { left, top, right, bottom } of expected.boxes) {
    const across = { x: Math.round(left) + 5, y: Math.round(top) - 2, width: Math.round(right - left) - 10, height: 5 };
    assert.ok((await near(png, [230, 0, 126], across)) >= across.width, "the upper side is drawn");
    const inside = { x: Math.round(left) + 5, y: Math.round(top) + 5, width: Math.round(right - left) - 10, height: Math.round(bottom - top) - 10 };
    assert.equal(await near(png, [230, 0, 126], inside), 0, "the inside is not painted");
  }
  assert.match(await article("lines.png").locator(".times").last().textContent(), /run of 640 × 320 in [\d.]+ ms/);
});

test("a model is drawn with all its nodes, in the colours of what runs them", async () => {
  const file = join(data, "models/basic_pitch/model.onnx");
  await choose(file);
  const shown = article("model.onnx");
  // As many nodes as the shared table of models says of it.
  const nodes = 248;
  const kinds = {};
  for (const kind of ["native", "lowered", "host", "unsupported", "unused"]) {
    kinds[kind] = await shown.locator(`.box.${kind}`).count();
  }
  assert.equal(Object.values(kinds).reduce((a, b) => a + b), nodes);
  for (const kind of ["native", "lowered", "host", "unsupported"]) {
    assert.equal(await shown.locator(`.legend [data-kind=${kind}]`).textContent(), `${kinds[kind]} ${kind}`);
  }
  const svg = shown.locator("svg");
  await svg.scrollIntoViewIfNeeded();
  assert.ok((await near(await svg.screenshot(), [169, 223, 180])) > 1000, "boxes of native nodes are seen");
  // A click opens the details of a node.
  await shown.locator(".box.native").first().click();
  const details = await shown.locator(".details").textContent();
  assert.match(details, /operator\w+ of ai\.onnx, opset 15/);
  assert.match(details, /reads/);
  // Keys move on to the next node, and show the whole.
  await svg.press("n");
  assert.notEqual(await shown.locator(".details").textContent(), details);
  await svg.press("0");
  const [, , width] = (await svg.getAttribute("viewBox")).split(" ").map(Number);
  assert.ok(width > 0);
});

test("every hostile model gets a message or a graph, and the page goes on", async () => {
  const folder = join(data, "hostile");
  const files = readdirSync(folder).filter((file) => file.endsWith(".onnx"));
  const list = readFileSync(join(folder, "list.tsv"), "utf8").split("\n").map((line) => line.split("\t"));
  assert.ok(files.length >= 30);
  for (const file of files) {
    await choose(join(folder, file));
    const message = article(file).locator(".wrong");
    const count = await message.count();
    const [, expected] = list.find(([name]) => name === file);
    if (expected === "reject") {
      assert.ok(count > 0 && (await message.textContent()).length > 10, `${file} has a message`);
      assert.doesNotMatch(await message.textContent(), /fresh instance/, `${file} ended no instance`);
    } else {
      const drawn = await article(file).locator("svg").count();
      assert.ok(count + drawn >= 1, `${file} has a message or is drawn`);
    }
  }
  // A node that nothing runs is drawn as such.
  assert.equal(await article("14_unknown_op.onnx").locator(".box.unsupported").count(), 1);
  await choose(join(data, "models/surfaces_gbr/model.onnx"));
  assert.match(await article("model.onnx").locator(".legend").textContent(), /native/);
});

test("an instance that ends, or a task that does not, is replaced", async () => {
  const model = join(data, "models/surfaces_gbr/model.onnx");
  const last = () => article("model.onnx");
  const again = async () => {
    await tab.evaluate(() => document.querySelectorAll("article").forEach((article) => article.remove()));
    await choose(model);
  };
  // No input is known that ends an instance; the tests of the module end one by using up the stack. This says that it ended.
  await tab.workers().at(-1).evaluate(() => {
    bb.inspect = () => {
      throw new BbCrash("the instance ended: a test says so");
    };
  });
  await again();
  assert.match(await last().locator(".wrong").textContent(), /^the instance ended: a test says so; a fresh instance was started$/);
  await again();
  assert.equal(await last().locator("svg").count(), 1);

  await tab.evaluate(() => { document.querySelector("main").dataset.patience = 1500; });
  await tab.workers().at(-1).evaluate(() => { tasks.inspect = () => { for (;;); }; });
  await again();
  assert.match(await last().locator(".wrong").textContent(), /no answer within 1.5 s; a fresh instance was started/);
  await tab.evaluate(() => { document.querySelector("main").dataset.patience = 60000; });
  await again();
  assert.equal(await last().locator("svg").count(), 1);
  for (let tries = 0; tab.workers().length > 1 && tries < 100; tries++) await tab.waitForTimeout(100);
  assert.equal(tab.workers().length, 1, "the worker that did not answer is gone");
});

/** Sends a message with the key Enter, and waits for the end of the answer. Returns the conversation. */
async function said(chat, text) {
  await chat.locator("textarea").fill(text);
  await chat.locator("textarea").press("Enter");
  await chat.locator("button", { hasText: "Send" }).waitFor(patience);
  return chat.locator(".log .text").allTextContents();
}

test("a language model answers as the native library does, on and on, until it is stopped", async () => {
  const runs = JSON.parse(readFileSync(join(out, "language/runs.json")));
  const page = runs.find(({ page }) => page);
  await dropped(join(out, "language/f32.gguf"));
  const chat = article("f32.gguf");
  assert.match(await chat.textContent(), /Language model, for at most 200 tokens/);
  await chat.locator("input[name=temperature]").fill("0");
  await chat.locator("input[name=longest]").fill(String(page.options.maxTokens));
  const [question, answer] = await said(chat, page.from[0].content);
  assert.equal(question, page.from[0].content);
  assert.equal(answer, page.text);
  const times = () => chat.locator(".times").last().textContent();
  assert.match(await times(), new RegExp(`^${page.prompt} tokens read in [\\d.]+ ms; ${page.pieces.length} tokens, [\\d.]+ tokens per second${page.end === "length" ? "; the longest answer was reached" : ""}$`));
  assert.equal((await said(chat, "And now?")).length, 4, "the conversation goes on");

  // Text that looks like a tag is text.
  await chat.locator("button", { hasText: "New conversation" }).click();
  const [markup] = await said(chat, "<img src=x>");
  assert.equal(markup, "<img src=x>");
  assert.equal(await chat.locator("img").count(), 0);

  // A conversation that is too long says so, and the message can be sent again.
  await said(chat, "x".repeat(300));
  assert.match(await chat.locator(".wrong").last().textContent(), /^the sequence would have \d+ tokens, expected at most 200$/);
  assert.equal(await chat.locator("textarea").inputValue(), "x".repeat(300));
  await chat.locator("button", { hasText: "New conversation" }).click();
  assert.equal(await chat.locator(".log p").count(), 0);
  assert.equal(await tab.evaluate(() => document.activeElement.name), "message");

  // An answer that takes long is stopped by a key; the next one comes.
  await chat.locator("input[name=longest]").fill("180");
  const worker = tab.workers().at(-1);
  await worker.evaluate(() => {
    const { next } = tasks;
    tasks.next = async (given) => {
      await new Promise((go) => setTimeout(go, 50));
      return next(given);
    };
  });
  await chat.locator("textarea").fill("Hello");
  await chat.locator("textarea").press("Enter");
  const stop = chat.locator("button", { hasText: "Stop" });
  await stop.waitFor(patience);
  assert.equal(await chat.locator(".log").getAttribute("aria-busy"), "true");
  await tab.waitForFunction(() => / tokens per second/.test([...document.querySelectorAll("article[data-file='f32.gguf'] .times")].at(-1).textContent), null, patience);
  await chat.locator("textarea").press("Escape");
  await chat.locator("button", { hasText: "Send" }).waitFor(patience);
  assert.match(await times(), /; stopped$/);
  await chat.locator("textarea").fill("Hello");
  await chat.locator("textarea").press("Enter");
  await stop.click();
  await chat.locator("button", { hasText: "Send" }).waitFor(patience);
  assert.match(await times(), /; stopped$/);

  // A worker that ended is replaced, and the model opened again.
  await worker.evaluate(() => { tasks.next = () => { throw new BbCrash("the instance ended: a test says so"); }; });
  await said(chat, "Hello");
  assert.match(await chat.locator(".wrong").last().textContent(), /a test says so; a fresh instance was started$/);
  await chat.locator("button", { hasText: "New conversation" }).click();
  await chat.locator("input[name=longest]").fill(String(page.options.maxTokens));
  assert.equal((await said(chat, page.from[0].content))[1], page.text);
});

test("files that are no language models get a message", async () => {
  const before = tab.workers().length;
  const refused = JSON.parse(readFileSync(join(out, "language/refused.json")));
  for (const { file, message } of refused.slice(-6)) {
    await choose(join(out, "language", file));
    assert.ok((await article(file).locator(".wrong").textContent()).startsWith(message), file);
  }
  for (let tries = 0; tab.workers().length > before && tries < 100; tries++) await tab.waitForTimeout(100);
  assert.equal(tab.workers().length, before, "their workers are gone");
});

test("the keyboard reaches the field, and nothing went wrong", async () => {
  await tab.evaluate(() => document.activeElement.blur());
  await tab.keyboard.press("Tab");
  assert.equal(await tab.evaluate(() => document.activeElement.id), "files");
  await tab.evaluate(() => document.querySelectorAll("article").forEach((article) => article.remove()));
  await choose(join(out, "language/f32.gguf"));
  const reached = [];
  for (let count = 0; count < 6; count++) {
    await tab.keyboard.press("Tab");
    reached.push(await tab.evaluate(() => document.activeElement.getAttribute("role") ?? (document.activeElement.name || document.activeElement.textContent)));
  }
  assert.deepEqual(reached, ["log", "message", "Send", "New conversation", "temperature", "longest"]);
  assert.deepEqual(problems, []);
});

test("a picture of the page", { skip: !process.env.BB_SCREENSHOT && "BB_SCREENSHOT is not set" }, async () => {
  await tab.evaluate(() => document.querySelectorAll("article").forEach((article) => article.remove()));
  await tab.setViewportSize({ width: 900, height: 800 });
  await choose(join(data, "models/skl_ovo/model.onnx"));
  await tab.locator("svg").evaluate((svg) => { svg.style.height = "22rem"; });
  await tab.locator(".box.lowered").first().click();
  await choose(fileURLToPath(new URL("lines.png", import.meta.url)), ...["rust.rs", "sqlite.db"].map((file) => join(data, "file-types", file)));
  await tab.screenshot({ path: process.env.BB_SCREENSHOT, fullPage: true });
});
