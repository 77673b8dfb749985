// Starts Chromium, and a server on this machine for what pages may not read from files.

import { execFileSync } from "node:child_process";
import { createReadStream } from "node:fs";
import { createServer } from "node:http";
import { chromium } from "playwright-core";

/** Finds Chromium; `CHROMIUM` names another. */
function executable() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  return execFileSync("sh", ["-c", "command -v chromium || command -v chromium-browser || command -v google-chrome"], { encoding: "utf8" }).trim();
}

/** Starts Chromium without a window. */
export function browser() {
  // Chromium's sandbox refuses to run as root, as in containers; nothing but this repository's pages is opened.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: executable(), args });
}

const KINDS = { html: "text/html", js: "text/javascript", mjs: "text/javascript", wasm: "application/wasm" };

/** Serves files on this machine: addresses are the keys of `files`, or begin with those of `folders`. */
export async function serve(files, folders = {}) {
  const server = createServer((request, response) => {
    // An isolated page has a clock of microseconds instead of tenths of milliseconds.
    response.setHeader("cross-origin-opener-policy", "same-origin");
    response.setHeader("cross-origin-embedder-policy", "require-corp");
    const path = new URL(request.url, "http://localhost").pathname;
    const folder = Object.keys(folders).find((prefix) => path.startsWith(prefix));
    // Addresses come from these tests alone.
    const file = files[path] ?? (folder && folders[folder] + path.slice(folder.length));
    if (typeof file === "object") {
      response.writeHead(200, { "content-type": "text/html" }).end(file.text);
      return;
    }
    if (!file) {
      response.writeHead(404).end();
      return;
    }
    const stream = createReadStream(file);
    stream.on("open", () => response.writeHead(200, { "content-type": KINDS[file.split(".").pop()] ?? "application/octet-stream" }));
    stream.on("error", () => response.writeHead(404).end());
    stream.pipe(response);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { address: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}
