"""Values in and out: element types, strings, sequences, maps, optionals, other libraries, and memory."""

import gc
import resource

import numpy as np
import pytest

import bb
import models

NUMPY = {
    models.FLOAT: "float32", models.UINT8: "uint8", models.INT8: "int8", models.UINT16: "uint16",
    models.INT16: "int16", models.INT32: "int32", models.INT64: "int64", models.BOOL: "bool",
    models.FLOAT16: "float16", models.DOUBLE: "float64", models.UINT32: "uint32", models.UINT64: "uint64",
    models.COMPLEX64: "complex64", models.COMPLEX128: "complex128",
}

#: What `ml_dtypes` adds, by ONNX's numbers.
ADDED = {
    16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
    21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
    27: "float6_e2m3fn", 28: "float6_e3m2fn",
}


@pytest.mark.parametrize("element", NUMPY)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3), (40, 50)])
def test_every_element_type_of_numpy_comes_back(element, shape):
    random = np.random.default_rng(element)
    x = random.integers(0, 2 if element == models.BOOL else 100, shape).astype(NUMPY[element])
    session = bb.Session(models.identity(element))
    [y] = session.run([x])
    assert y.dtype == x.dtype and y.shape == x.shape
    np.testing.assert_array_equal(y, x)
    if x.size:
        assert y.flags.writeable and not np.shares_memory(x, y)
    assert session.get_inputs()[0].shape is None


@pytest.mark.parametrize("element", ADDED)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (64, 50)])
def test_every_element_type_that_numpy_lacks_comes_back(element, shape):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    if not hasattr(ml_dtypes, ADDED[element]):
        pytest.skip(f"this version of ml_dtypes has no {ADDED[element]}")
    dtype = np.dtype(getattr(ml_dtypes, ADDED[element]))
    # Numbers that all of these types have; one has no zero.
    x = np.random.default_rng(0).choice([1.0, 1.0, 2.0], shape).astype(np.float32)
    if element in (26,):
        x = -x
    x = x.astype(dtype)
    [y] = bb.Session(models.identity(element)).run([x])
    assert y.dtype == dtype and y.shape == x.shape
    np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))


@pytest.mark.parametrize(("element", "low", "high"), [(21, 0, 15), (22, -8, 7), (25, 0, 3), (26, -2, 1)])
def test_all_small_integers_come_back(element, low, high):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.arange(low, high + 1).astype(getattr(ml_dtypes, ADDED[element]))
    [y] = bb.Session(models.identity(element)).run([x])
    assert y.astype(int).tolist() == list(range(low, high + 1))
    # And as numbers that the model computes with.
    ty, wide = models.tensor_type(element, [None]), models.tensor_type(models.INT32, [None])
    cast = models.model([models.node("Cast", ["x"], ["y"], to=models.INT32)], [("x", ty)], [("y", wide)], opset=25)
    assert bb.Session(cast).run([x])[0].tolist() == list(range(low, high + 1))


def test_without_the_package_the_error_says_what_to_install():
    try:
        import ml_dtypes  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("ml_dtypes is installed")
    ty, out = models.tensor_type(models.FLOAT, [None]), models.tensor_type(models.BFLOAT16, [None])
    cast = models.model([models.node("Cast", ["x"], ["y"], to=16)], [("x", ty)], [("y", out)])
    with pytest.raises(bb.MissingPackage, match="pip install ml_dtypes") as raised:
        bb.Session(cast).run([np.ones(2, np.float32)])
    assert isinstance(raised.value, ImportError)


def test_arrays_of_any_layout_are_read():
    session = bb.Session(models.identity(models.FLOAT))
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    big = np.arange(6000, dtype=np.float32).reshape(60, 100)
    for array in [
        x.T, x[::-1], x[:, ::2], x.astype(">f4"), np.asfortranarray(x), unaligned, np.broadcast_to(x[:1], (5, 3, 4)),
        big.T, big[::3, 1::2], big.astype(">f4"), np.float32(3.5), np.array(2.5, ">f4"), x[:, :, 1], big[5:],
    ]:
        [y] = session.run([array])
        assert y.shape == array.shape
        np.testing.assert_array_equal(y, array)


