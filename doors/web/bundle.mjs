// Puts the page, the modules and the models into one file: node bundle.mjs OUT WASM GENERATE_WASM MODEL CONFIG [DETECTOR]

import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const [out, wasm, generate, magika, config, detector] = process.argv.slice(2);
const here = (name) => readFileSync(new URL(name, import.meta.url), "utf8");

/** Joins scripts into one, in which each finds the others' names. It is no module: Chromium starts no module as a worker of a file. */
function joined(...names) {
  const texts = names.map((name) => here(name).replace(/^import .*$/gm, "").replace(/^export /gm, "").replaceAll("import.meta.url", "location.href"));
  return texts.join("\n").replace(/<\/script/g, "<\\/script");
}

const parts = { wasm, generate, magika, config, detector };
const holders = Object.entries(parts).filter(([, file]) => file).map(([name, file]) => {
  const packed = gzipSync(readFileSync(file), { level: 9 }).toString("base64");
  return `<script type="text/plain" id="part-${name}">${packed}</script>`;
});
holders.push(`<script type="text/plain" id="part-worker">${joined("bb.js", "page/detector.js", "page/worker.js")}</script>`);

const fill = {
  "/* {{style}} */": here("page/style.css"),
  "<!-- {{parts}} -->": holders.join("\n"),
  "/* {{page}} */": joined("page/graph.js", "page/elements.js", "page/work.js", "page/chat.js", "page/page.js"),
};
let page = here("page/index.html");
for (const [mark, text] of Object.entries(fill)) {
  page = page.replace(mark, () => text);
}
writeFileSync(out, page);
