// Reads the tensors of ONNX's test data: the message `TensorProto`.

import { readFileSync } from "node:fs";

/** The names of ONNX's element types in JavaScript, by number. */
const TYPES = {
  1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool", 10: "float16",
  11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
};
const ARRAYS = {
  float32: Float32Array, float64: Float64Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array,
  int32: Int32Array, int64: BigInt64Array, uint32: Uint32Array, uint64: BigUint64Array, bool: Uint8Array, float16: Uint16Array, bfloat16: Uint16Array,
};

/** A file that holds something else than a tensor with elements of JavaScript's arrays. */
export class Unread extends Error {}

/** Yields the fields of a message: number, and a number or bytes. */
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = () => {
    let [value, shift] = [0n, 0n];
    for (;;) {
      const byte = view.getUint8(at++);
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, value);
      shift += 7n;
    }
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const [field, wire] = [key >> 3, key & 7];
    if (wire === 3 || wire === 4 || wire > 5) throw new Unread("not a message");
    if (wire === 0) {
      yield [field, varint()];
    } else {
      const length = wire === 2 ? Number(varint()) : wire === 1 ? 8 : 4;
      yield [field, bytes.subarray(at, at + length)];
      at += length;
    }
  }
}

/** Reads a tensor with raw elements, or with 4-byte and 8-byte elements in lists. */
export function tensor(path) {
  const [shape, lists, strings] = [[], [], []];
  let [type, name, raw] = [null, "", null];
  for (const [field, value] of fields(readFileSync(path))) {
    const packed = value instanceof Uint8Array;
    if (field === 1 && packed) {
      // A list of extents that is packed holds them as numbers only.
      const view = [...numbers(value)];
      shape.push(...view);
    } else if (field === 1) shape.push(Number(value));
    else if (field === 2) type = TYPES[Number(value)];
    else if (field === 8) name = new TextDecoder().decode(value);
    else if (field === 9) raw = value;
    else if (field === 6) strings.push(new TextDecoder().decode(value));
    else if (field === 4 || field === 10) lists.push(value);
    else if (field === 5 || field === 7) lists.push(packed ? [...numbers(value)] : [Number(value)]);
  }
  if (!type) throw new Unread(path);
  if (type === "string") return { name, type, shape, data: strings };
  const array = ARRAYS[type];
  if (raw) return { name, type, shape, data: new array(new Uint8Array(raw).buffer) };
  if (lists[0] instanceof Uint8Array) {
    return { name, type, shape, data: new array(Uint8Array.from(lists.flatMap((bytes) => [...bytes])).buffer) };
  }
  const items = lists.flat();
  if (type === "bfloat16" || type === "float16") items.forEach((x, i) => { items[i] = x & 0xffff; });
  return { name, type, shape, data: type.endsWith("64") && type !== "float64" ? array.from(items, BigInt) : array.from(items) };
}

function* numbers(bytes) {
  let [value, shift] = [0, 1];
  for (const byte of bytes) {
    value += (byte & 127) * shift;
    shift *= 128;
    if (byte < 128) {
      yield value;
      [value, shift] = [0, 1];
    }
  }
}