def test_numbers_and_lists_take_the_declared_element_type():
    session = bb.Session(models.identity(models.FLOAT))
    assert session.run([[1, 2.5]])[0].dtype == np.float32
    assert session.run([[[1], [2]]])[0].shape == (2, 1)
    assert session.run([7])[0].tolist() == 7
    whole = bb.Session(models.identity(models.INT64))
    assert whole.run([[1, 2]])[0].tolist() == [1, 2]
    # Digits are not dropped in silence.
    with pytest.raises(bb.InputError, match="f64 must be i64"):
        whole.run([[1.5]])
    with pytest.raises(bb.InputError):
        bb.Session(models.identity(models.UINT8)).run([[300]])
    with pytest.raises(bb.InputError):
        session.run([[[1, 2], [3]]])
    with pytest.raises(bb.InputError, match="expected an array of numbers, got `object`"):
        session.run([object()])


def test_numbers_in_lists_keep_all_their_digits():
    def run(dtype, values):
        return bb.Session(models.identity(dtype)).run([values])[0]

    kept = [
        (models.FLOAT, [16777216, -3, 0.1, 1e-40, float("inf"), float("nan")], np.float32),
        (models.FLOAT16, [2048, 65504, 0.1], np.float16),
        (models.DOUBLE, [2**53, 2**62, 0.1], np.float64),
        (models.BOOL, [1, 0, 1], np.bool_),
        (models.BOOL, [True, False], np.bool_),
        (models.INT8, [-128, 127], np.int8),
        (models.UINT64, [2**64 - 1], np.uint64),
        (models.COMPLEX64, [1, 2.5, 3j], np.complex64),
    ]
    for dtype, values, numpy in kept:
        got = run(dtype, values)
        assert got.dtype == numpy
        np.testing.assert_array_equal(got, np.array(values, dtype=numpy))
    assert run(models.INT64, []).dtype == np.int64
    assert run(models.INT64, [[], []]).shape == (2, 0)
    lost = [
        (models.FLOAT, [1, 16777217], "element 1 is 16777217"),
        (models.FLOAT, [0.5, 16777217], "element 1 is 16777217"),
        (models.FLOAT, [[0.5], [2**60 + 1]], "element 1 is 1152921504606846977"),
        (models.FLOAT, 16777217, "element 0 is 16777217"),
        (models.FLOAT, [1e39], "element 0 is 1e39|element 0 is 1000"),
        (models.FLOAT, [1e-60], "element 0 is "),
        (models.FLOAT16, [2049], "element 0 is 2049"),
        (models.FLOAT16, [65520], "element 0 is 65520"),
        (models.FLOAT16, [1e5], "element 0 is 100000"),
        (models.DOUBLE, [2**53 + 1], "element 0 is 9007199254740993"),
        (models.DOUBLE, [0.5, 2**53 + 1], "element 1 is 9007199254740993"),
        (models.DOUBLE, [2**64 - 1], "element 0 is 18446744073709551615"),
        (models.COMPLEX64, [16777217], "element 0 is 16777217"),
        (models.INT64, [2**63], "element 0 is 9223372036854775808"),
        (models.UINT8, [-1], "element 0 is -1"),
        (models.BOOL, [0, 2], "element 1 is 2"),
    ]
    for dtype, values, text in lost:
        with pytest.raises(bb.InputError, match=text):
            run(dtype, values)
    # Of another kind than declared, or of no kind.
    for dtype, values in [
        (models.INT64, [1.0]),
        (models.INT64, [True]),
        (models.BOOL, [1.0]),
        (models.FLOAT, [True]),
        (models.FLOAT, ["1"]),
        (models.INT64, [2**64]),
        (models.FLOAT, [0.5, 2**64 + 1]),
        (models.INT64, [[1], [2, 3]]),
        (models.FLOAT, [[[1.0]], [2.0]]),
        (models.INT64, [None]),
    ]:
        with pytest.raises(bb.InputError):
            run(dtype, values)


