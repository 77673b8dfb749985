// ONNX models in the browser: sessions of the WebAssembly module `bb.wasm`. The types are in `bb.d.ts`.
//
//   import { load } from "./bb.js";
//   const bb = await load();
//   const session = bb.session(bytes, { dims: { batch: 1 } });
//   const { y } = session.run({ x: { shape: [1, 2], data: new Float32Array([1, 2]) } });
//   session.free();
//
// `start` of `bb-worker.js` gives the same in a worker, so that no call blocks the page.

/** What a model or a call fails with. */
export class BbError extends Error {
  constructor({ kind, message, causes = [], node = null, operator = null, domain = null, input = null }) {
    super(message);
    this.name = "BbError";
    Object.assign(this, { kind, causes, node, operator, domain, input });
  }
}

/** The instance has ended, and its sessions with it: `await bb.restart()` starts another. */
export class BbCrash extends Error {
  constructor(message, cause) {
    super(message, { cause });
    this.name = "BbCrash";
  }
}

/** The arrays of element types. Two-byte floats are given as their bits; other types as the bytes that ONNX packs them into. */
const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, bfloat16: Uint16Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array, bool: Uint8Array,
};

/** The element types of arrays for which no type is named. */
const TYPES = new Map([
  [Float32Array, "float32"], [Float64Array, "float64"], [Int8Array, "int8"], [Int16Array, "int16"],
  [Int32Array, "int32"], [BigInt64Array, "int64"], [Uint8Array, "uint8"], [Uint8ClampedArray, "uint8"],
  [Uint16Array, "uint16"], [Uint32Array, "uint32"], [BigUint64Array, "uint64"],
]);

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A running WebAssembly module. */
class Instance {
  #calls;
  #ended = null;

  constructor(instance) {
    this.#calls = instance.exports;
    this.call("bb_start");
    if (this.has("bb_seed")) {
      this.call("bb_seed", ...globalThis.crypto.getRandomValues(new Uint32Array(2)));
    }
  }

  /** Whether the module exports a function of this name. */
  has(name) {
    return name in this.#calls;
  }

  get alive() {
    return this.#ended === null;
  }

  /** Calls an exported function. Whatever it throws ends the instance, because nothing in it was unwound. */
  call(name, ...values) {
    if (this.#ended) {
      const why = this.#ended.message;
      throw new BbCrash(`the instance has ended (${why}): \`await bb.restart()\` starts another`, this.#ended);
    }
    try {
      return this.#calls[name](...values) >>> 0;
    } catch (error) {
      this.#ended = error;
      throw new BbCrash(`the instance ended: ${this.#lastWords() || error.message}`, error);
    }
  }

  /** The message of a panic, if the instance can still say it. */
  #lastWords() {
    try {
      return decoder.decode(this.#bytes(this.#calls.bb_panic() >>> 0).slice());
    } catch {
      return "";
    }
  }

  /** A view of a buffer, until the next call. */
  #bytes(buffer) {
    const address = this.#calls.bb_address(buffer) >>> 0;
    return new Uint8Array(this.#calls.memory.buffer, address, this.#calls.bb_length(buffer) >>> 0);
  }

  /** Copies bytes into a buffer of the instance. */
  give(bytes) {
    const buffer = this.call("bb_buffer", bytes.byteLength);
    if (buffer === 0) {
      throw new BbError({ kind: "limit", message: `there is no memory for ${bytes.byteLength} bytes` });
    }
    this.#bytes(buffer).set(bytes);
    return buffer;
  }

  /** Fills a buffer of the instance from a stream, as its parts come, so that the whole lies nowhere else. */
  async giveStream(stream, length) {
    const buffer = this.call("bb_buffer", length);
    if (buffer === 0) {
      throw new BbError({ kind: "limit", message: `there is no memory for ${length} bytes` });
    }
    try {
      let at = 0;
      for (const reader = stream.getReader(); ; ) {
        const { done, value } = await reader.read();
        if (done) break;
        if (at + value.byteLength > length) {
          await reader.cancel();
          throw new BbError({ kind: "device", message: `more than the ${length} bytes came that were announced` });
        }
        this.#bytes(buffer).set(value, at);
        at += value.byteLength;
      }
      if (at !== length) {
        throw new BbError({ kind: "device", message: `${at} bytes came of the ${length} that were announced` });
      }
      return buffer;
    } catch (error) {
      if (this.alive) this.call("bb_drop", buffer);
      throw error;
    }
  }

  giveJson(value) {
    return this.give(encoder.encode(JSON.stringify(value)));
  }

  /** Copies a buffer out of the instance, and drops it. */
  take(buffer) {
    const bytes = this.#bytes(buffer).slice();
    this.call("bb_drop", buffer);
    return bytes;
  }

  /** Calls a function that answers in JSON. */
  ask(name, ...values) {
    const answer = JSON.parse(decoder.decode(this.take(this.call(name, ...values))));
    if (answer.error) {
      throw new BbError(answer.error);
    }
    return answer.ok;
  }
}

/** The module, and the instance of it that runs. `load` makes it. */
class Bb {
  #module;
  #instance;

