//! Products and convolutions, each a model of one operator, which other engines can run, too.

use bb::DataType;
use bb::ir::proto::{ModelProto, NodeProto, TensorProto};
use bb_tests::model::{model, node, typed, with_int, with_ints};
use prost::Message;

/// A name, and the function that creates its model.
type Product = (&'static str, fn() -> Vec<u8>);

/// The products. Names of matrix products have their extents; if there are four, the first one is a number of products. Products with
/// bits have columns of integers of this width in blocks of 32.
pub(super) const PRODUCTS: [Product; 24] = [
    ("f32 64x64x64", || floats(&[64, 64], &[64, 64], false)),
    ("f32 128x128x128", || floats(&[128, 128], &[128, 128], false)),
    ("f32 256x256x256", || floats(&[256, 256], &[256, 256], false)),
    ("f32 61x61x61", || floats(&[61, 61], &[61, 61], false)),
    ("f32 8x64x64x64", || floats(&[8, 64, 64], &[8, 64, 64], false)),
    ("f32 8x768x768", || floats(&[8, 768], &[768, 768], false)),
    ("f32 8x768x768 constant", || floats(&[8, 768], &[768, 768], true)),
    ("f32 1x768x768", || floats(&[1, 768], &[768, 768], false)),
    ("f32 1x768x768 constant", || floats(&[1, 768], &[768, 768], true)),
    ("u8 i8 64x64x64", || bytes(&[64, 64], &[64, 64], false)),
    ("u8 i8 128x128x128", || bytes(&[128, 128], &[128, 128], false)),
    ("u8 i8 256x256x256", || bytes(&[256, 256], &[256, 256], false)),
    ("u8 i8 61x61x61", || bytes(&[61, 61], &[61, 61], false)),
    ("u8 i8 8x768x768", || bytes(&[8, 768], &[768, 768], false)),
    ("u8 i8 8x768x768 constant", || bytes(&[8, 768], &[768, 768], true)),
    ("u8 i8 1x768x768", || bytes(&[1, 768], &[768, 768], false)),
    ("u8 i8 1x768x768 constant", || bytes(&[1, 768], &[768, 768], true)),
    ("4 bits 64x768x768", || blocks(4, 32, &[64, 768], 768)),
    ("4 bits 1x768x768", || blocks(4, 32, &[1, 768], 768)),
    ("8 bits 64x768x768", || blocks(8, 32, &[64, 768], 768)),
    ("8 bits 1x768x768", || blocks(8, 32, &[1, 768], 768)),
    ("conv 3x3", || conv(&[1, 32, 28, 28], &[32, 32, 3, 3], 1)),
    ("conv 1x1", || conv(&[1, 64, 28, 28], &[64, 64, 1, 1], 0)),
    ("conv 3x3 depthwise", || conv(&[1, 64, 28, 28], &[64, 1, 3, 3], 1)),
];

/// A product of `f32`, whose right operand may be constant.
fn floats(a: &[i64], b: &[i64], constant: bool) -> Vec<u8> {
    of_two("MatMul", a, b, constant, [DataType::F32; 3])
}

/// A product of unsigned and signed bytes, whose right operand may be constant.
fn bytes(a: &[i64], b: &[i64], constant: bool) -> Vec<u8> {
    of_two("MatMulInteger", a, b, constant, [DataType::U8, DataType::I8, DataType::I32])
}

/// A product of rows that are rounded to 8 bits with columns of integers of `bits` bits, in blocks of `block` numbers. Scales are floats of
/// 16 bits, as most models have them, and no block has a zero point of its own.
fn blocks(bits: i64, block: i64, a: &[i64; 2], columns: i64) -> Vec<u8> {
    let [rows, inner] = *a;
    let count = inner / block;
    let node = NodeProto {
        domain: Some("com.microsoft".to_owned()),
        ..node("MatMulNBits", &["x", "w", "scales"], &["y"])
    };
    let attributes =
        [("K", inner), ("N", columns), ("bits", bits), ("block_size", block), ("accuracy_level", 4)];
    let node = attributes.into_iter().fold(node, |node, (name, value)| with_int(node, name, value));
    let mut model = ModelProto::decode(&*model(&[("x", a)], vec![node], &[("y", &[rows, columns])])).unwrap();
    let scales = (0..columns * count).flat_map(|i| ((i % 31 + 1) as f32 / 1024.0).to_le_bytes()).collect();
    let numbers = (0..columns * inner * bits / 8).map(|i| (i * 7919 % 251) as u8).collect();
    add_constant(&mut model, "w", DataType::U8, &[columns, count, block * bits / 8], numbers);
    add_constant(&mut model, "scales", DataType::F32, &[columns, count], scales);
    model.encode_to_vec()
}

fn of_two(op: &str, a: &[i64], b: &[i64], constant: bool, [x, w, y]: [DataType; 3]) -> Vec<u8> {
    let nodes = vec![node(op, &["x", "w"], &["y"])];
    let out: Vec<i64> = a.iter().take(a.len() - 1).chain(b.last()).copied().collect();
    if constant {
        let model = typed(model(&[("x", a)], nodes, &[("y", &out)]), &[("x", x), ("y", y)]);
        with_constant(model, "w", w, b)
    } else {
        typed(model(&[("x", a), ("w", b)], nodes, &[("y", &out)]), &[("x", x), ("w", w), ("y", y)])
    }
}

/// A convolution with constant filters. If they have one channel, each is for one channel.
fn conv(x: &[i64; 4], filters: &[i64; 4], pad: i64) -> Vec<u8> {
    let ([_, channels, height, width], [out, each, ..]) = (*x, *filters);
    let conv: NodeProto = with_ints(node("Conv", &["x", "w"], &["y"]), "pads", &[pad; 4]);
    // RTen requires attributes that are optional in the standard.
    let conv = with_ints(with_int(conv, "group", channels / each), "strides", &[1; 2]);
    with_constant(
        model(&[("x", x)], vec![conv], &[("y", &[1, out, height, width])]),
        "w",
        DataType::F32,
        filters,
    )
}

/// Adds a constant to a serialized model.
fn with_constant(bytes: Vec<u8>, name: &str, dtype: DataType, extents: &[i64]) -> Vec<u8> {
    let mut model = ModelProto::decode(&*bytes).unwrap();
    let numbers = 0..extents.iter().product::<i64>();
    let raw: Vec<u8> = match dtype {
        DataType::F32 => numbers.flat_map(|i| ((i % 23) as f32 / 23.0 - 0.4).to_le_bytes()).collect(),
        _ => numbers.map(|i| (i % 127) as u8).collect(),
    };
    add_constant(&mut model, name, dtype, extents, raw);
    model.encode_to_vec()
}

fn add_constant(model: &mut ModelProto, name: &str, dtype: DataType, extents: &[i64], raw: Vec<u8>) {
    let constant = TensorProto {
        name: Some(name.to_owned()),
        dims: extents.to_vec(),
        data_type: Some(dtype.to_onnx()),
        raw_data: Some(raw.into()),
        ..TensorProto::default()
    };
    model.graph.as_mut().unwrap().initializer.push(constant);
}