def test_objects_of_other_libraries_are_read():
    session = bb.Session(models.identity(models.FLOAT))
    x = np.arange(5000, dtype=np.float32)

    class ByArray:
        def __array__(self, dtype=None, copy=None):
            return x

    class ByDlpack:
        def __init__(self, device=1):
            self.device = device

        def __dlpack_device__(self):
            return (self.device, 0)

        def __dlpack__(self, **_):
            return x.__dlpack__()

    class Declines(ByDlpack, ByArray):
        def __dlpack__(self, **_):
            raise BufferError("no")

    for other in [ByArray(), ByDlpack(), Declines()]:
        np.testing.assert_array_equal(session.run([other])[0], x)
    with pytest.raises(bb.InputError, match="device of DLPack's type 2"):
        session.run([ByDlpack(2)])

    class Broken:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            return "no capsule"

        def __array__(self, dtype=None, copy=None):
            raise ValueError("broken")

    with pytest.raises(bb.InputError, match="broken"):
        session.run([Broken()])


def test_tensors_of_torch_are_read():
    torch = pytest.importorskip("torch")
    session = bb.Session(models.identity(models.FLOAT))
    x = torch.arange(4000, dtype=torch.float32).reshape(40, 100)
    for tensor in [x, x.T, x[::2]]:
        np.testing.assert_array_equal(session.run([tensor])[0], tensor.numpy())
    with pytest.raises(bb.InputError, match="requires grad"):
        session.run([x.requires_grad_()])


def test_strings():
    session = bb.Session(models.identity(models.STRING))
    texts = [["a", "zwölf"], ["", "日本"]]
    for array in [
        np.array(texts), np.array(texts, object), texts, np.char.encode(np.array(texts), "utf-8"),
        [[t.encode() for t in row] for row in texts],
    ]:
        [y] = session.run([array])
        assert y.dtype == object and y.shape == (2, 2)
        assert y.tolist() == texts
    assert session.run(["one"])[0].tolist() == "one"
    assert session.run([np.array([], object)])[0].shape == (0,)
    assert session.run([np.array(texts, object)[:, 1]])[0].tolist() == ["zwölf", "日本"]
    with pytest.raises(bb.InputError, match="element 1 is of type `int`"):
        session.run([np.array(["a", 1], object)])
    assert session.run([np.array([b"caf\xe9", "a"], object)])[0].tolist() == [b"caf\xe9", "a"]


def test_sequences_are_lists():
    of = models.tensor_type(models.FLOAT)
    ty = models.sequence_type(of)
    same = bb.Session(models.model([models.node("Identity", ["x"], ["y"])], [("x", ty)], [("y", ty)]))
    assert same.get_inputs()[0].type == "seq(tensor(float))"
    a, b = np.ones((2, 3), np.float32), np.zeros(4000, np.float32)
    [y] = same.run({"x": [a, b]})
    assert isinstance(y, list)
    np.testing.assert_array_equal(y[0], a)
    np.testing.assert_array_equal(y[1], b)
    assert same.run({"x": []}) == [[]]
    with pytest.raises(bb.InputError, match="expected a list of values, got `int`"):
        same.run({"x": 3})
    at = models.model(
        [models.node("SequenceAt", ["x", "i"], ["y"])], [("x", ty), ("i", models.tensor_type(models.INT64, []))],
        [("y", of)],
    )
    np.testing.assert_array_equal(bb.Session(at).run({"x": (a, b), "i": -1})[0], b)


