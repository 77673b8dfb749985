// Sessions in a worker, so that no call blocks the page: `start` gives what `load` of `bb.js` gives, and each call is a promise.
//
//   import { start } from "./bb-worker.js";
//   const bb = await start();
//   const session = await bb.open("model.onnx");
//   const { y } = await session.run({ x: { shape: [1, 2], data: new Float32Array([1, 2]) } }, { timeout: 1000 });
//
// The worker runs this file, too.

import { BbCrash, BbError, load, refuseFailure } from "./bb.js";

export { generating } from "./bb.js";

/** The name of a worker that this file starts. */
const NAME = "bb-worker";
const inNode = globalThis.process?.versions?.node !== undefined;
const threads = inNode ? await import("node:worker_threads") : null;

/** A worker, and the calls that it has not answered. */
class Remote {
  #source;
  #worker = null;
  #waiting = new Map();
  #last = 0;
  #ended = null;

  constructor(source) {
    this.#source = source;
  }

  get alive() {
    return this.#worker !== null;
  }

  /** Starts the worker and the module in it. */
  async begin() {
    this.#ended = null;
    const address = new URL(import.meta.url);
    const worker = inNode ? new threads.Worker(address, { workerData: NAME, name: NAME, execArgv: [] }) : new Worker(address, { type: "module", name: NAME });
    this.#worker = worker;
    const answer = ({ id, ok, error }) => {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error) waiting?.reject(remade(error));
      else waiting?.resolve(ok);
    };
    if (inNode) {
      worker.on("message", answer);
      worker.on("error", (error) => this.end(error.message, worker));
      worker.on("exit", () => this.end("the worker ended", worker));
    } else {
      worker.onmessage = ({ data }) => answer(data);
      worker.onerror = (event) => this.end(event.message || "the worker ended", worker);
      worker.onmessageerror = () => this.end("a message of the worker cannot be read", worker);
    }
    try {
      return await this.call("start", [this.#source]);
    } catch (error) {
      this.end(error.message);
      throw error;
    }
  }

  /** Ends the worker. All calls that it has not answered fail. */
  end(why, worker = this.#worker) {
    if (worker === null || worker !== this.#worker) return;
    this.#worker = null;
    this.#ended = why;
    worker.terminate();
    for (const { reject } of this.#waiting.values()) {
      reject(new BbCrash(`the worker ended: ${why}`));
    }
    this.#waiting.clear();
  }

  /** Calls a function of the worker. A timeout counts milliseconds; what takes longer ends the worker. */
  call(name, values, { timeout, transfer = [] } = {}) {
    if (this.#worker === null) {
      const why = this.#ended ?? "it was not started";
      return Promise.reject(new BbCrash(`the worker has ended (${why}): \`await bb.restart()\` starts another`));
    }
    return new Promise((resolve, reject) => {
      const id = ++this.#last;
      let timer;
      const then = (f) => (value) => {
        clearTimeout(timer);
        f(value);
      };
      this.#waiting.set(id, { resolve: then(resolve), reject: then(reject) });
      if (timeout !== undefined) {
        timer = setTimeout(() => this.end(`\`${name}\` took longer than ${timeout} ms`), timeout);
      }
      try {
        this.#worker.postMessage({ id, name, values }, transfer);
      } catch (error) {
        this.#waiting.delete(id);
        then(reject)(new BbError({ kind: "wrong-input", message: `the worker cannot be sent this: ${error.message}` }));
      }
    });
  }
}

/** The module in a worker. `start` makes it. */
class Bb {
  #remote;

  constructor(remote, { backends }) {
    this.#remote = remote;
    this.backends = backends;
  }

  get alive() {
    return this.#remote.alive;
  }

  async restart() {
    this.#remote.end("it was started anew");
    await this.#remote.begin();
  }

  terminate() {
    this.#remote.end("it was terminated");
  }

  async session(model, options, call) {
    return new Session(this.#remote, await this.#remote.call("session", [model, options], call));
  }

  async open(source, options, call) {
    return new Session(this.#remote, await this.#remote.call("open", [await sendable(source), options], call));
  }

  async generator(source, options, call) {
    return new Generator(this.#remote, await this.#remote.call("generator", [await sendable(source), options], call));
  }

  inspect(model, options, call) {
    return this.#remote.call("inspect", [model, options], call);
  }
}

/** What a message can carry of a source. */
async function sendable(source) {
  if (source instanceof Response) {
    refuseFailure(source);
    return source.arrayBuffer();
  }
  if (source instanceof URL) {
    return source.href;
  }
  // The worker's own address is another one.
  return typeof source === "string" && globalThis.location ? new URL(source, globalThis.location.href).href : source;
}

/** A model that is ready to run, in the worker. */
class Session {
  #remote;
  #number;

  constructor(remote, { number, inputs, outputs, warnings }) {
    this.#remote = remote;
    this.#number = number;
    Object.assign(this, { inputs, outputs, warnings });
  }

  run(feeds, call) {
    return this.#remote.call("run", [this.#number, feeds], call);
  }

  coverage() {
    return this.#remote.call("coverage", [this.#number]);
  }

  graph() {
    return this.#remote.call("graph", [this.#number]);
  }

  async free() {
    if (this.#remote.alive) await this.#remote.call("free", [this.#number]);
  }
}

/** A language model, in the worker. */
class Generator {
  #remote;
  #number;

  constructor(remote, { number, ...fields }) {
    this.#remote = remote;
    this.#number = number;
    Object.assign(this, fields);
  }

  /** Each part is a call, so that the worker answers other calls between two parts. */
  async *generate(from, options, call) {
    const { generation } = await this.#remote.call("begin", [this.#number, from, options], call);
    const next = () => this.#remote.call("next", [this.#number, generation], call);
    try {
      for (let part = await next(); part !== null; part = await next()) {
        if (part.read === undefined) yield part;
      }
    } finally {
      if (this.#remote.alive) await this.#remote.call("stop", [this.#number, generation]);
    }
  }

  async free() {
    if (this.#remote.alive) await this.#remote.call("freeGenerator", [this.#number]);
  }
}

/** Starts a worker with the module: from its bytes, an address, or the file `bb.wasm` beside this one. */
export async function start(source = new URL("bb.wasm", import.meta.url)) {
  const remote = new Remote(source instanceof URL ? source.href : source);
  return new Bb(remote, await remote.begin());
}

/** Makes an error again that came as a message. */
function remade({ name, message, ...fields }) {
  return name === "BbError" ? new BbError({ message, ...fields }) : name === "BbCrash" ? new BbCrash(message) : new Error(message);
}

/** Answers the calls, in the worker. */
function serve(post) {
  let bb;
  let last = 0;
  const sessions = new Map();
  const generators = new Map();
  const keep = (session) => {
    sessions.set(++last, session);
    return { number: last, inputs: session.inputs, outputs: session.outputs, warnings: session.warnings };
  };
  const of = (number) => {
    const session = sessions.get(number);
    if (!session) throw new BbError({ kind: "wrong-input", message: "the session was freed" });
    return session;
  };
  const generatorOf = (number) => {
    const generator = generators.get(number);
    if (!generator) throw new BbError({ kind: "wrong-input", message: "the language model was freed" });
    return generator;
  };
  const calls = {
    start: async (source) => {
      bb = await load(source);
      return { backends: bb.backends };
    },
    session: (model, options) => keep(bb.session(model, options)),
    open: async (source, options) => keep(await bb.open(source, options)),
    inspect: (model, options) => bb.inspect(model, options),
    run: (number, feeds) => of(number).run(feeds),
    coverage: (number) => of(number).coverage(),
    graph: (number) => of(number).graph(),
    free: (number) => {
      of(number).free();
      sessions.delete(number);
    },
    generator: async (source, options) => {
      const generator = await bb.generator(source, options);
      generators.set(++last, generator);
      return { number: last, context: generator.context, vocabulary: generator.vocabulary, chats: generator.chats };
    },
    begin: (number, from, options) => generatorOf(number).begin(from, options),
    next: (number, generation) => generatorOf(number).next(generation),
    stop: (number, generation) => generators.get(number)?.stop(generation),
    freeGenerator: (number) => {
      generatorOf(number).free();
      generators.delete(number);
    },
  };
  return async ({ id, name, values }) => {
    try {
      const ok = await calls[name](...values);
      post({ id, ok }, name === "run" ? memory(ok) : []);
    } catch (error) {
      const { name, kind, message, causes, node, operator, domain, input } = error;
      post({ id, error: { name, kind, message, causes, node, operator, domain, input } }, []);
    }
  };
}

/** The memory of results, which are the worker's no longer once they are sent. */
function memory(results) {
  const found = new Set();
  const walk = (value) => {
    if (ArrayBuffer.isView(value)) found.add(value.buffer);
    else if (value && typeof value === "object") Object.values(value).forEach(walk);
  };
  walk(results);
  return [...found];
}

if (inNode && !threads.isMainThread && threads.workerData === NAME) {
  threads.parentPort.on("message", serve((message, transfer) => threads.parentPort.postMessage(message, transfer)));
} else if (typeof WorkerGlobalScope !== "undefined" && globalThis instanceof WorkerGlobalScope && globalThis.name === NAME) {
  const answer = serve((message, transfer) => globalThis.postMessage(message, transfer));
  globalThis.onmessage = ({ data }) => answer(data);
}