  constructor(module, instance) {
    this.#module = module;
    this.#instance = instance;
  }

  get alive() {
    return this.#instance.alive;
  }

  get backends() {
    return this.#instance.ask("bb_backends");
  }

  async restart() {
    this.#instance = new Instance(await WebAssembly.instantiate(this.#module));
  }

  session(model, options) {
    return new Session(this.#instance, this.#ask("bb_open", this.#give(model, options), options));
  }

  inspect(model, options) {
    return this.#ask("bb_inspect", this.#give(model, options), options);
  }

  async open(source, options) {
    const instance = this.#instance;
    const buffers = { model: 0, files: {} };
    try {
      buffers.model = await giveSource(instance, source);
      for (const [location, data] of Object.entries(options?.externalData ?? {})) {
        buffers.files[location] = await giveSource(instance, data);
      }
    } catch (error) {
      dropBuffers(instance, buffers);
      throw error;
    }
    // A module that was started anew meanwhile does not have the buffers.
    if (instance !== this.#instance) {
      throw new BbCrash("the instance was replaced while the model came");
    }
    return new Session(instance, this.#ask("bb_open", buffers, options));
  }

  /** Copies a model and its external data into buffers. */
  #give(model, options) {
    const instance = this.#instance;
    const buffers = { model: 0, files: {} };
    try {
      buffers.model = instance.give(asBytes(model));
      for (const [location, data] of Object.entries(options?.externalData ?? {})) {
        buffers.files[location] = instance.give(asBytes(data));
      }
    } catch (error) {
      dropBuffers(instance, buffers);
      throw error;
    }
    return buffers;
  }

  /** Asks about a model that is in buffers. */
  #ask(call, { model, files }, { dims = {}, limits = {} } = {}) {
    return this.#instance.ask(call, model, this.#instance.giveJson({ dims, limits, files }));
  }

  async generator(source, { context = null } = {}) {
    const instance = this.#instance;
    if (!instance.has("bb_generator")) {
      const message = "this module does not generate text: load `bb-generate.wasm`, as `await load(generating())` does";
      throw new BbError({ kind: "configuration", message });
    }
    const model = await giveSource(instance, source);
    if (instance !== this.#instance) {
      throw new BbCrash("the instance was replaced while the model came");
    }
    return new Generator(instance, instance.ask("bb_generator", model, instance.giveJson({ context })));
  }

  fileTypes(session, config) {
    return new FileTypes(this.#instance, session, config);
  }
}

/** A model that is ready to run. */
class Session {
  #instance;
  #number;

  constructor(instance, { session, model }) {
    this.#instance = instance;
    this.#number = session;
    this.inputs = model.inputs;
    this.outputs = model.outputs;
    this.warnings = model.warnings;
  }

