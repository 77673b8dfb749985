// Lines of text in a picture, with PaddleOCR's model "PP-OCRv4 det": what goes into it, and the boxes that come out.

/** The longest side of what the model sees. Longer pictures are made smaller. */
export const LONGEST = 960;
/** Places where the model is surer than this are text, and boxes of whose places it is surer than this on average are kept. */
const PLACE = 0.3;
const BOX = 0.5;
/** The model finds the middle of lines; this widens boxes as its authors do. */
const WIDER = 1.6;
/** Boxes smaller than this are noise. */
const SMALLEST = 3;
/** A picture with more boxes than this is not a picture of text. */
const MOST = 1000;

/** The extents that the model sees of a picture: multiples of 32. */
export function extents(width, height) {
  const scale = Math.min(1, LONGEST / Math.max(width, height));
  const whole = (x) => Math.max(32, Math.round((x * scale) / 32) * 32);
  return [whole(width), whole(height)];
}

/** The model's input: planes of blue, green and red from -1 to 1. */
export function planes({ width, height, data }) {
  const size = width * height;
  const out = new Float32Array(3 * size);
  for (let i = 0; i < size; i++) {
    out[i] = data[4 * i + 2] / 127.5 - 1;
    out[size + i] = data[4 * i + 1] / 127.5 - 1;
    out[2 * size + i] = data[4 * i] / 127.5 - 1;
  }
  return out;
}

/** The boxes around connected places of text, in the extents of the map: left, top, right, bottom and how sure the model is. */
export function boxes(map, width, height) {
  const seen = new Uint8Array(width * height);
  const found = [];
  const stack = new Int32Array(width * height);
  for (let start = 0; start < map.length && found.length < MOST; start++) {
    if (seen[start] || !(map[start] > PLACE)) continue;
    let [left, top, right, bottom, sum, count, depth] = [width, height, 0, 0, 0, 0, 0];
    seen[start] = 1;
    stack[depth++] = start;
    while (depth > 0) {
      const at = stack[--depth];
      const x = at % width, y = (at - x) / width;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
      sum += map[at];
      count++;
      for (let dy = -1; dy <= 1; dy++) {
        for (let dx = -1; dx <= 1; dx++) {
          const [nx, ny] = [x + dx, y + dy];
          if (nx < 0 || ny < 0 || nx >= width || ny >= height) continue;
          const next = ny * width + nx;
          if (!seen[next] && map[next] > PLACE) {
            seen[next] = 1;
            stack[depth++] = next;
          }
        }
      }
    }
    const [w, h] = [right - left + 1, bottom - top + 1];
    const score = sum / count;
    if (score < BOX || Math.min(w, h) < SMALLEST) continue;
    const by = (w * h * WIDER) / (2 * (w + h));
    found.push({
      left: Math.max(0, left - by), top: Math.max(0, top - by),
      right: Math.min(width, right + 1 + by), bottom: Math.min(height, bottom + 1 + by), score,
    });
  }
  return found;
}