def test_maps_are_dicts():
    scores = models.tensor_type(models.FLOAT, [None, 3])
    for labels, key in [({"classlabels_int64s": [5, 6, 7]}, models.INT64), ({"classlabels_strings": ["a", "b", "c"]}, models.STRING)]:
        ty = models.sequence_type(models.map_type(key, models.tensor_type(models.FLOAT, [])))
        zipped = models.model(
            [models.node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **labels)], [("x", scores)], [("y", ty)]
        )
        [y] = bb.Session(zipped).run([np.array([[1, 2, 3], [4, 5, 6]], np.float32)])
        [keys] = labels.values()
        assert y == [dict(zip(keys, row)) for row in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])]
        assert all(type(value) is float for value in y[0].values())
    ty = models.map_type(models.STRING, models.tensor_type(models.FLOAT, []))
    vector = models.model(
        [models.node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b", "c"])],
        [("x", ty)], [("y", models.tensor_type(models.FLOAT, [1, 3]))],
    )
    assert bb.Session(vector).run([{"c": 3.0, "a": 1.0}])[0].ravel().tolist() == [1, 0, 3]
    with pytest.raises(bb.InputError, match="expected a dict, got `list`"):
        bb.Session(vector).run([[1]])


def test_optionals_may_be_none():
    ty = models.optional_type(models.tensor_type(models.FLOAT))
    same = bb.Session(models.model([models.node("Identity", ["x"], ["y"])], [("x", ty)], [("y", ty)]))
    assert same.get_inputs()[0].type == "optional(tensor(float))"
    assert same.run({"x": None}) == [None]
    assert same.run({"x": np.ones(2, np.float32)})[0].tolist() == [1, 1]


def test_large_results_are_not_copied_and_may_be_written():
    session = bb.Session(models.unary("Neg"))
    x = np.ones(100_000, np.float32)
    [y] = session.run([x])
    assert y.base is not None and not y.flags.owndata and y.flags.writeable and y.flags.c_contiguous
    y *= 2
    [again] = session.run([x])
    assert again[0] == -1 and y[0] == -2
    del session
    gc.collect()
    assert (y == -2).all()
    [few] = bb.Session(models.unary("Neg")).run([x[:3]])
    few += 1
    assert few.tolist() == [0, 0, 0]


def test_results_never_share_the_memory_of_inputs_constants_or_each_other():
    weight = models.tensor(models.FLOAT, [3000], np.full(3000, 3, np.float32).tobytes(), "w")
    ty = models.tensor_type(models.FLOAT, [3000])
    names = ["x2", "w2", "n", "n2", "view"]
    nodes = [
        models.node("Identity", ["x"], ["x2"]), models.node("Identity", ["w"], ["w2"]),
        models.node("Neg", ["x"], ["n"]), models.node("Identity", ["n"], ["n2"]),
        models.node("Transpose", ["n"], ["view"], perm=[0]),
    ]
    session = bb.Session(models.model(nodes, [("x", ty)], [(name, ty) for name in names], [weight]))
    x = np.ones(3000, np.float32)
    for _ in range(3):
        outputs = session.run([x])
        expected = [1, 3, -1, -1, -1]
        assert [float(y[0]) for y in outputs] == expected
        for i, y in enumerate(outputs):
            assert not any(np.shares_memory(y, other) for other in [x, *outputs[:i]])
            y[:] = 77
        assert x[0] == 1


def test_inputs_are_released_after_a_run():
    import sys

    session = bb.Session(models.unary("Neg"))
    x = np.ones(100_000, np.float32)
    before = sys.getrefcount(x)
    for _ in range(20):
        session.run([x])
    session.run([np.ones(3, np.float32)])
    assert sys.getrefcount(x) == before


def test_many_runs_take_no_more_memory():
    session = bb.Session(models.unary("Neg"), threads=1)
    strings = bb.Session(models.identity(models.STRING))
    x, text = np.ones(50_000, np.float32), np.array(["some text"] * 100, object)

    def rounds(n):
        for _ in range(n):
            session.run([x])
            session.run([x[:5]])
            strings.run([text])
            with pytest.raises(bb.InputError):
                session.run([x.astype(np.float64)])
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    rounds(300)
    first = rounds(300)
    # 1500 results of 200 KB each are 300 MB.
    assert rounds(1500) - first < 8 << 20


def test_a_tensor_in_a_file_of_onnx_is_an_array(tmp_path):
    path = tmp_path / "input_0.pb"
    x = np.array([[1, 2.5], [-3, 4]], np.float32)
    path.write_bytes(models.tensor(models.FLOAT, [2, 2], x.tobytes(), name="x"))
    for given in (path, str(path)):
        read = bb.read_tensor(given)
        assert read.dtype == np.float32 and np.array_equal(read, x) and read.flags.writeable
    with pytest.raises(bb.FileNotFound, match="^there is no file '.*absent.pb'$") as missing:
        bb.read_tensor(tmp_path / "absent.pb")
    assert missing.value.filename == str(tmp_path / "absent.pb")
    path.write_bytes(b"no tensor")
    with pytest.raises(bb.FileError, match="input_0.pb` is no tensor: ") as raised:
        bb.read_tensor(path)
    assert (raised.value.filename, raised.value.kind) == (str(path), "configuration")
