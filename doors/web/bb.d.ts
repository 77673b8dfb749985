/** ONNX models in the browser: sessions of the WebAssembly module `bb.wasm`. */

/** The element types that have arrays in JavaScript. Others keep ONNX's short names, and their data are the packed bytes. */
export type ElementType =
  | "float32" | "float64" | "float16" | "bfloat16" | "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64"
  | "bool" | "string";

/**
 * The elements of a tensor, in row-major order. `int64` and `uint64` have big integers; `float16` and `bfloat16` are given as their bits, in
 * a `Uint16Array`; `bool` as bytes 0 and 1; `string` as a list.
 */
export type Elements =
  | Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | BigInt64Array | Uint8Array | Uint8ClampedArray | Uint16Array
  | Uint32Array | BigUint64Array | string[];

/** An input of a run. Without `type`, the array decides: a `Float32Array` is `float32`, a list of booleans is `bool`. */
export interface Feed {
  type?: ElementType | (string & {});
  shape: readonly number[];
  data: Elements | boolean[];
}

/** A tensor that a run gives. */
export interface Tensor {
  type: ElementType | (string & {});
  shape: number[];
  data: Elements;
}

/** An output of a run: nearly always a tensor. Classifiers of scikit-learn give sequences of maps. */
export type Result =
  | Tensor
  | { type: "sequence"; items: Result[] }
  | { type: "map"; keys: Tensor; values: Tensor }
  | { type: "absent" };

/** An input or an output of a model. */
export interface Port {
  name: string;
  /** The element type; null if it is no tensor. */
  type: ElementType | (string & {}) | null;
  /** A number, the text of a symbolic dimension, or null for each extent; null if not even the rank is known. */
  shape: (number | string | null)[] | null;
  /** Whether a run may leave it out. */
  optional: boolean;
  /** The type in words. */
  text: string;
}

/** What runs a node: one operation of the backend, several, the host, or nothing. */
export type Runs = "native" | "lowered" | "host" | "unsupported";

export interface Coverage {
  nodes: {
    node: string; operator: string; domain: string; opset: number; runs: Runs;
    /** The number of operations, if it is known. */
    operations: number | null;
    missing: string[];
  }[];
  counts: Record<Runs, number>;
}

/** A value of a graph. */
export interface GraphValue {
  name: string;
  type: string;
}

/** A box of a picture of the graph. `x` is its centre, `y` its top. */
export interface Box {
  kind: Runs | "unused" | "input" | "output";
  title: string;
  name: string;
  x?: number;
  y?: number;
  width?: number;
  /** Of an input or an output. */
  type?: string;
  /** Of a node, from here on. */
  domain?: string;
  opset?: number;
  inputs?: (GraphValue | null)[];
  outputs?: (GraphValue | null)[];
  attributes?: [string, string][];
  missing?: string[];
}

export interface Graph {
  name: string;
  boxes: Box[];
  lines: { from: number; to: number; value: string; bends: [number, number][] }[];
  /** Whether the boxes have places; graphs of more than 20 000 boxes have none. */
  placed: boolean;
  width: number;
  height: number;
  box_height: number;
}

export interface SessionOptions {
  /** Extents of symbolic dimensions, by name. */
  dims?: Record<string, number>;
  /** Limits on what the model may use, by name, as `{ run_bytes: "512MiB" }`. */
  limits?: Record<string, string>;
  /** The model's files of external data, by the location that the model names. `open` takes addresses and blobs, too. */
  externalData?: Record<string, Source>;
}

/** Where a model comes from: its bytes, an address, a response, or a file that a user chose. */
export type Source = ArrayBuffer | ArrayBufferView | string | URL | Response | Blob;

/** What a model is, whether or not it can run. */
export interface Inspection {
  inputs: Port[];
  outputs: Port[];
  warnings: string[];
  coverage: Coverage;
  graph: Graph;
}

/** A model that is ready to run. */
export interface Session {
  readonly inputs: Port[];
  readonly outputs: Port[];
  /** What the model says of itself that is not so. */
  readonly warnings: string[];
  /** The number of the session in its instance. */
  readonly number: number;
  /** Runs the model. Name the type of its outputs if they are other than tensors: `session.run<Result>(feeds)`. */
  run<Of extends Result = Tensor>(feeds: Record<string, Feed>): Record<string, Of>;
  /** Says what runs each node. */
  coverage(): Coverage;
  /** Describes the graph, with a place for each box. */
  graph(): Graph;
  /** Closes the session. */
  free(): void;
}

