//! Tests inferred result types of single operators with symbolic dimensions. The expected values follow from
//! the schemas.

use super::build::*;
use Operand::{Floats, Ints, Left, Open, Typed};
use bb_ir::TensorData;
use bb_ir::proto::AttributeProto;

/// An operand of a node.
#[derive(Clone, Copy)]
enum Operand {
    /// An `f32` input of this shape.
    Open(&'static str),
    /// An input of another type.
    Typed(i32, &'static str),
    /// A constant.
    Ints(&'static [i64]),
    Floats(&'static [f32]),
    /// An absent operand.
    Left,
}

/// Splits `n 3 h` into a list of extents.
fn dims(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Returns the types of a node's results. The operator's name may be preceded by its domain, and followed by
/// an opset.
fn results<const N: usize>(op: &str, operands: &[Operand], attributes: Vec<AttributeProto>) -> [String; N] {
    let (op, version) = op.split_once('@').map_or((op, None), |(op, v)| (op, v.parse::<i64>().ok()));
    let (domain, name) = op.rsplit_once('/').unwrap_or(("", op));
    let names: Vec<String> = (0..operands.len()).map(|i| format!("x{i}")).collect();
    let given = names.iter().zip(operands);
    let given: Vec<&str> = given.map(|(n, o)| if matches!(o, Left) { "" } else { n.as_str() }).collect();
    let outputs: Vec<String> = (0..N).map(|i| format!("y{i}")).collect();
    let mut call = node(name, &given, &outputs.iter().map(String::as_str).collect::<Vec<_>>());
    call.domain = Some(domain.to_owned());
    call.attribute = attributes;
    let mut g = graph(&[], vec![call], &outputs.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, operand) in names.iter().zip(operands) {
        match operand {
            Open(text) => g.input.push(value(name, 1, &dims(text))),
            Typed(dtype, text) => g.input.push(value(name, *dtype, &dims(text))),
            Ints(v) => g = initializer(g, name, &TensorData::new(&[v.len()], v).unwrap()),
            Floats(v) => g = initializer(g, name, &TensorData::new(&[v.len()], v).unwrap()),
            Left => {}
        }
    }
    let mut model = model(g);
    if domain.is_empty() {
        model.opset_import = vec![opset("", version.unwrap_or(26))];
    } else {
        model.opset_import.push(opset(domain, version.unwrap_or(1)));
    }
    let graph = run(&model).unwrap().graph;
    std::array::from_fn(|i| ty(&graph, &outputs[i]))
}

fn result(op: &str, operands: &[Operand], attributes: Vec<AttributeProto>) -> String {
    let [only] = results(op, operands, attributes);
    only
}

#[test]
fn windows_count_in_named_extents() {
    let conv = |attributes| result("Conv", &[Open("n 3 h 17"), Open("8 3 3 3")], attributes);
    assert_eq!(conv(vec![]), "f32[n, 8, h - 2, 15]");
    let strided = vec![ints("strides", &[2, 2]), ints("pads", &[1, 1, 1, 1])];
    assert_eq!(conv(strided), "f32[n, 8, floor((h + 1)/2), 9]");
    assert_eq!(conv(vec![ints("dilations", &[2, 2])]), "f32[n, 8, h - 4, 13]");
    let same = vec![text("auto_pad", "SAME_UPPER"), ints("strides", &[2, 2])];
    assert_eq!(conv(same), "f32[n, 8, floor((h + 1)/2), 9]");
    let valid = vec![text("auto_pad", "VALID"), ints("strides", &[2, 2])];
    assert_eq!(conv(valid), "f32[n, 8, floor((h + 1)/2) - 1, 8]");
}

#[test]
fn pooling_that_rounds_up_omits_windows_that_start_in_the_padding() {
    let pool = |pads: &[i64], stride: i64| {
        let attributes = vec![
            ints("kernel_shape", &[2]),
            ints("strides", &[stride]),
            ints("pads", pads),
            int("ceil_mode", 1),
        ];
        result("MaxPool", &[Open("1 1 5")], attributes)
    };
    // The windows start at 0, 2 and 4.
    assert_eq!(pool(&[0, 0], 2), "f32[1, 1, 3]");
    // A window at 6 would start in the padding.
    assert_eq!(pool(&[0, 1], 3), "f32[1, 1, 2]");
    assert_eq!(pool(&[0, 3], 5), "f32[1, 1, 1]");
    let named =
        result("AveragePool", &[Open("n c w")], vec![ints("kernel_shape", &[3]), ints("strides", &[2])]);
    assert_eq!(named, "f32[n, c, floor((w + 1)/2) - 1]");
}

#[test]
fn transposed_windows_grow_extents() {
    let conv = |attributes| result("ConvTranspose", &[Open("n 4 h w"), Open("4 2 3 3")], attributes);
    assert_eq!(conv(vec![ints("strides", &[2, 1])]), "f32[n, 2, 2*h + 1, w + 2]");
    let more = vec![ints("strides", &[2, 2]), ints("output_padding", &[1, 0]), ints("pads", &[1; 4])];
    assert_eq!(conv(more), "f32[n, 2, 2*h, 2*w - 1]");
    assert_eq!(conv(vec![ints("output_shape", &[9, 7])]), "f32[n, 2, 9, 7]");
    let same = vec![text("auto_pad", "SAME_LOWER"), ints("strides", &[3, 1]), int("group", 2)];
    assert_eq!(conv(same), "f32[n, 4, 3*h, w]");
    let unpool = vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
    let unpooled = result("MaxUnpool", &[Open("n 1 h 3"), Typed(7, "n 1 h 3")], unpool);
    assert_eq!(unpooled, "f32[n, 1, 2*h, 6]");
}

#[test]
fn resizing_scales_or_sets_extents() {
    let scales = |s| result("Resize", &[Open("n 3 h 5"), Left, Floats(s)], vec![]);
    assert_eq!(scales(&[1.0, 1.0, 2.0, 1.5]), "f32[n, 3, 2*h, 7]");
    assert_eq!(scales(&[1.0, 1.0, 0.5, 0.6]), "f32[n, 3, floor(h/2), 3]");
    // Single precision cannot represent a third exactly.
    assert_eq!(scales(&[1.0, 1.0, 1.0 / 3.0, 1.0]), "f32[n, 3, ?, 5]");
    let sizes = |s, attributes| result("Resize", &[Open("n 3 h 5"), Left, Left, Ints(s)], attributes);
    assert_eq!(sizes(&[1, 3, 8, 9], vec![]), "f32[1, 3, 8, 9]");
    assert_eq!(sizes(&[8, 9], vec![ints("axes", &[2, -1])]), "f32[n, 3, 8, 9]");
    let kept = vec![ints("axes", &[1, 3]), text("keep_aspect_ratio_policy", "not_larger")];
    assert_eq!(sizes(&[6, 15], kept), "f32[n, 6, h, 10]");
}

#[test]
fn attention_keeps_its_cache() {
    let operands = [Open("b s 32"), Open("b t 16"), Open("b t 24"), Left, Open("b 2 p 8"), Open("b 2 p 12")];
    let heads = || vec![int("q_num_heads", 4), int("kv_num_heads", 2)];
    let [y, k, v, products] = results("Attention", &operands, heads());
    assert_eq!(y, "f32[b, s, 48]");
    assert_eq!((k.as_str(), v.as_str()), ("f32[b, 2, p + t, 8]", "f32[b, 2, p + t, 12]"));
    assert_eq!(products, "f32[b, 4, s, p + t]");
    let four = [Open("b 4 s 8"), Open("b 2 t 8"), Open("b 2 t 6")];
    assert_eq!(result("Attention", &four, vec![]), "f32[b, 4, s, 6]");
    let flex = result("ai.onnx.preview/FlexAttention", &four, vec![]);
    assert_eq!(flex, "f32[b, 4, s, 6]");
}

#[test]
fn attention_of_onnx_runtime_has_a_cache_of_both() {
    let [y, present] = results(
        "com.microsoft/Attention",
        &[Open("b s 64"), Open("64 192"), Open("192"), Left, Open("2 b 4 p 16")],
        vec![int("num_heads", 4)],
    );
    assert_eq!((y.as_str(), present.as_str()), ("f32[b, s, 64]", "f32[2, b, 4, p + s, 16]"));
    let operands =
        [Open("b s 64"), Open("b t 64"), Open("b t 32"), Left, Left, Left, Open("b 4 p 16"), Open("b 4 p 8")];
    let [y, k, v] = results("com.microsoft/MultiHeadAttention", &operands, vec![int("num_heads", 4)]);
    assert_eq!(y, "f32[b, s, 32]");
    assert_eq!((k.as_str(), v.as_str()), ("f32[b, 4, p + t, 16]", "f32[b, 4, p + t, 8]"));
    let sum = results::<4>(
        "com.microsoft/SkipLayerNormalization",
        &[Open("b s 8"), Open("b s 8"), Open("8")],
        vec![],
    );
    assert_eq!(sum, ["f32[b, s, 8]", "f32[b, s, 1]", "f32[b, s, 1]", "f32[b, s, 8]"]);
    let product = result(
        "com.microsoft/FusedMatMul",
        &[Open("b k m"), Open("b n k")],
        vec![int("transA", 1), int("transB", 1)],
    );
    assert_eq!(product, "f32[b, m, n]");
    let bits = result(
        "com.microsoft/MatMulNBits",
        &[Open("b s 64"), Typed(2, "32 1 32"), Open("32")],
        vec![int("K", 64), int("N", 32)],
    );
    assert_eq!(bits, "f32[b, s, 32]");
}

#[test]
fn operators_of_optimisers_and_quantisers_have_types() {
    let ours = |op: &str, operands: &[Operand], attributes| {
        result(&format!("com.microsoft/{op}"), operands, attributes)
    };
    let conv = ours("FusedConv", &[Open("n 3 h w"), Open("8 3 3 3")], vec![ints("pads", &[1, 1, 1, 1])]);
    assert_eq!(conv, "f32[n, 8, h, w]");
    assert_eq!(ours("FusedGemm", &[Open("k m"), Open("k n")], vec![int("transA", 1)]), "f32[m, n]");
    assert_eq!(ours("CDist", &[Open("a k"), Open("b k")], vec![]), "f32[a, b]");
    let one = Open("");
    let (bytes, zero) = (Typed(2, "m k"), Typed(2, ""));
    let gemm = [bytes, one, zero, Typed(2, "n k"), one, zero, Left, one, zero];
    assert_eq!(ours("QGemm", &gemm, vec![int("transB", 1)]), "u8[m, n]");
    assert_eq!(ours("QGemm", &gemm[..6], vec![int("transB", 1)]), "f32[m, n]");
    let conv = [Typed(2, "n h w 4"), one, zero, Typed(3, "8 4 1 1"), one, Typed(3, ""), one, zero];
    assert_eq!(ours("QLinearConv", &conv, vec![int("channels_last", 1)]), "u8[n, h, w, 8]");
    let pool = ours("NhwcMaxPool", &[Typed(2, "n 8 8 c")], vec![ints("kernel_shape", &[2, 2])]);
    assert_eq!(pool, "u8[n, 7, 7, c]");
    let mean = [Typed(2, "n c h w"), one, zero, one, zero];
    assert_eq!(
        ours("QLinearReduceMean", &mean, vec![ints("axes", &[2, -1]), int("keepdims", 0)]),
        "u8[n, c]"
    );
    let table = [Typed(2, "1000 32"), Typed(7, "b s"), Open("1000 4")];
    assert_eq!(ours("GatherBlockQuantized", &table, vec![int("bits", 4)]), "f32[b, s, 64]");
    assert_eq!(ours("Tokenizer", &[Typed(8, "3")], vec![]), "string[3, ?]");
    assert_eq!(ours("Tokenizer", &[Typed(8, "0")], vec![]), "string[0]");
    assert_eq!(ours("MurmurHash3", &[Typed(8, "n 1")], vec![int("positive", 0)]), "i32[n, 1]");
    assert_eq!(ours("ExpandDims", &[Open("a b"), Ints(&[1])], vec![]), "f32[a, 1, b]");
    let crop = [Open("n c h w"), Open("r 4"), Typed(6, "r"), Ints(&[4, 5])];
    assert_eq!(ours("CropAndResize", &crop, vec![]), "f32[r, c, 4, 5]");
    let grown = [Open("n 2 h w"), Open("2 3 3 3"), Ints(&[1, 0, 1, 0])];
    assert_eq!(ours("ConvTransposeWithDynamicPads", &grown, vec![]), "f32[n, 3, h, w + 2]");
    let [y, place, count] = results("com.microsoft/Unique", &[Open("n")], vec![]);
    assert_eq!((y.as_str(), place.as_str(), count.as_str()), ("f32[?]", "i64[n]", "i64[?]"));
    let codes = [Open("b 64"), Typed(2, "1024"), Open("128")];
    assert_eq!(ours("MatMulBnb4", &codes, vec![int("K", 64), int("N", 32)]), "f32[b, 32]");
}

#[test]
fn fourier_transforms_have_one_bin_per_sample() {
    let dft = |operands: &[Operand], attributes| result("DFT", operands, attributes);
    assert_eq!(dft(&[Open("b n 1")], vec![]), "f32[b, n, 2]");
    assert_eq!(dft(&[Open("b n 1")], vec![int("onesided", 1)]), "f32[b, floor(n/2) + 1, 2]");
    assert_eq!(dft(&[Open("b n 1"), Ints(&[16])], vec![]), "f32[b, 16, 2]");
    assert_eq!(dft(&[Open("b 9 2")], vec![int("onesided", 1), int("inverse", 1)]), "f32[b, 16, 1]");
    let stft = result("STFT", &[Open("b n 1"), Ints(&[4]), Open("16")], vec![]);
    assert_eq!(stft, "f32[b, floor(n/4) - 3, 9, 2]");
    let mel = [Ints(&[8]), Ints(&[16]), Ints(&[8192]), Floats(&[0.0]), Floats(&[4096.0])];
    assert_eq!(result("MelWeightMatrix", &mel, vec![]), "f32[9, 8]");
}

#[test]
fn images_are_cropped_and_folded() {
    let crop = |to, attributes| result("CenterCropPad", &[Open("n 3 h w"), Ints(to)], attributes);
    assert_eq!(crop(&[10, 12], vec![ints("axes", &[-2, -1])]), "f32[n, 3, 10, 12]");
    let fold = result("Col2Im", &[Open("n 20 l"), Ints(&[5, 5]), Ints(&[1, 5])], vec![]);
    assert_eq!(fold, "f32[n, 4, 5, 5]");
    let space = |op| result(op, &[Open("n 8 h 4")], vec![int("blocksize", 2)]);
    assert_eq!(space("DepthToSpace"), "f32[n, 2, 2*h, 8]");
    assert_eq!(space("SpaceToDepth"), "f32[n, 32, floor(h/2), 2]");
    assert_eq!(result("ImageDecoder", &[Typed(2, "n")], vec![]), "u8[?, ?, 3]");
}

#[test]
fn products_follow_their_equations() {
    let einsum =
        |equation: &str, operands: &[Operand]| result("Einsum", operands, vec![text("equation", equation)]);
    assert_eq!(einsum("bij,bjk->bik", &[Open("b i j"), Open("b j k")]), "f32[b, i, k]");
    // Without an arrow, the result has the letters that occur once, in alphabetical order.
    assert_eq!(einsum("ij,jk", &[Open("a b"), Open("b c")]), "f32[a, c]");
    assert_eq!(einsum("...ij,...jk->...ik", &[Open("b 1 i j"), Open("4 j k")]), "f32[b, 4, i, k]");
    assert_eq!(einsum("ii->i", &[Open("n n")]), "f32[n]");
    assert_eq!(einsum("...ii", &[Open("b 3 3")]), "f32[b]");
}

#[test]
fn machine_learning_operators_return_rows_and_targets() {
    let ml = |op: &str| format!("ai.onnx.ml/{op}@3");
    let regressor = result(&ml("LinearRegressor"), &[Open("n 4")], vec![int("targets", 2)]);
    assert_eq!(regressor, "f32[n, 2]");
    let labels = || vec![ints("classlabels_ints", &[0, 1, 2])];
    let [label, scores] = results(
        &ml("LinearClassifier"),
        &[Open("n 4")],
        [labels(), vec![floats("coefficients", &[0.0; 12])]].concat(),
    );
    assert_eq!((label.as_str(), scores.as_str()), ("i64[n]", "f32[n, 3]"));
    let votes = vec![ints("vectors_per_class", &[1, 1, 1]), ints("classlabels_ints", &[0, 1, 2, 3])];
    let [_, scores] = results(&ml("SVMClassifier"), &[Open("n 4")], votes);
    assert_eq!(scores, "f32[n, 6]");
    let columns = result(&ml("ArrayFeatureExtractor"), &[Open("n 4"), Ints(&[1, 3])], vec![]);
    assert_eq!(columns, "f32[n, 2]");
    let joined =
        result(&ml("FeatureVectorizer"), &[Open("n 2"), Open("n 3")], vec![ints("inputdimensions", &[2, 3])]);
    assert_eq!(joined, "f32[n, 5]");
}

#[test]
fn extents_that_depend_on_data_are_unknown() {
    let nothing = || vec![];
    assert_eq!(result("NonMaxSuppression", &[Open("n m 4"), Open("n c m")], nothing()), "i64[?, 3]");
    let unique = results::<4>("Unique", &[Open("n 3")], nothing());
    assert_eq!(unique, ["f32[?]", "i64[?]", "i64[3*n]", "i64[?]"]);
    let texts = results::<2>("StringSplit", &[Typed(8, "n")], nothing());
    assert_eq!(texts, ["string[n, ?]", "i64[n]"]);
    assert_eq!(result("NonZero", &[Open("n 3")], nothing()), "i64[2, ?]");
}

#[test]
fn optimizers_return_parameters_and_state() {
    let operands =
        [Open(""), Typed(7, ""), Open("n"), Open("3 m"), Open("n"), Open("3 m"), Open("n"), Open("3 m")];
    let moved = results::<4>("ai.onnx.preview.training/Adagrad", &operands, vec![]);
    assert_eq!(moved, ["f32[n]", "f32[3, m]", "f32[n]", "f32[3, m]"]);
}
