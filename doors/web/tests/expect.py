"""Draws the picture of the test, and writes the boxes that ONNX Runtime's results give.

    python expect.py DETECTOR.onnx FONT.ttf

It needs onnxruntime, numpy and pillow. It writes `lines.png` and `lines.json` beside itself; both are committed. The picture's extents are
multiples of 32, so that neither this script nor the page resizes it, and the page must find the same boxes but for the last digits.
"""

import json
import pathlib
import sys

import numpy
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

HERE = pathlib.Path(__file__).parent
LINES = [
    (40, 24, 34, "ONNX models in the browser", "#1a1a1a"),
    (60, 96, 26, "one backend, no server", "#0a4fa0"),
    (330, 168, 22, "lines of text, found", "#7a1f1f"),
    (48, 232, 28, "and a fourth line", "#205020"),
]
SIZE = (640, 320)
PLACE, BOX, WIDER, SMALLEST = 0.3, 0.5, 1.6, 3


def picture(font):
    """Draws the lines on a light gradient; returns the picture and where each line is."""
    across = numpy.linspace(235, 255, SIZE[0])[None, :, None]
    down = numpy.linspace(0, -15, SIZE[1])[:, None, None]
    ground = numpy.broadcast_to(across + down, (SIZE[1], SIZE[0], 3)).astype(numpy.uint8)
    image = Image.fromarray(ground)
    draw = ImageDraw.Draw(image)
    places = []
    for x, y, size, text, colour in LINES:
        face = ImageFont.truetype(font, size)
        draw.text((x, y), text, fill=colour, font=face)
        places.append(draw.textbbox((x, y), text, font=face))
    return image, places


def components(mask):
    """Yields the places of each connected part of the mask, diagonals included."""
    left = {(int(y), int(x)) for y, x in zip(*numpy.nonzero(mask))}
    while left:
        edge = {left.pop()}
        part = set(edge)
        while edge:
            near = {(y + dy, x + dx) for y, x in edge for dy in (-1, 0, 1) for dx in (-1, 0, 1)}
            edge = near & left
            left -= edge
            part |= edge
        yield numpy.array(sorted(part))


def boxes(score_map):
    height, width = score_map.shape
    found = []
    for part in components(score_map > PLACE):
        (top, left), (bottom, right) = part.min(axis=0), part.max(axis=0) + 1
        w, h = right - left, bottom - top
        score = score_map[part[:, 0], part[:, 1]].astype(numpy.float64).mean()
        if score < BOX or min(w, h) < SMALLEST:
            continue
        by = w * h * WIDER / (2 * (w + h))
        found.append({
            "left": max(0, left - by), "top": max(0, top - by),
            "right": min(width, right + by), "bottom": min(height, bottom + by), "score": score,
        })
    return sorted(found, key=lambda box: (box["top"], box["left"]))


def main():
    model, font = sys.argv[1:]
    image, places = picture(font)
    image.save(HERE / "lines.png", optimize=True)
    rgb = numpy.asarray(image, dtype=numpy.float32)
    x = (rgb[:, :, ::-1] / 127.5 - 1).transpose(2, 0, 1)[None]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (score_map,) = session.run(None, {session.get_inputs()[0].name: numpy.ascontiguousarray(x)})
    record = {
        "made_by": f"expect.py, ONNX Runtime {onnxruntime.__version__}",
        "size": SIZE, "lines": [list(place) for place in places],
        "boxes": [{key: round(float(value), 4) for key, value in box.items()} for box in boxes(score_map[0, 0])],
    }
    (HERE / "lines.json").write_text(json.dumps(record, indent=1) + "\n")


main()
