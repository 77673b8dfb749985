// A chat with a language model: the conversation, a field for the next message, and how fast answers come.

import { bytes, element, failed, ms } from "./elements.js";
import { Work, part } from "./work.js";

/** The module that generates text, once a language model asked for it. */
let generating = null;

/** Whether a file is a language model in the format GGUF, by its name or its first bytes. */
export async function isLanguageModel(file) {
  return /\.gguf$/i.test(file.name) || (await file.slice(0, 4).text()) === "GGUF";
}

/** A field for a number, with its label. */
function number(label, fields) {
  const input = element("input", { type: "number", ...fields });
  return [element("label", {}, label, input), () => Number(input.value)];
}

/** A conversation, and the worker that has the model. */
class Chat {
  #file;
  #work;
  #isOpen = false;
  #chats = true;
  #messages = [];
  /** Whether an answer comes, and whether it is to end. */
  #runs = false;
  #stops = false;

  #log = element("div", { className: "log", tabIndex: 0 });
  #field = element("textarea", { rows: 2, name: "message" });
  #send = element("button", {}, "Send");
  #anew = element("button", { type: "button" }, "New conversation");
  #times = element("p", { className: "quiet times" });
  #temperature;
  #longest;

  constructor(file, wasm) {
    this.#file = file;
    this.#work = new Work({ wasm });
    this.#log.setAttribute("role", "log");
    this.#log.setAttribute("aria-label", `conversation with ${file.name}`);
  }

  /** Opens the model, in a worker of its own. Returns its greatest number of tokens, and how long opening took. */
  async open() {
    const { context, chats, time } = await this.#work.ask("openModel", { file: this.#file });
    [this.#isOpen, this.#chats] = [true, chats];
    return { context, chats, time };
  }

  /** Ends the worker. */
  end() {
    this.#work.end();
  }

  /** Makes the elements of the chat. */
  elements() {
    let temperature, longest;
    [temperature, this.#temperature] = number("Temperature ", { name: "temperature", value: "0.7", min: 0, max: 2, step: 0.1 });
    [longest, this.#longest] = number("Longest answer, in tokens ", { name: "longest", value: "256", min: 1, max: 8192, step: 1 });
    const form = element("form", { className: "chat" },
      element("label", {}, "Message", this.#field),
      element("div", { className: "controls" }, this.#send, this.#anew, temperature, longest));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#runs) this.#stops = true;
      else this.#answer();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.#runs) {
        this.#stops = true;
      } else if (event.key === "Enter" && event.target === this.#field && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        if (!this.#runs) form.requestSubmit();
      }
    });
    this.#anew.addEventListener("click", () => {
      if (this.#runs) return;
      this.#messages = [];
      this.#log.replaceChildren();
      this.#times.textContent = "";
      this.#field.focus();
    });
    return [this.#log, this.#times, form, element("p", { className: "quiet" }, "Keys: Enter sends, Shift and Enter begin a line, Escape stops.")];
  }

  /** Adds a message to the conversation; returns the element with its text. */
  #say(who, text) {
    const holder = element("span", { className: "text" }, text);
    this.#log.append(element("p", { className: who }, element("b", {}, who === "user" ? "You" : "Model"), " ", holder));
    this.#log.scrollTop = this.#log.scrollHeight;
    return holder;
  }

  /** What the field says is sent, and what the model answers is shown as it comes. */
  async #answer() {
    const text = this.#field.value;
    if (!text.trim()) return;
    const before = this.#messages.length;
    this.#messages.push({ role: "user", content: text });
    this.#say("user", text);
    const holder = this.#say("model", "");
    this.#field.value = "";
    [this.#runs, this.#stops] = [true, false];
    this.#send.textContent = "Stop";
    this.#anew.disabled = true;
    // A screen reader says the answer at once, and not token by token.
    this.#log.setAttribute("aria-busy", "true");
    try {
      if (!this.#isOpen) await this.open();
      await this.#generate(holder);
      this.#messages.push({ role: "assistant", content: holder.textContent });
    } catch (error) {
      this.#messages.length = before;
      if (error.ended) this.#isOpen = false;
      if (!holder.textContent) holder.parentElement.remove();
      failed(this.#log, error);
      // The message can be sent again.
      this.#field.value ||= text;
    }
    this.#log.setAttribute("aria-busy", "false");
    this.#runs = false;
    this.#send.textContent = "Send";
    this.#anew.disabled = false;
    this.#log.scrollTop = this.#log.scrollHeight;
  }

  async #generate(holder) {
    const from = this.#chats ? this.#messages : this.#messages.at(-1).content;
    const options = { temperature: this.#temperature(), maxTokens: this.#longest() };
    let begun = performance.now();
    const { generation, prompt } = await this.#work.ask("begin", { from, options });
    let [count, end, read] = [0, null, 0];
    for (;;) {
      if (this.#stops) {
        await this.#work.ask("stop", { generation });
        end = "stopped";
        break;
      }
      const part = await this.#work.ask("next", { generation });
      if (part === null) break;
      if (part.read !== undefined) {
        this.#times.textContent = `read ${part.read} of ${part.of} tokens …`;
        if (part.read === part.of) {
          read = performance.now() - begun;
          begun = performance.now();
        }
        continue;
      }
      count++;
      end = part.end;
      const isLow = this.#log.scrollTop + this.#log.clientHeight > this.#log.scrollHeight - 40;
      holder.append(part.text);
      if (isLow) this.#log.scrollTop = this.#log.scrollHeight;
      this.#times.textContent = this.#speed(prompt, read, count, begun);
    }
    const why = { length: "; the longest answer was reached", context: "; the conversation is as long as the model takes", stopped: "; stopped" }[end] ?? "";
    this.#times.textContent = this.#speed(prompt, read, count, begun) + why;
  }

  #speed(prompt, read, count, begun) {
    const speed = (1000 * count) / Math.max(1, performance.now() - begun);
    return `${prompt} tokens read in ${ms(read)}; ${count} tokens, ${speed.toFixed(1)} tokens per second`;
  }
}

/** Shows a chat with the language model in a file. */
export async function showChat(article, file) {
  const wasm = await (generating ??= part("generate"));
  const chat = new Chat(file, wasm);
  const { context, chats, time } = await chat.open().catch((error) => {
    chat.end();
    throw error;
  });
  const form = chats ? "" : "; it has no template for messages, so that it continues each text";
  article.append(
    element("p", {}, `Language model, for at most ${context} tokens${form}`),
    element("p", { className: "quiet times" }, `WebAssembly (${bytes(wasm.byteLength)}) and the model made ready in ${ms(time)}`),
    ...chat.elements(),
  );
}