  run(feeds) {
    const inputs = [];
    try {
      for (const [name, value] of Object.entries(feeds)) {
        inputs.push(this.#input(name, value));
      }
    } catch (error) {
      inputs.forEach(({ data }) => this.#instance.alive && this.#instance.call("bb_drop", data));
      throw error;
    }
    const { outputs } = this.#instance.ask("bb_run", this.#number, this.#instance.giveJson({ inputs }));
    return Object.fromEntries(outputs.map((output) => [output.name, this.#output(output)]));
  }

  coverage() {
    return this.#instance.ask("bb_coverage", this.#number);
  }

  graph() {
    return this.#instance.ask("bb_graph", this.#number);
  }

  free() {
    if (this.#instance.alive) {
      this.#instance.call("bb_close", this.#number);
    }
    // The number may be given to another session; no session has the number 0.
    this.#number = 0;
  }

  /** The number of the session in its instance. */
  get number() {
    return this.#number;
  }

  #input(name, { type, shape, data }) {
    type ??= Array.isArray(data) ? (typeof data[0] === "boolean" ? "bool" : "string") : TYPES.get(data?.constructor);
    if (type === "string") {
      return { name, type, shape, strings: Array.from(data, String) };
    }
    if (type === "bool" && Array.isArray(data)) {
      data = Uint8Array.from(data, Number);
    }
    if (!type || !ArrayBuffer.isView(data)) {
      const message = `input \`${name}\` has no typed array as \`data\``;
      throw new BbError({ kind: "wrong-input", message, input: name });
    }
    const array = ARRAYS[type];
    if (array && array.BYTES_PER_ELEMENT !== (data.BYTES_PER_ELEMENT ?? 1)) {
      const message = `input \`${name}\` of ${type} has a \`${data.constructor.name}\` as \`data\`; expected \`${array.name}\``;
      throw new BbError({ kind: "wrong-input", message, input: name });
    }
    return { name, type, shape: Array.from(shape), data: this.#instance.give(asBytes(data)) };
  }

  #output({ type, shape, data, strings, items, keys, values }) {
    if (type === "sequence") {
      return { type, items: items.map((item) => this.#output(item)) };
    }
    if (type === "map") {
      return { type, keys: this.#output(keys), values: this.#output(values) };
    }
    if (type === "absent") {
      return { type };
    }
    if (strings) {
      return { type, shape, data: strings };
    }
    const bytes = this.#instance.take(data);
    const array = ARRAYS[type];
    return { type, shape, data: array && array !== Uint8Array ? new array(bytes.buffer) : bytes };
  }
}

/** A language model. It has one sequence, whose caches the next prompt uses as far as both agree. */
class Generator {
  #instance;
  #number;

  constructor(instance, { number, model }) {
    this.#instance = instance;
    this.#number = number;
    Object.assign(this, model);
  }

  /** Begins a generation; returns its number, and how many tokens the prompt has. */
  begin(from, { seed, ...options } = {}) {
    const given = typeof from === "string" ? { prompt: from } : { messages: Array.from(from) };
    seed ??= globalThis.crypto.getRandomValues(new Uint32Array(1))[0];
    const now = Math.floor(Date.now() / 1000);
    return this.#instance.ask("bb_generate", this.#number, this.#instance.giveJson({ ...options, ...given, seed, now }));
  }

  /** Does the next part of a generation: it reads a part of the prompt, or makes a piece. The result is null at the end. */
  next(generation) {
    return this.#instance.ask("bb_generate_next", this.#number, generation);
  }

  stop(generation) {
    if (this.#instance.alive && this.#number !== 0) {
      this.#instance.ask("bb_generate_stop", this.#number, generation);
    }
  }

  *generate(from, options) {
    const { generation } = this.begin(from, options);
    try {
      for (let part = this.next(generation); part !== null; part = this.next(generation)) {
        if (part.read === undefined) yield part;
      }
    } finally {
      this.stop(generation);
    }
  }

  free() {
    if (this.#instance.alive) {
      this.#instance.call("bb_generator_close", this.#number);
    }
    // No language model has the number 0.
    this.#number = 0;
  }
}

/** Identifies the types of files, with a session of Magika's model. */
class FileTypes {
  #instance;
  #session;
  #block;

  constructor(instance, session, config) {
    this.#instance = instance;
    this.#session = session;
    this.#block = instance.ask("bb_magika", instance.give(encoder.encode(config))).block_size;
  }

  /** Guesses the type of a `Blob`; it reads the first and the last block of it. */
  async identify(file) {
    const read = async (part) => new Uint8Array(await part.arrayBuffer());
    const first = await read(file.slice(0, this.#block));
    const last = await read(file.slice(Math.max(0, file.size - this.#block)));
    return this.#instance.ask(
      "bb_identify", this.#session.number, this.#instance.give(first), this.#instance.give(last),
    );
  }
}

function asBytes(data) {
  if (data instanceof ArrayBuffer) {
    return new Uint8Array(data);
  }
  if (ArrayBuffer.isView(data)) {
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  }
  throw new BbError({ kind: "wrong-input", message: "expected an ArrayBuffer or a typed array" });
}

/** Drops the buffers of a model. The number 0 is no buffer's. */
function dropBuffers(instance, { model, files }) {
  if (instance.alive) {
    [model, ...Object.values(files)].forEach((buffer) => instance.call("bb_drop", buffer));
  }
}

/** Copies what an address, a response, a blob or bytes hold into a buffer of the instance. */
async function giveSource(instance, source) {
  if (isAddress(source) && !isFile(source)) {
    source = await fetched(source);
  }
  if (source instanceof Response) {
    refuseFailure(source);
    // What was compressed on its way has another length than is announced.
    const length = source.headers.get("content-encoding") ? null : source.headers.get("content-length");
    if (length !== null && source.body) {
      return instance.giveStream(source.body, Number(length));
    }
    return instance.give(new Uint8Array(await source.arrayBuffer()));
  }
  if (source instanceof Blob) {
    return instance.giveStream(source.stream(), source.size);
  }
  return instance.give(isFile(source) ? await readFile(source) : asBytes(source));
}

function isAddress(source) {
  return typeof source === "string" || source instanceof URL;
}

/** Whether an address names a file, which `fetch` does not read in Node. */
function isFile(source) {
  return isAddress(source) && String(source).startsWith("file:");
}

async function readFile(address) {
  if (globalThis.process?.versions?.node === undefined) {
    return new Uint8Array(await (await fetched(address)).arrayBuffer());
  }
  const { readFile } = await import("node:fs/promises");
  return readFile(new URL(address));
}

async function fetched(address) {
  let response;
  try {
    response = await fetch(address);
  } catch (cause) {
    throw new BbError({ kind: "device", message: `\`${address}\` cannot be fetched: ${cause.cause?.message ?? cause.message}` });
  }
  refuseFailure(response, address);
  return response;
}

/** A page that says that there is no file is no file. */
export function refuseFailure(response, address = response.url) {
  if (!response.ok) {
    const message = `\`${address}\` cannot be fetched: the server answers ${response.status} ${response.statusText}`.trim();
    throw new BbError({ kind: "configuration", message });
  }
}

/** Compiles the module, while it comes where the server says that it is one. */
async function compiled(source) {
  if (isFile(source)) {
    source = await readFile(source);
  } else if (isAddress(source)) {
    source = await fetched(source);
  }
  if (source instanceof Response) {
    refuseFailure(source);
    const type = source.headers.get("content-type") ?? "";
    if (type.split(";")[0].trim() === "application/wasm" && WebAssembly.compileStreaming) {
      return WebAssembly.compileStreaming(source);
    }
    source = await source.arrayBuffer();
  }
  return source instanceof WebAssembly.Module ? source : WebAssembly.compile(source);
}

/** The address of the module that generates text, beside this file. */
export function generating() {
  return new URL("bb-generate.wasm", import.meta.url);
}

/** Starts the module: from its bytes, a response, an address, or the file `bb.wasm` beside this one. */
export async function load(source = new URL("bb.wasm", import.meta.url)) {
  const module = await compiled(source);
  return new Bb(module, new Instance(await WebAssembly.instantiate(module)));
}
