// The work of the page, off its thread: a model that computes for long leaves the page usable, and the page can end it.

import { BbCrash, load } from "../bb.js";
import { boxes, extents, planes } from "./detector.js";

let bb, types, magika, detector, generator, parts;

const now = () => performance.now();

/** Runs a function and returns its result with the time that it took. */
async function timed(f) {
  const begun = now();
  const result = await f();
  return [result, now() - begun];
}

const tasks = {
  /** Starts the module and opens the model for file types, where there is one. */
  async start(given) {
    parts = given;
    let loadTime, openTime;
    [bb, loadTime] = await timed(() => load(parts.wasm));
    if (!parts.magika) return { loadTime };
    [magika, openTime] = await timed(() => bb.session(parts.magika));
    types = bb.fileTypes(magika, parts.config);
    return { backends: bb.backends, loadTime, openTime };
  },

  async identify({ file }) {
    const [guess, time] = await timed(() => types.identify(file));
    return { ...guess, time };
  },

  /** Finds lines of text in a picture. */
  async detect({ file }) {
    if (!parts.detector) {
      throw new Error("this page was built without the detector");
    }
    let openTime = null;
    if (!detector) {
      [detector, openTime] = await timed(() => bb.session(parts.detector));
    }
    const picture = await createImageBitmap(file);
    const [width, height] = extents(picture.width, picture.height);
    const context = new OffscreenCanvas(width, height).getContext("2d");
    // Transparent places are white, as a page shows them.
    context.fillStyle = "white";
    context.fillRect(0, 0, width, height);
    context.drawImage(picture, 0, 0, width, height);
    const input = planes(context.getImageData(0, 0, width, height));
    const feeds = { [detector.inputs[0].name]: { shape: [1, 3, height, width], data: input } };
    const [outputs, time] = await timed(() => detector.run(feeds));
    const map = outputs[detector.outputs[0].name].data;
    const [sx, sy] = [picture.width / width, picture.height / height];
    const found = boxes(map, width, height).map((box) => ({
      left: box.left * sx, right: box.right * sx, top: box.top * sy, bottom: box.bottom * sy, score: box.score,
    }));
    return { boxes: found, width: picture.width, height: picture.height, seen: [width, height], openTime, time };
  },

  /** Describes a model, and tries whether it can run. */
  async inspect({ file }) {
    const bytes = await file.arrayBuffer();
    const [described, time] = await timed(() => bb.inspect(bytes));
    let [openTime, refused] = [null, null];
    try {
      const [session, time] = await timed(() => bb.session(bytes));
      session.free();
      openTime = time;
    } catch (error) {
      if (error instanceof BbCrash) throw error;
      refused = plain(error);
    }
    return { ...described, time, openTime, refused };
  },

  /** Opens a language model in the place of the one before. */
  async openModel({ file }) {
    generator?.free();
    generator = null;
    let time;
    [generator, time] = await timed(() => bb.generator(file));
    const { context, chats } = generator;
    return { context, chats, time };
  },

  begin({ from, options }) {
    return generator.begin(from, options);
  },

  next({ generation }) {
    return generator.next(generation);
  },

  stop({ generation }) {
    generator.stop(generation);
  },
};

/** What the page needs of an error. */
function plain(error) {
  const { message, node = null, operator = null, input = null } = error;
  return { message, node, operator, input, ended: error instanceof BbCrash };
}

onmessage = async ({ data: { id, task, given } }) => {
  try {
    postMessage({ id, ok: await tasks[task](given) });
  } catch (error) {
    postMessage({ id, error: plain(error) });
  }
};