/** Identifies the types of files with Magika's model. */
export interface FileTypes {
  /** Reads the first and the last block of a file, and guesses its type. */
  identify(file: Blob): Promise<{ label: string; score: number }>;
}

/** A message of a conversation. */
export interface Message {
  /** Who speaks: `system`, `user` or `assistant`. */
  role: string;
  content: string;
}

export interface GeneratorOptions {
  /** The greatest number of tokens of a sequence, at most what the model was trained for. Without it, 8192. */
  context?: number;
}

/** How text is generated. Without these, the most probable token is taken each time. */
export interface GenerateOptions {
  /** The greatest number of tokens. Without it, 256. */
  maxTokens?: number;
  /** What logits are divided by. 0 takes the most probable token. */
  temperature?: number;
  /** How many of the most probable tokens may be drawn; 0 for all. */
  topK?: number;
  /** The probability that the most probable tokens reach together; 1 for all. */
  topP?: number;
  /** The least probability of a token, as a share of that of the most probable one; 0 for all. */
  minP?: number;
  /** What a logit above 0 is divided by, and another multiplied by, if the token is there already; 1 for none. */
  repetitionPenalty?: number;
  /** Equal seeds draw equal tokens. Without one, each generation draws others. */
  seed?: number;
  /** Texts that end the generation. They are not part of it. */
  stop?: string[];
}

/** What a token adds to a text. */
export interface Piece {
  token: number;
  /** The text that is certain with this token. It is empty if the token ends within a character, or with what may begin a stop. */
  text: string;
  /** Why this is the last piece: the model ended its text, a text of `stop` came, `maxTokens` or the sequence is full. */
  end: "token" | "stop" | "length" | "context" | null;
}

/** A language model. A generation ends the one before it. The next prompt is read from where it differs from what was there. */
export interface Generator {
  /** The greatest number of tokens of a sequence. */
  readonly context: number;
  /** The number of logits of a token. */
  readonly vocabulary: number;
  /** Whether the model has a template for messages. */
  readonly chats: boolean;
  /** Generates what follows messages, or a text. What leaves the loop ends the generation. */
  generate(from: Iterable<Message> | string, options?: GenerateOptions): IterableIterator<Piece>;
  /** Closes the model. */
  free(): void;
}

/** The module, and the instance of it that runs. */
export interface Bb {
  /** Whether the instance runs. */
  readonly alive: boolean;
  /** The backends that are linked in. */
  readonly backends: string[];
  /** Opens a model: its checks, and its plan. */
  session(model: ArrayBuffer | ArrayBufferView, options?: SessionOptions): Session;
  /** Opens a model from an address, a response or a blob, which is copied into the instance as it comes and lies nowhere else. */
  open(source: Source, options?: SessionOptions): Promise<Session>;
  /** Describes a model, also one with nodes that nothing runs. */
  inspect(model: ArrayBuffer | ArrayBufferView, options?: SessionOptions): Inspection;
  /** Opens a GGUF file from an address, a response, a blob or bytes. The module must be `bb-generate.wasm`. */
  generator(source: Source, options?: GeneratorOptions): Promise<Generator>;
  /** Takes a session of Magika's model, and the text of its `config.min.json`. */
  fileTypes(session: Session, config: string): FileTypes;
  /** Starts another instance. Sessions of the previous one are gone. */
  restart(): Promise<void>;
}

/**
 * What a caller can do about an error. `invalid-model`: the model is damaged or contradicts itself, and runs nowhere. `wrong-input`: other
 * inputs or names will do. `configuration`: a file or an option is not there, or options contradict each other. `unsupported`: another
 * backend or version may run this. `limit`: a limit or the memory does not suffice. `cancelled`: the run was ended. `device`: the backend,
 * the system or the network failed. `internal`: a mistake in `bb`.
 */
export type ErrorKind =
  | "invalid-model" | "wrong-input" | "configuration" | "unsupported" | "limit" | "cancelled" | "device" | "internal";

/** What a model or a call fails with. */
export class BbError extends Error {
  readonly kind: ErrorKind;
  readonly causes: string[];
  readonly node: string | null;
  readonly operator: string | null;
  readonly domain: string | null;
  readonly input: string | null;
}

/** The instance has ended, and its sessions with it: `await bb.restart()` starts another. */
export class BbCrash extends Error {}

/** The address of `bb-generate.wasm` beside this file, the module that generates text, too: `await load(generating())`. */
export function generating(): URL;

/** Starts the module: from its bytes, a response, an address, or the file `bb.wasm` beside this one. */
export function load(source?: string | URL | Response | ArrayBuffer | ArrayBufferView | WebAssembly.Module): Promise<Bb>;
