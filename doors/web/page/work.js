// The parts of the page, and its workers.

/** A task that takes longer than so many milliseconds is ended, with the worker. */
const patience = () => Number(document.querySelector("main").dataset.patience);

/** Decodes a part of the page. */
export async function part(name) {
  const holder = document.getElementById(`part-${name}`);
  if (!holder) return null;
  const text = atob(holder.textContent.trim());
  holder.textContent = "";
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** The worker, and the tasks that it has not answered. A worker that hangs or whose instance ended is replaced. */
export class Work {
  #parts;
  #worker = null;
  #waiting = new Map();
  #last = 0;

  constructor(parts) {
    this.#parts = parts;
  }

  async start() {
    const address = URL.createObjectURL(new Blob([document.getElementById("part-worker").textContent], { type: "text/javascript" }));
    this.#worker = new Worker(address);
    this.#worker.onmessage = ({ data: { id, ok, error } }) => {
      const waiting = this.#waiting.get(id);
      if (!waiting) return;
      this.#waiting.delete(id);
      clearTimeout(waiting.timer);
      if (error) waiting.no(Object.assign(new Error(error.message), error));
      else waiting.yes(ok);
    };
    this.#worker.onerror = (event) => this.#end(new Error(event.message || "the worker ended"));
    return this.#ask("start", this.#parts);
  }

  #ask(task, given) {
    return new Promise((yes, no) => {
      const [id, most] = [++this.#last, patience()];
      const timer = setTimeout(() => {
        this.#end(Object.assign(new Error(`no answer within ${most / 1000} s`), { ended: true }));
      }, most);
      this.#waiting.set(id, { yes, no, timer });
      this.#worker.postMessage({ id, task, given });
    });
  }

  #end(error) {
    this.#worker?.terminate();
    this.#worker = null;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    waiting.forEach(({ no, timer }) => {
      clearTimeout(timer);
      no(error);
    });
  }

  /** Ends the worker. */
  end() {
    this.#end(new Error("the worker was ended"));
  }

  /** Asks for a task. If it ends the instance, another worker is started, and the error says so. */
  async ask(task, given) {
    if (!this.#worker) await this.start();
    try {
      return await this.#ask(task, given);
    } catch (error) {
      if (error.ended) {
        this.#end(error);
        await this.start();
        error.message += "; a fresh instance was started";
      }
      throw error;
    }
  }
}
