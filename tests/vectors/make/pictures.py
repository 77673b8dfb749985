"""ImageDecoder: every kind of picture that Pillow writes, and kinds of TIFF that it only reads or does not know.

Pillow decodes what it writes, except for samples of 16 bits, of which it keeps the lowest byte, or none: there the text of the format counts, by
which the greatest number is white. CIE L*a*b* becomes sRGB by LittleCMS, without its tables of few entries.
"""
import io
import struct

import numpy as np
from onnx import helper
from PIL import Image, ImageCms

from family import Family

f = Family("pictures", opset=20)
H, W = 5, 11
y, x = np.mgrid[0:H, 0:W]
random = np.random.default_rng(49)
colours = np.stack([x * 23, y * 50, (x * y * 5 + 40) % 256], -1).astype(np.uint8)
BASE = Image.fromarray(colours)
ALPHA = Image.fromarray(((x * 25 + y * 3) % 256).astype(np.uint8))
LAB, SRGB = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
EXACT = 0x100  # cmsFLAGS_NOOPTIMIZE
# The inverse transforms of two decoders of JPEG may differ by one, and so may the conversion from YCbCr behind them.
LOSSY = {"absolute": 2}
# Pillow cuts the fractions of colours from YCbCr off.
CUT = {"absolute": 1}


def with_alpha(picture):
    picture.putalpha(ALPHA)
    return picture


MODES = {
    "1": Image.fromarray((x * x + 3 * y) % 5 < 2), "L": BASE.convert("L"), "LA": with_alpha(BASE.convert("LA")), "P": BASE.quantize(20),
    "PA": with_alpha(BASE.quantize(20).convert("PA")), "RGB": BASE, "RGBX": BASE.convert("RGBX"), "RGBA": with_alpha(BASE.copy()),
    "CMYK": BASE.convert("CMYK"), "YCbCr": BASE.convert("YCbCr"),
    "LAB": ImageCms.applyTransform(BASE, ImageCms.buildTransform(SRGB, LAB, "RGB", "LAB")),
    "I;16": Image.fromarray((x * 5957 + y * 11).astype(np.uint16)), "I": Image.fromarray((x * 40 - 60).astype(np.int32)),
    "F": Image.fromarray((x * 30.7 - 20).astype(np.float32)),
}


def grey(numbers):
    """Makes three channels of one."""
    return np.repeat(np.asarray(numbers)[..., None], 3, -1).astype(np.uint8)


