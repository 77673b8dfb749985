/** Sessions of the WebAssembly module in a worker, so that no call blocks the page. */

import type {
  Coverage, Feed, GenerateOptions, GeneratorOptions, Graph, Inspection, Message, Piece, Port, Result, SessionOptions, Source, Tensor,
} from "./bb.js";

export { generating } from "./bb.js";

/** How a call is made. */
export interface CallOptions {
  /** Milliseconds after which the worker is ended, and all its calls and sessions with it. */
  timeout?: number;
  /** Memory that is moved to the worker rather than copied. */
  transfer?: ArrayBuffer[];
}

/** A model that is ready to run, in the worker. */
export interface Session {
  readonly inputs: Port[];
  readonly outputs: Port[];
  /** What the model says of itself that is not so. */
  readonly warnings: string[];
  /** Runs the model. */
  run<Of extends Result = Tensor>(feeds: Record<string, Feed>, call?: CallOptions): Promise<Record<string, Of>>;
  /** Says what runs each node. */
  coverage(): Promise<Coverage>;
  /** Describes the graph, with a place for each box. */
  graph(): Promise<Graph>;
  /** Closes the session. */
  free(): Promise<void>;
}

/** A language model, in the worker. A generation ends the one before it. */
export interface Generator {
  /** The greatest number of tokens of a sequence. */
  readonly context: number;
  /** The number of logits of a token. */
  readonly vocabulary: number;
  /** Whether the model has a template for messages. */
  readonly chats: boolean;
  /**
   * Generates what follows messages, or a text. What leaves the loop ends the generation. The worker answers other calls between two
   * tokens; a timeout is that of a token, or of a part of the prompt.
   */
  generate(from: Message[] | string, options?: GenerateOptions, call?: CallOptions): AsyncIterableIterator<Piece>;
  /** Closes the model. */
  free(): Promise<void>;
}

/** The module in a worker. */
export interface Bb {
  /** Whether the worker runs. */
  readonly alive: boolean;
  /** The backends that are linked in. */
  readonly backends: string[];
  /** Opens a model. */
  session(model: ArrayBuffer | ArrayBufferView, options?: SessionOptions, call?: CallOptions): Promise<Session>;
  /** Opens a model that the worker fetches or reads itself. */
  open(source: Source, options?: SessionOptions, call?: CallOptions): Promise<Session>;
  /** Opens a GGUF file that the worker fetches or reads itself. The module must be `bb-generate.wasm`. */
  generator(source: Source, options?: GeneratorOptions, call?: CallOptions): Promise<Generator>;
  /** Describes a model, also one with nodes that nothing runs. */
  inspect(model: ArrayBuffer | ArrayBufferView, options?: SessionOptions, call?: CallOptions): Promise<Inspection>;
  /** Starts another worker. Sessions of the previous one are gone. */
  restart(): Promise<void>;
  /** Ends the worker. */
  terminate(): void;
}

/** Starts a worker with the module: from its bytes, an address, or the file `bb.wasm` beside this one. */
export function start(source?: string | URL | ArrayBuffer | ArrayBufferView | WebAssembly.Module): Promise<Bb>;
