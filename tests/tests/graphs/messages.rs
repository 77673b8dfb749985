//! Tests that errors name the attribute of a node that is wrong, and do not only report shapes that do not fit.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ir::proto::{AttributeProto, GraphProto, NodeProto, attribute_proto::AttributeType};
use bb::{CompileOptions, DataType, Module, TensorData};
use bb_tests::backends;
use bb_tests::model::{node, serialized, untyped, value, with_int};

fn with_ints(mut node: NodeProto, name: &str, ints: &[i64]) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::Ints as i32),
        ints: ints.to_vec(),
        ..AttributeProto::default()
    });
    node
}

/// Returns the error of a node that reads `x` of shape [1, 4, 8, 8], and `w` of shape `w`.
fn cause(node: NodeProto, w: &[usize]) -> String {
    let on = backends::start("reference").unwrap();
    let zeros = |shape: &[usize]| TensorData::zeros(DataType::F32, shape, 1 << 20).unwrap();
    let graph = GraphProto {
        name: Some("g".to_owned()),
        node: vec![node],
        input: vec![value("x", 1, &["b", "c", "h", "w"])],
        output: vec![untyped("y")],
        initializer: vec![zeros(w).to_proto("w")],
        ..GraphProto::default()
    };
    let run = || {
        let module = Module::from_bytes(serialized(graph))?;
        let graph = on.clone().compile(module, &CompileOptions::default())?;
        graph.run(&[Some(&on.constant(&zeros(&[1, 4, 8, 8]))?)])
    };
    let error: bb::Error = run().unwrap_err();
    let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    chain.last().unwrap().to_string()
}

#[test]
fn groups_of_convolutions() {
    let conv = |group, w: &[usize]| cause(with_int(node("Conv", &["x", "w"], &["y"]), "group", group), w);
    let own = [4, 4, 3, 3];
    assert_eq!(conv(0, &own), "`Conv`: group is 0, expected a positive number");
    assert_eq!(conv(-1, &own), "`Conv`: group is -1, expected a positive number");
    assert_eq!(conv(3, &own), "`Conv`: group is 3, which does not divide the operand's 4 channels");
    let problem =
        "`Conv`: the filters are for 4 channels each; the operand has 4 in 2 groups, which is 2 each";
    assert_eq!(conv(2, &own), problem);
    assert_eq!(conv(2, &[3, 2, 3, 3]), "`Conv`: group is 2, which does not divide the 3 filters");
    assert_eq!(conv(1, &[4, 4, 3]), "`Conv`: the filters have rank 3; the operand has rank 4");
    let back =
        |group, w: &[usize]| cause(with_int(node("ConvTranspose", &["x", "w"], &["y"]), "group", group), w);
    assert_eq!(back(0, &own), "`ConvTranspose`: group is 0, expected a positive number");
    assert_eq!(back(3, &own), "`ConvTranspose`: group is 3, which does not divide the operand's 4 channels");
    let problem = "`ConvTranspose`: the filters are for 2 channels; the operand has 4";
    assert_eq!(back(1, &[2, 4, 3, 3]), problem);
}

#[test]
fn windows() {
    for op in ["MaxPool", "AveragePool"] {
        let pool = with_ints(node(op, &["x"], &["y"]), "kernel_shape", &[0, 2]);
        assert_eq!(cause(pool, &[1]), format!("`{op}`: kernel_shape has 0, expected a positive number"));
    }
    let conv = |name: &str, ints: &[i64]| {
        cause(with_ints(node("Conv", &["x", "w"], &["y"]), name, ints), &[4, 4, 3, 3])
    };
    assert_eq!(conv("strides", &[0, 1]), "`Conv`: strides has 0, expected a positive number");
    assert_eq!(conv("dilations", &[1, 0]), "`Conv`: dilations has 0, expected a positive number");
    assert_eq!(conv("kernel_shape", &[5, 5]), "`Conv`: kernel_shape is [5, 5]; the filters' is [3, 3]");
}

#[test]
fn blocks_and_permutations() {
    let block = |op: &str| cause(with_int(node(op, &["x"], &["y"]), "blocksize", 3), &[1]);
    assert_eq!(
        block("DepthToSpace"),
        "`DepthToSpace`: blocksize is 3, whose square does not divide 4 channels"
    );
    assert_eq!(
        block("SpaceToDepth"),
        "`SpaceToDepth`: blocksize is 3, which does not divide extents 8 and 8"
    );
    let perm = |perm: &[i64]| cause(with_ints(node("Transpose", &["x"], &["y"]), "perm", perm), &[1]);
    assert_eq!(perm(&[0, 1, 1, 2]), "`perm` is [0, 1, 1, 2], not a permutation of 4 dimensions");
    assert_eq!(perm(&[0, 1]), "`perm` is [0, 1], not a permutation of 4 dimensions");
}
