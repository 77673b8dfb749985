"""Makes the forms that ONNX Runtime's tools make of models, with ONNX Runtime's outputs.

`python variants.py FOLDER CASES...` takes case folders, or folders of them, and writes a case for each form of each to FOLDER.
What a tool cannot make of a model is listed at the end, with what the tool says.
"""
import argparse
import collections
import logging
import pathlib
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnxconverter_common import float16
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

import case

LEVEL = ort.GraphOptimizationLevel


class Once(CalibrationDataReader):
    """Calibrates with one set of inputs."""

    def __init__(self, inputs):
        self.sets = iter([inputs])

    def get_next(self):
        return next(self.sets, None)


def optimised(level):
    def make(source, target, _inputs):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(target)
        options.log_severity_level = 4
        ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    return make


def dynamic(weights, per_channel):
    return lambda source, target, _inputs: quantize_dynamic(source, target, weight_type=weights, per_channel=per_channel)


def static(form, activations, weights, per_channel):
    return lambda source, target, inputs: quantize_static(
        source, target, Once(inputs), quant_format=form, activation_type=activations, weight_type=weights, per_channel=per_channel)


def blockwise(bits, symmetric, form=QuantFormat.QOperator):
    def make(source, target, _inputs):
        kinds = ("MatMul", "Gather") if bits == 4 and form == QuantFormat.QOperator else ("MatMul",)
        config = DefaultWeightOnlyQuantConfig(
            block_size=32, is_symmetric=symmetric, bits=bits, quant_format=form, op_types_to_quantize=kinds,
            quant_axes=(("MatMul", 0), ("Gather", 1)))
        made = MatMulNBitsQuantizer(onnx.load(str(source)), algo_config=config)
        made.process()
        made.model.save_model_to_file(str(target))
    return make


def normal(source, target, _inputs):
    made = MatMulBnb4Quantizer(onnx.load(str(source)), quant_type=1, block_size=64)
    made.process()
    made.model.save_model_to_file(str(target))


def halved(source, target, _inputs):
    onnx.save(float16.convert_float_to_float16(onnx.load(str(source)), keep_io_types=True), str(target))


def then_optimised(make):
    def both(source, target, inputs):
        between = target.with_suffix(".first.onnx")
        make(source, between, inputs)
        optimised(LEVEL.ORT_ENABLE_EXTENDED)(between, target, inputs)
    return both


U8, S8 = QuantType.QUInt8, QuantType.QInt8
QDQ, QOPERATOR = QuantFormat.QDQ, QuantFormat.QOperator

SAME, STEPS, WEIGHTS, HALVES = "same", "steps", "weights", "halves"
REASONS = {
    SAME: "the same products in another order: that of the base model",
    STEPS: "each rounding to 8 bits may fall to the other side, which moves the result by less than all of quantisation moved it",
    WEIGHTS: "weights are quantised and sums are not: as the base model, whose sums are of the same length",
    HALVES: "values between operators are rounded to 11 bits, by each runtime after other operators, which moves the result as far "
            "as halves moved it",
}
FORMS = {
    "basic": (optimised(LEVEL.ORT_ENABLE_BASIC), SAME),
    "extended": (optimised(LEVEL.ORT_ENABLE_EXTENDED), SAME),
    "dynamic_u8": (dynamic(U8, False), STEPS),
    "dynamic_s8_channels": (dynamic(S8, True), STEPS),
    "dynamic_u8_extended": (then_optimised(dynamic(U8, False)), STEPS),
    "qdq_u8_s8_channels": (static(QDQ, U8, S8, True), STEPS),
    "qdq_s8_s8": (static(QDQ, S8, S8, False), STEPS),
    "qdq_u8_u8_extended": (then_optimised(static(QDQ, U8, U8, False)), STEPS),
    "qoperator_u8_u8": (static(QOPERATOR, U8, U8, False), STEPS),
    "qoperator_u8_s8_channels": (static(QOPERATOR, U8, S8, True), STEPS),
    "int4_blocks": (blockwise(4, True), WEIGHTS),
    "int4_blocks_points": (blockwise(4, False), WEIGHTS),
    "int4_qdq": (blockwise(4, True, QDQ), WEIGHTS),
    "int8_blocks": (blockwise(8, True), WEIGHTS),
    "normal4_blocks": (normal, WEIGHTS),
    "float16": (halved, HALVES),
}


def run(model, inputs, level=LEVEL.ORT_ENABLE_ALL):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    # Unless it is told otherwise, it rounds the other operand of a product with weights of 4 bits to 8 bits.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]).run(None, inputs)


def operators(model):
    """How often each operator is in a model, subgraphs included."""
    counts = collections.Counter()
    graphs = [onnx.load(str(model)).graph]
    while graphs:
        for node in graphs.pop().node:
            counts[node.domain, node.op_type] += 1
            graphs += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return counts


def furthest(a, b):
    """The greatest difference of numbers, of outputs that have the same extents."""
    pairs = [(np.asarray(x, np.float64), np.asarray(y, np.float64)) for x, y in zip(a, b)
             if isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.shape == np.shape(y)]
    return max((float(np.nanmax(np.abs(x - y), initial=0.0)) for x, y in pairs), default=0.0)


def tolerance(kind, base, moved, itself):
    """Relative and absolute: by what the form is, by how far it is from the base model, and ONNX Runtime from itself."""
    if kind in (SAME, WEIGHTS):
        return base
    # Halves: either runtime is that far from the base, and steps are fewer than that. Or twice what ONNX Runtime is from itself.
    return 1e-3, max(base[1], 2 * itself, 2 * moved if kind == HALVES else moved)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("cases", type=pathlib.Path, nargs="+")
    asked = arguments.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    ort.set_default_logger_severity(4)
    cases = [found.parent for path in asked.cases for found in sorted(path.rglob("model.onnx"))]
    impossible = []
    for base in cases:
        _, inputs, given = case.read(base)
        plain = run(base / "model.onnx", inputs)
        for form, (make, kind) in FORMS.items():
            with tempfile.TemporaryDirectory() as folder:
                target = pathlib.Path(folder) / "model.onnx"
                try:
                    make(base / "model.onnx", target, inputs)
                    if operators(target) == operators(base / "model.onnx"):
                        impossible.append(f"{base.name} {form}: there is nothing to change")
                        continue
                    outputs = run(target, inputs)
                    itself = furthest(outputs, run(target, inputs, LEVEL.ORT_DISABLE_ALL))
                except Exception as error:  # whatever the tools raise
                    impossible.append(f"{base.name} {form}: {type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}")
                    continue
                moved = furthest(plain, outputs)
                relative, absolute = tolerance(kind, given, moved, itself)
                reason = f"{REASONS[kind]} (moved by {moved:.3g}; ONNX Runtime differs from itself by {itself:.3g})"
                model = onnx.load(str(target))
                names = [x.name for x in model.graph.input if x.name in inputs]
                case.write(asked.folder / f"{base.name}.{form}", model, [inputs[k] for k in names], outputs, relative, absolute, reason)
                print(f"{base.name} {form} rtol {relative:g} atol {absolute:.3g} {reason}", flush=True)
    print(f"{len(impossible)} forms that the tools cannot make:", *impossible, sep="\n")


if __name__ == "__main__":
    main()
