"""Vectors of operators that ONNX called experimental and took away again, computed by ONNX Runtime, or by NumPy from the old
schemas where ONNX Runtime has no kernel or wants attributes that the schemas leave out."""
import numpy as np
from family import Family
from onnx import TensorProto

f = Family("early", opset=7)
rng = np.random.default_rng(29)


def random(*shape):
    return rng.normal(0, 2, shape).astype(np.float32)


def add(name, op, inputs, attributes=None, **how):
    f.add(name, op, inputs, attributes=attributes, **{"expected": "ort", "relative": 1e-5, "absolute": 1e-6} | how)


x = random(2, 3, 4, 5)
add("affine", "Affine", {"x": random(7)}, {"alpha": 0.5, "beta": -2.0})
add("affine_plain", "Affine", {"x": random(2, 3)})
add("affine_scalar", "Affine", {"x": np.float32(3.0)}, {"alpha": 2.0, "beta": 1.0})
add("scale", "Scale", {"x": x}, {"scale": -1.5})
add("scale_of_nothing", "Scale", {"x": random(2, 0, 3)}, {"scale": 3.0}, opset=1)
add("scaled_tanh", "ScaledTanh", {"x": random(3, 4)}, {"alpha": 2.0, "beta": 0.5})
add("scaled_tanh_needs_its_factors", "ScaledTanh", {"x": random(3)}, fails=True)
edges = np.array([-200, -10, -1, -0.0, 0, 1e-4, 1, 10, 200], np.float32)
add("parametric_softplus", "ParametricSoftplus", {"x": edges}, {"alpha": 2.0, "beta": 3.0})
add("parametric_softplus_falling", "ParametricSoftplus", {"x": edges}, {"alpha": -0.5, "beta": -2.0})
add("parametric_softplus_needs_its_factors", "ParametricSoftplus", {"x": edges}, {"alpha": 1.0}, fails=True)
add("image_scaler", "ImageScaler", {"x": x}, {"scale": 1 / 255, "bias": [-0.5, 0.25, 1.0]})
add("image_scaler_bias", "ImageScaler", {"x": x}, {"bias": [1.0, 2.0, 3.0]}, opset=1)
add("image_scaler_plain", "ImageScaler", {"x": x}, {"scale": 2.0}, expected=x * 2)
add("image_scaler_of_other_channels", "ImageScaler", {"x": x}, {"bias": [1.0, 2.0]}, fails=True)
add("crop_borders", "Crop", {"x": x}, {"border": [1, 0, 2, 1]})
add("crop_size", "Crop", {"x": x}, {"border": [2, 1, 0, 0], "scale": [2, 3]})
add("crop_ignores_far_borders_for_a_size", "Crop", {"x": x}, {"border": [0, 1, 1, 1], "scale": [3, 4]})
add("crop_all", "Crop", {"x": x}, {"border": [2, 1, 3, 3]})
add("crop_too_much", "Crop", {"x": x}, {"border": [3, 0, 3, 0]}, fails=True)
add("crop_too_large", "Crop", {"x": x}, {"border": [0, 2, 0, 0], "scale": [3, 1]}, fails=True)
add("crop_without_borders", "Crop", {"x": x}, {"scale": [1, 1]}, fails=True)
data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
for name, starts, ends, axes in [
    ("all_axes", [0, 1], [-1, 1000], None), ("negative_axis", [-2], [1000], [-1]), ("nothing", [2], [1], [1]),
    ("two_axes", [1, 0], [2, 2], [2, 0]),
]:
    bounds = {"starts": np.array(starts, np.int64), "ends": np.array(ends, np.int64)}
    axes = None if axes is None else np.array(axes, np.int64)
    add(f"dynamic_slice_{name}", "DynamicSlice", {"x": data, **bounds, "axes": axes})
    constants = ("starts", "ends") if axes is None else ("starts", "ends", "axes")
    add(f"dynamic_slice_{name}_known", "DynamicSlice", {"x": data, **bounds, "axes": axes}, constants=constants)
bounds = {k: np.array(v, np.int32) for k, v in {"starts": [1], "ends": [3]}.items()}
add("dynamic_slice_i32", "DynamicSlice", {"x": np.array([b"a", b"b", b"c"], object).astype(str), **bounds})
for name, attributes in [("", {}), ("_together", {"across_channels": 1}), ("_mean_only", {"normalize_variance": 0}),
                         ("_together_mean_only", {"across_channels": 1, "normalize_variance": 0})]:
    for opset in (7, 8):
        add(f"mean_variance{name}_{opset}", "MeanVarianceNormalization", {"x": x}, attributes, opset=opset)
add("memcpy_from_host", "MemcpyFromHost", {"x": x}, expected=x, opset=17)
add("memcpy_to_host", "MemcpyToHost", {"x": np.arange(3)}, expected=np.arange(3), opset=17)
add("memcpy_to_host_f32", "MemcpyToHost", {"x": x}, expected=x, opset=17)

# No kernel of ONNX Runtime: what ONNX 1.2 wrote of them.
values = random(2, 3)
numbers = [float(v) for v in values.ravel()]
add("given_tensor_fill", "GivenTensorFill", {}, {"shape": [2, 3], "values": numbers}, expected=values)
add("given_tensor_fill_extra", "GivenTensorFill", {}, {"shape": [2], "extra_shape": [3, 1], "values": numbers},
    expected=values.reshape(2, 3, 1))
add("given_tensor_fill_as_another", "GivenTensorFill", {"shape": random(3, 2)}, {"values": numbers},
    expected=values.reshape(3, 2))
add("given_tensor_fill_input_as_shape", "GivenTensorFill", {"shape": np.array([6, 1])},
    {"input_as_shape": 1, "values": numbers}, expected=values.reshape(6, 1))
add("given_tensor_fill_of_too_few", "GivenTensorFill", {}, {"shape": [2, 2], "values": numbers}, fails=True)
add("constant_fill", "ConstantFill", {}, {"shape": [2, 3], "value": 1.5}, expected=np.full((2, 3), 1.5, np.float32))
add("constant_fill_zeros", "ConstantFill", {}, {"shape": [0, 2]}, expected=np.zeros((0, 2), np.float32))
add("constant_fill_i64", "ConstantFill", {"shape": np.array([2])},
    {"input_as_shape": 1, "value": 3.0, "dtype": TensorProto.INT64, "extra_shape": [2]}, expected=np.full((2, 2), 3))
add("constant_fill_like", "ConstantFill", {"shape": random(2, 2)}, {"value": -1.0}, expected=-np.ones((2, 2), np.float32))
add("constant_fill_of_a_negative_extent", "ConstantFill", {}, {"shape": [-1]}, fails=True)
f.write()