def scaled(numbers, bits):
    """Makes bytes of unsigned samples: the greatest becomes 255."""
    most = 2**bits - 1
    return ((np.asarray(numbers).astype(object) * 255 + most // 2) // most).astype(np.uint8)


def by_pillow(data):
    """Decodes a file: red, green and blue."""
    picture = Image.open(io.BytesIO(data))
    picture.load()
    if picture.mode == "LAB":
        return np.asarray(ImageCms.applyTransform(picture, ImageCms.buildTransform(LAB, SRGB, "LAB", "RGB", flags=EXACT)))
    if picture.mode.startswith("I;16") or (picture.format, picture.mode) == ("PPM", "I"):
        return grey(scaled(np.asarray(picture), 16))
    return np.asarray(picture.convert("RGB"))


def add(name, data, expected=None, fails=False, forms=("RGB",), **tolerance):
    """Adds a file, of which Pillow says what it is, unless it is given."""
    rgb = None if fails else by_pillow(data) if expected is None else np.asarray(expected).astype(np.uint8)
    for form in forms:
        pixels = {"RGB": lambda: rgb, "BGR": lambda: rgb[..., ::-1],
                  "Grayscale": lambda: np.asarray(Image.fromarray(np.ascontiguousarray(rgb)).convert("L"))[..., None]}[form]
        f.add(name if form == "RGB" else f"{name}_{form.lower()}", "ImageDecoder", {"x": np.frombuffer(data, np.uint8)},
              attributes={"pixel_format": form}, expected=None if fails else [pixels()], fails=fails, **tolerance)


def written(picture, kind, **options):
    """Writes a file; `None` if Pillow does not write such a picture in this format."""
    to = io.BytesIO()
    try:
        picture.save(to, kind, **options)
    except (OSError, ValueError):
        return None
    return to.getvalue()


def tolerance(mode, lossy):
    return LOSSY if lossy else CUT if mode in ("YCbCr", "LAB") else {}


ALL = ("RGB", "BGR", "Grayscale")
for mode, picture in MODES.items():
    label = mode.replace(";", "")
    for kind in ("BMP", "PNG", "PPM"):
        if (data := written(picture, kind)) and (kind, mode) not in (("PPM", "F"), ("PPM", "I")):
            add(f"{kind.lower()}_{label}", data, forms=ALL if mode in ("P", "RGB") else ("RGB",))
    if data := written(picture, "WEBP", lossless=True):
        add(f"webp_{label}", data)
    for name, options in (("", {}), ("_codestream", {"no_jp2": True})):
        # Without boxes, nothing says that the planes are inks or YCbCr.
        if (mode not in ("CMYK", "YCbCr") or not name) and (data := written(picture, "JPEG2000", **options)):
            add(f"jpeg2000_{label}{name}", data, **tolerance(mode, False))
    for packing in (None, "packbits", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "group3", "group4", "tiff_ccitt", "jpeg", "zstd"):
        options = {"compression": packing} if packing else {}
        name = f"tiff_{label}_{packing or 'none'}"
        if not (data := written(picture, "TIFF", **options)) or (mode, packing) == ("LA", "jpeg"):
            continue
        near = tolerance(mode, packing == "jpeg")
        # CIE L*a*b* spreads what differs in JPEG.
        if (mode, packing) != ("LAB", "jpeg"):
            add(name, data, forms=ALL if mode in ("1", "P") and packing in (None, "tiff_lzw", "group3") else ("RGB",), **near)
        if packing != "jpeg" and (mode in ("1", "P", "RGB") or packing == "tiff_lzw"):
            add(f"{name}_strips", written(picture, "TIFF", tiffinfo={278: 2}, **options), **near)
        if packing in ("tiff_lzw", "zstd") and mode not in ("1", "F"):
            add(f"{name}_differences", written(picture, "TIFF", tiffinfo={317: 2}, **options), **near)
        if mode in ("1", "L", "I;16") and packing != "jpeg":
            for what, white in ((0, 255), (1, 0)):
                data = written(picture, "TIFF", tiffinfo={262: what}, **options)
                # Pillow does not reverse 16 bits.
                expected = 255 - by_pillow(data) if mode == "I;16" and what == 0 else None
                add(f"{name}_{white}_is_zero", data, expected, **near)
for mode in ("RGB", "1", "P"):
    for turn in range(2, 9):
        packing = {"RGB": None, "1": "group4", "P": "tiff_lzw"}[mode]
        add(f"tiff_{mode}_turned_{turn}", written(MODES[mode], "TIFF", tiffinfo={274: turn}, **({"compression": packing} if packing else {})))
for options in (0, 1, 4, 5):
    for order in (1, 2):
        data = written(MODES["1"], "TIFF", compression="group3", tiffinfo={292: options, 266: order})
        add(f"tiff_group3_options_{options}_order_{order}", data)
add("tiff_big", written(BASE, "TIFF", big_tiff=True))
add("tiff_floats_differences", written(MODES["F"], "TIFF", compression="tiff_lzw", tiffinfo={317: 3}))
# Runs longer than the longest code, which has 2560 pixels, and rows of one colour.
wide = np.zeros((3, 5200), bool)
wide[0, 2600:5170], wide[1] = True, True
for packing in ("group3", "group4", "tiff_ccitt"):
    data = written(Image.fromarray(wide), "TIFF", compression=packing)
    # A vector has few numbers, so that only the last columns are compared.
    nodes = [helper.make_node("ImageDecoder", ["x"], ["p"], pixel_format="Grayscale"), helper.make_node("Slice", ["p", "from", "to", "axes"], ["y"])]
    f.add(f"tiff_{packing}_wide", nodes, {"x": np.frombuffer(data, np.uint8)}, outputs=["y"],
          constants={"from": np.array([5000]), "to": np.array([5200]), "axes": np.array([1])},
          expected=[(wide[:, 5000:, None] * 255).astype(np.uint8)])


def packed(numbers, bits):
    """Packs the samples of rows without gaps, the highest bit first."""
    numbers = np.asarray(numbers, np.uint64).reshape(len(numbers), -1)
    spread = (numbers[..., None] >> np.arange(bits, dtype=np.uint64)[::-1]) & np.uint64(1)
    return np.packbits(spread.reshape(len(numbers), -1).astype(np.uint8), axis=1).tobytes()


def tiff(tags, parts, little=True, big=False, counts=True, tiled=False):
    """Writes a TIFF of these strips or tiles. A tag has a kind (`B`, `H`, `I`, or `R` for fractions) and its values."""
    e = "<" if little else ">"
    out = bytearray((b"II" if little else b"MM") + (struct.pack(e + "HHHQ", 43, 8, 0, 0) if big else struct.pack(e + "HI", 42, 0)))
    offsets = []
    for part in parts:
        offsets.append(len(out))
        out += part + b"\0" * (len(part) % 2)
    tags = {**tags, (324 if tiled else 273): ("I", offsets)}
    if counts:
        tags[325 if tiled else 279] = ("I", [len(part) for part in parts])
    entries = []
    for tag, (kind, values) in sorted(tags.items()):
        values = list(values) if isinstance(values, (list, tuple, np.ndarray)) else [values]
        data = b"".join(struct.pack(e + "II", *v) for v in values) if kind == "R" else struct.pack(f"{e}{len(values)}{kind}", *values)
        entries.append((tag, {"B": 1, "H": 3, "I": 4, "R": 5}[kind], len(values), data))
    most, start = (8, len(out)) if big else (4, len(out))
    behind = start + ((16 + 20 * len(entries)) if big else (6 + 12 * len(entries)))
    directory, values = bytearray(struct.pack(e + ("Q" if big else "H"), len(entries))), bytearray()
    for tag, kind, count, data in entries:
        directory += struct.pack(e + ("HHQ" if big else "HHI"), tag, kind, count)
        if len(data) <= most:
            directory += data.ljust(most, b"\0")
        else:
            directory += struct.pack(e + ("Q" if big else "I"), behind + len(values))
            values += data + b"\0" * (len(data) % 2)
    directory += struct.pack(e + ("Q" if big else "I"), 0)
    out[8 if big else 4:16 if big else 8] = struct.pack(e + ("Q" if big else "I"), start)
    return bytes(out + directory + values)


def tags(bits, meaning, samples=1, packing=1, **more):
    return {256: ("H", W), 257: ("H", H), 258: ("H", [bits] * samples), 259: ("H", packing), 262: ("H", meaning), 277: ("H", samples),
            278: ("I", H), **more}


def drawn(bits, *shape):
    return random.integers(0, 2**bits, (H, W, *shape), dtype=np.uint64)


def raw(numbers, bits, little=True):
    return np.asarray(numbers).astype(("<" if little else ">") + f"u{bits // 8}").tobytes() if bits in (16, 32, 64) else packed(numbers, bits)


for bits in (1, 2, 3, 4, 6, 8, 10, 12, 16, 32, 64):
    one, three, two = drawn(bits), drawn(bits, 3), drawn(bits, 2)
    level = lambda numbers: scaled(numbers >> np.uint64(32), 32) if bits == 64 else scaled(numbers, bits)
    for little in (True, False):
        end = "" if little else "_backwards"
        add(f"bits_{bits}_grey{end}", tiff(tags(bits, 1), [raw(one, bits, little)], little), grey(level(one)))
        add(f"bits_{bits}_rgb{end}", tiff(tags(bits, 2, 3), [raw(three, bits, little)], little, big=not little), level(three))
    add(f"bits_{bits}_white_is_zero", tiff(tags(bits, 0), [raw(one, bits)]), grey(255 - level(one)))
    add(f"bits_{bits}_planes", tiff({**tags(bits, 2, 3), 284: ("H", 2)}, [raw(three[..., i], bits) for i in range(3)]), level(three))
    add(f"bits_{bits}_grey_alpha", tiff({**tags(bits, 1, 2), 338: ("H", 2)}, [raw(two, bits)]), grey(level(two[..., 0])))
    if bits <= 8:
        palette = random.integers(0, 65536, (3, 2**bits))
        shown = lambda numbers: np.moveaxis((palette >> 8)[:, numbers], 0, -1)
        map_of = {320: ("H", palette.ravel())}
        forms = ALL if bits in (1, 4) else ("RGB",)
        add(f"bits_{bits}_palette", tiff({**tags(bits, 3), **map_of}, [raw(one, bits)]), shown(one), forms=forms)
        add(f"bits_{bits}_palette_alpha", tiff({**tags(bits, 3, 2), 338: ("H", 2), **map_of}, [raw(two, bits)]), shown(two[..., 0]))
        reverse = bytes(int(f"{i:08b}"[::-1], 2) for i in range(256))
        add(f"bits_{bits}_reversed", tiff({**tags(bits, 1), 266: ("H", 2)}, [raw(one, bits).translate(reverse)]), grey(level(one)))
        # Tiles of 16 by 16 pixels, of which the picture has a part.
        tile = np.zeros((16, 16), np.uint64)
        tile[:H, :W] = one
        size = {322: ("H", 16), 323: ("H", 16)}
        add(f"bits_{bits}_tile", tiff({**tags(bits, 1), **size}, [packed(tile, bits)], tiled=True), grey(level(one)))
wide_tiles = drawn(8)
parts = []
for top in range(0, H, 2):
    for left in range(0, W, 8):
        tile = np.zeros((2, 8), np.uint64)
        part = wide_tiles[top:top + 2, left:left + 8]
        tile[:part.shape[0], :part.shape[1]] = part
        parts.append(packed(tile, 8))
add("tiles", tiff({**tags(8, 1), 322: ("H", 8), 323: ("H", 2)}, parts, tiled=True), grey(wide_tiles))

for size in (2, 4, 8):
    numbers = np.linspace(-40, 300, H * W).reshape(H, W).astype(f"<f{size}")
    add(f"floats_{8 * size}_grey", tiff({**tags(8 * size, 1), 339: ("H", 3)}, [numbers.tobytes()]), grey(np.clip(numbers.astype(np.float64), 0, 255)))
    numbers = np.linspace(-0.1, 1.1, H * W * 3).reshape(H, W, 3).astype(f"<f{size}")
    add(f"floats_{8 * size}_rgb", tiff({**tags(8 * size, 2, 3), 339: ("H", [3] * 3)}, [numbers.tobytes()]),
        np.floor(np.clip(numbers.astype(np.float64), 0, 1) * 255 + 0.5))
for size in (1, 2, 4):
    numbers = np.linspace(-100, 100 if size == 1 else 400, H * W).reshape(H, W).astype(f"<i{size}")
    add(f"signed_{8 * size}", tiff({**tags(8 * size, 1), 339: ("H", 2)}, [numbers.tobytes()]), grey(np.clip(numbers, 0, 255)))

four = drawn(8, 4)
alpha = four[..., 3:]
plain = np.where((alpha == 0) | (alpha == 255), four[..., :3], np.minimum(255, four[..., :3] * 255 // np.maximum(alpha, 1)))
add("multiplied_by_alpha", tiff({**tags(8, 2, 4), 338: ("H", 1)}, [raw(four, 8)]), plain)
add("more_samples", tiff({**tags(8, 2, 6), 338: ("H", [0, 0, 0])}, [raw(drawn(8, 6), 8)]))
inks = drawn(16, 4)
left = 255 - scaled(inks, 16)[..., 3:].astype(int)
share = scaled(inks, 16)[..., :3] * left + 128
add("bits_16_inks", tiff(tags(16, 5, 4), [raw(inks, 16)]), left - ((share >> 8) + share >> 8))
three = drawn(8, 3)


def luma(samples, shares=(0.299, 0.587, 0.114), ranges=(0, 255, 128, 255, 128, 255)):
    """TIFF 6.0, section 21."""
    l, b, r = (samples[..., i].astype(float) for i in range(3))
    l, b, r = ((v - ranges[2 * i]) * (127 if i else 255) / (ranges[2 * i + 1] - ranges[2 * i]) for i, v in enumerate((l, b, r)))
    red, blue = r * (2 - 2 * shares[0]) + l, b * (2 - 2 * shares[2]) + l
    return np.floor(np.clip(np.stack([red, (l - shares[2] * blue - shares[0] * red) / shares[1], blue], -1), 0, 255) + 0.5)


full = {530: ("H", [1, 1])}
add("luma", tiff({**tags(8, 6, 3), **full}, [raw(three, 8)]), luma(three))
add("luma_of_709", tiff({**tags(8, 6, 3), **full, 529: ("R", [(2125, 10000), (7154, 10000), (721, 10000)])}, [raw(three, 8)]),
    luma(three, (0.2125, 0.7154, 0.0721)))
studio = (16, 235, 128, 240, 128, 240)
add("luma_of_a_range", tiff({**tags(8, 6, 3), **full, 532: ("R", [(v, 1) for v in studio])}, [raw(three, 8)]), luma(three, ranges=studio))
# Pillow gives a* and b* as TIFF has them, with a sign; ICC adds 128 to them.
add("icc_lab", tiff(tags(8, 9, 3), [(np.asarray(MODES["LAB"]) ^ np.uint8([0, 128, 128])).tobytes()]), by_pillow(written(MODES["LAB"], "TIFF")), **CUT)

# A WebP in a strip or a tile is a whole file.
for samples, mode in ((3, "RGB"), (4, "RGBA"), (4, "RGB"), (3, "RGBA")):
    inner = written(MODES[mode], "WEBP", lossless=True, exact=True)
    add(f"webp_of_{mode}_in_{samples}_samples", tiff(tags(8, 2, samples, packing=50001), [inner]), colours)

one = drawn(8)
add("without_lengths", tiff(tags(8, 1), [raw(one, 8)], counts=False), grey(one))
add("strips_of_any_rows", tiff({**tags(8, 1), 278: ("I", 2**32 - 1)}, [raw(one, 8)]), grey(one))
few = {k: v for k, v in tags(1, 1).items() if k in (256, 257, 262)}
add("by_default", tiff(few, [packed(one & np.uint64(1), 1)]), grey((one & np.uint64(1)) * 255))
add("predictor_without_compression", tiff({**tags(8, 1), 317: ("H", 2)}, [raw(one, 8)]), grey(one))

for name, changed in {"mask": {262: 4}, "lab_of_itu": {262: 10}, "filter_array": {262: 32803}, "bits_of_two_kinds": {258: [8, 8, 4]},
                      "complex": {339: 5}, "other_inks": {262: 5, 332: 2}, "jpeg_of_old": {259: 6}, "jbig": {259: 34661}, "jpeg2000": {259: 34712},
                      "lerc": {259: 34887}, "lzma": {259: 34925}, "an_unknown_compression": {259: 4711}, "long_samples": {258: [128] * 3},
                      "another_predictor": {317: 9}, "group4_of_bytes": {259: 4}, "coarse_chroma": {262: 6}}.items():
    made = {**tags(8, 2, 3), **{tag: ("H", value) for tag, value in changed.items()}}
    add(f"refuses_{name}", tiff(made, [raw(three, 8)]), fails=True)
add("refuses_tiff_LA_jpeg", written(MODES["LA"], "TIFF", compression="jpeg"), fails=True)
add("refuses_tiff_lzma", written(BASE, "TIFF", compression="lzma"), fails=True)
add("refuses_pfm", written(MODES["F"], "PPM"), fails=True)
add("refuses_gif", written(BASE.quantize(8), "GIF"), fails=True)
empty = np.zeros((0, 0, 3), np.uint8)
for name, data in {"no_picture": b"no picture", "nothing": b"", "half_a_tiff": written(BASE, "TIFF")[:60],
                   "half_a_png": written(BASE, "PNG")[:60], "a_damaged_strip": tiff(tags(8, 1, packing=8), [b"\x78\x9c" + b"\xff" * 30])}.items():
    f.add(f"{name}_is_empty", "ImageDecoder", {"x": np.frombuffer(data, np.uint8)}, expected=[empty])
f.write()
