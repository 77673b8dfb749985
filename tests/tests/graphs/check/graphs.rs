//! Tests the names, order, types, attributes and opsets of a graph.

use super::build::*;
use bb_ir::check::{CheckOptions, check};
use bb_ir::graph::Warning;
use bb_ir::proto::{ModelProto, NodeProto, SparseTensorProto};
use bb_ir::{Error, Limits, TensorData};

#[test]
fn an_input_may_be_an_output_and_an_output_be_named_twice() {
    let graph = checked(graph(&["x"], vec![], &["x", "x"])).unwrap();
    assert_eq!((graph.outputs.len(), graph.nodes.len()), (2, 0));
    assert_eq!(graph.outputs[0], graph.inputs[0]);
}

#[test]
fn an_initializer_that_is_an_input_is_its_default() {
    let g = graph(&["x", "w"], vec![node("Add", &["x", "w"], &["y"])], &["y"]);
    let g = initializer(g, "w", &TensorData::new(&[1], &[1f32]).unwrap());
    let graph = checked(g).unwrap();
    assert_eq!(graph.inputs.len(), 2);
    assert_eq!(graph.constants[0].0, graph.inputs[1]);
}

#[test]
fn raw_data_is_adopted_and_typed() {
    let g = initializer(graph(&[], vec![], &["w"]), "w", &TensorData::new(&[2], &[1f32, 2.]).unwrap());
    let model = model(g);
    let raw = model.graph.as_ref().unwrap().initializer[0].raw_data.clone().unwrap();
    let graph = run(&model).unwrap().graph;
    assert_eq!(graph.constants[0].1.bytes().unwrap().as_ptr(), raw.as_ptr());
    assert_eq!(ty(&graph, "w"), "f32[2]");
}

#[test]
fn sparse_initializers_are_dense() {
    let mut g = graph(&[], vec![], &["w"]);
    g.sparse_initializer.push(SparseTensorProto {
        values: Some(TensorData::new(&[2], &[5f32, 6.]).unwrap().to_proto("w")),
        indices: Some(TensorData::new(&[2], &[1i64, 3]).unwrap().to_proto("")),
        dims: vec![2, 2],
    });
    let graph = checked(g).unwrap();
    assert_eq!(graph.constants[0].1.as_slice::<f32>().unwrap(), [0., 5., 0., 6.]);
}

#[test]
fn names_are_provided_once() {
    let twice = graph(&["x", "z"], vec![node("Neg", &["z"], &["x"])], &["x"]);
    assert!(matches!(checked(twice), Err(Error::DuplicateValue { value, .. }) if value == "x"));
    let w = TensorData::new(&[1], &[1f32]).unwrap();
    let twice = initializer(initializer(graph(&[], vec![], &["w"]), "w", &w), "w", &w);
    assert!(matches!(checked(twice), Err(Error::DuplicateValue { .. })));
    assert!(matches!(checked(graph(&["x", "x"], vec![], &["x"])), Err(Error::DuplicateValue { .. })));
}

#[test]
fn nodes_are_put_in_order() {
    let nodes = vec![node("Neg", &["b"], &["c"]), node("Abs", &["a"], &["b"]), node("Exp", &["x"], &["a"])];
    assert_eq!(ops(&checked(graph(&["x"], nodes, &["c"])).unwrap()), ["Exp", "Abs", "Neg"]);
}

#[test]
fn outputs_need_a_provider() {
    assert!(
        matches!(checked(graph(&["x"], vec![], &["y"])), Err(Error::MissingOutput { value }) if value == "y")
    );
}

#[test]
fn only_optional_operands_may_be_absent() {
    let clip = node("Clip", &["x", "", ""], &["y"]);
    let graph_ok = checked(graph(&["x"], vec![clip], &["y"])).unwrap();
    assert_eq!(graph_ok.nodes[0].inputs.len(), 1);
    let add = node("Add", &["", "x"], &["y"]);
    let error = checked(graph(&["x"], vec![add], &["y"])).unwrap_err();
    assert!(matches!(cause(error), Error::LeftOut { input: 0 }));
    let add = node("Add", &["x"], &["y"]);
    let error = checked(graph(&["x"], vec![add], &["y"])).unwrap_err();
    assert!(matches!(cause(error), Error::Count { least: 2, most: 2, got: 1, .. }));
}

#[test]
fn attributes_are_those_of_the_version() {
    let squeeze = || node("Squeeze", &["x"], &["y"]).with(ints("axes", &[0]));
    let at = |version| ModelProto {
        opset_import: vec![opset("ai.onnx", version)],
        ..model(graph(&["x"], vec![squeeze()], &["y"]))
    };
    assert_eq!(run(&at(11)).unwrap().graph.nodes[0].opset, 11);
    assert!(matches!(cause(run(&at(13)).unwrap_err()), Error::UnknownAttribute { name } if name == "axes"));
    let concat = node("Concat", &["x"], &["y"]);
    let error = checked(graph(&["x"], vec![concat.clone()], &["y"])).unwrap_err();
    assert!(matches!(cause(error), Error::MissingAttribute { name: "axis", .. }));
    let error = checked(graph(&["x"], vec![concat.with(ints("axis", &[0]))], &["y"])).unwrap_err();
    assert!(matches!(cause(error), Error::AttributeKind { expected: "an integer", .. }));
    let twice = node("Concat", &["x"], &["y"]).with(int("axis", 0)).with(int("axis", 0));
    let error = checked(graph(&["x"], vec![twice], &["y"])).unwrap_err();
    assert!(matches!(cause(error), Error::DuplicateAttribute { .. }));
}

#[test]
fn opsets_are_checked_per_domain() {
    let with = |opsets| ModelProto {
        opset_import: opsets,
        ..model(graph(&["x"], vec![node("Neg", &["x"], &["y"])], &["y"]))
    };
    assert!(matches!(run(&with(vec![opset("", 29)])), Err(Error::Opset { newest: 28, .. })));
    assert!(matches!(run(&with(vec![opset("", 0)])), Err(Error::Opset { .. })));
    assert!(matches!(cause(run(&with(vec![])).unwrap_err()), Error::NoOpset { .. }));
    let mut foreign = with(vec![opset("com.example", 7)]);
    foreign.graph.as_mut().unwrap().node[0].domain = Some("com.example".to_owned());
    assert_eq!(run(&foreign).unwrap().graph.nodes[0].opset, 7);
}

/// ONNX Runtime 1.32 uses the last import of a domain.
#[test]
fn the_last_import_of_a_domain_counts() {
    let with = |versions: &[(&str, i64)]| ModelProto {
        opset_import: versions.iter().map(|(domain, version)| opset(domain, *version)).collect(),
        ..model(graph(&["x"], vec![node("Neg", &["x"], &["y"])], &["y"]))
    };
    for (versions, used, other) in [
        (&[("", 13), ("", 14)][..], 14, Some(13)),
        (&[("", 14), ("", 13)], 13, Some(14)),
        (&[("", 13), ("ai.onnx", 14)], 14, Some(13)),
        (&[("ai.onnx", 14), ("ai.onnx.ml", 3), ("", 13)], 13, Some(14)),
        (&[("", 99), ("", 13)], 13, Some(99)),
        (&[("", 13), ("", 13)], 13, None),
    ] {
        let checked = run(&with(versions)).unwrap();
        assert_eq!((checked.graph.nodes[0].opset, checked.opsets[""]), (used, used), "{versions:?}");
        let expected =
            other.map(|other| Warning::ImportedTwice { function: None, domain: String::new(), other, used });
        assert_eq!(checked.graph.warnings(), expected.into_iter().collect::<Vec<_>>());
    }
    assert!(matches!(run(&with(&[("", 13), ("", 99)])), Err(Error::Opset { version: 99, .. })));
    // A function has imports of its own, each with one warning.
    let mut of = function("f", &["x"], vec![node("Neg", &["x"], &["y"])], &["y"]);
    of.opset_import = vec![opset("", 17), opset("", 18)];
    let mut calls = graph(&["x"], vec![call("f", &["x"], &["z"]), call("f", &["z"], &["y"])], &["y"]);
    calls.name = Some("g".to_owned());
    let checked = run(&ModelProto { functions: vec![of], ..model(calls) }).unwrap();
    assert_eq!(checked.graph.nodes.iter().map(|node| node.opset).collect::<Vec<_>>(), [18, 18]);
    let texts: Vec<String> = checked.graph.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "in function `f::f`, domain `ai.onnx` is imported in version 17 and in version 18; version 18 is used, because it is the \
          last"
        ]
    );
}

/// ONNX Runtime 1.32 takes the newest version of its own and ONNX's domains where a model imports none, but not in functions.
#[test]
fn operators_of_known_domains_need_no_import() {
    let of =
        |domain: &str, op: &str| NodeProto { domain: Some(domain.to_owned()), ..node(op, &["x"], &["y"]) };
    for (domain, op, used) in [("ai.onnx.ml", "Normalizer", 5), ("com.microsoft", "Gelu", 1)] {
        let checked = run(&model(graph(&["x"], vec![of(domain, op)], &["y"]))).unwrap();
        assert_eq!(checked.graph.nodes[0].opset, used);
        assert_eq!(checked.graph.warnings(), [Warning::NotImported { domain: domain.to_owned(), used }]);
        let error = run(&ModelProto {
            functions: vec![function("f", &["x"], vec![of(domain, op)], &["y"])],
            ..model(graph(&["x"], vec![call("f", &["x"], &["y"])], &["y"]))
        });
        assert!(matches!(cause(error.unwrap_err()), Error::NoOpset { domain: got } if got == domain));
    }
    let foreign = run(&model(graph(&["x"], vec![of("com.example", "Gelu")], &["y"])));
    assert!(matches!(cause(foreign.unwrap_err()), Error::NoOpset { .. }));
    // The operators of ONNX's own domain differ too much between versions.
    let own = ModelProto {
        opset_import: vec![opset("ai.onnx.ml", 3)],
        ..model(graph(&["x"], vec![node("Neg", &["x"], &["y"])], &["y"]))
    };
    assert!(matches!(cause(run(&own).unwrap_err()), Error::NoOpset { .. }));
}

#[test]
fn declared_element_types_must_hold() {
    let mut g = graph(&["x"], vec![node("Neg", &["x"], &["y"])], &[]);
    g.output = vec![value("y", 7, &["n"])];
    assert!(matches!(checked(g), Err(Error::Type { value, .. }) if value == "y"));
    let mut g = graph(&[], vec![], &["w"]);
    g.value_info = vec![value("w", 7, &["2"])];
    let w = TensorData::new(&[2], &[1f32, 2.]).unwrap();
    assert!(matches!(checked(initializer(g, "w", &w)), Err(Error::Type { .. })));
    let mut g = graph(&["x"], vec![node("Neg", &["x"], &["y"])], &[]);
    g.output = vec![value("y", 1, &["n"])];
    g.value_info = vec![value("y", 7, &["n"])];
    assert!(matches!(checked(g), Err(Error::Type { value, .. }) if value == "y"));
}

#[test]
fn limits_bound_names_nodes_and_constants() {
    let nodes = vec![node("Neg", &["x"], &["a"]), node("Neg", &["a"], &["b"])];
    let w = TensorData::new(&[4], &[1f32; 4]).unwrap();
    let model = model(initializer(graph(&["x"], nodes, &["b"]), "w", &w));
    let with = |limits| {
        check(&model, &CheckOptions { limits, operators: bb::onnx::OPERATORS, ..CheckOptions::default() })
            .map(drop)
    };
    assert!(with(Limits::default()).is_ok());
    for limits in [
        Limits { nodes: 1, ..Limits::default() },
        Limits { name_bytes: 0, ..Limits::default() },
        Limits { tensor_elements: 3, ..Limits::default() },
        Limits { tensor_bytes: 15, ..Limits::default() },
        Limits { total_tensor_bytes: 15, ..Limits::default() },
        Limits { total_text_bytes: 20, ..Limits::default() },
    ] {
        assert!(matches!(cause(with(limits.clone()).unwrap_err()), Error::Limit { .. }), "{limits:?}");
    }
}

#[test]
fn all_invalid_nodes_are_listed_inside_subgraphs_and_functions_too() {
    let branch = || graph(&[], vec![node("Neg", &["x", "x"], &["b"])], &["b"]);
    let choice = node("If", &["c"], &["i"]).with(subgraph("then_branch", branch()));
    let nodes = vec![
        node("Add", &["x"], &["a"]),
        node("Neg", &["a"], &["b"]).with(int("extra", 1)),
        node("Concat", &["a", "b"], &["d"]),
        choice.with(subgraph("else_branch", branch())),
        node("Mul", &["d", "nothing"], &["e"]),
        // The following nodes are checked with the known types of the results of the others.
        node("Sqrt", &["n"], &["f"]),
        node("Abs", &["d"], &["y"]),
    ];
    let mut g = graph(&["x"], nodes, &["y", "e", "f", "i"]);
    g.input.push(value("c", 9, &[]));
    g.input.push(value("n", 7, &["n"]));
    let Err(Error::Several { problems }) = checked(g) else { panic!("expected several errors") };
    let text = problems.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(
        lines,
        [
            "node `make_a` (`Add`) is not valid: expected 2 inputs, got 1",
            "node `make_b` (`Neg`) is not valid: attribute `extra` is not one that the operator has in this version",
            "node `make_d` (`Concat`) is not valid: attribute `axis` is missing; expected an integer",
            "node `make_b` (`Neg`) is not valid: expected 1 inputs, got 2",
            "node `make_b` (`Neg`) is not valid: expected 1 inputs, got 2",
            "node `make_e` reads `nothing`, which nothing provides",
            "node `make_f` (`Sqrt`) is not valid: `sqrt` does not take element type i64",
        ]
    );
    // If there are many, only some are listed.
    let many = (0..60).map(|i| node("Add", &["x"], &[&format!("y{i}")])).collect();
    let error = checked(graph(&["x"], many, &["y0"])).unwrap_err();
    assert!(error.to_string().starts_with("60 mistakes: \n  node `make_y0`"), "{error}");
    assert!(error.to_string().ends_with("\n  and 10 more"), "{error}");
}

#[test]
fn an_operator_unknown_to_onnx_belongs_to_the_user() {
    // ONNX removed `Upsample` in opset 10 and introduced `Scan` in opset 8.
    for (op, opsets) in [("Nonsense", 18), ("Upsample", 18), ("Scan", 7), ("Gelu", 18)] {
        let mut g = graph(&["x"], vec![node(op, &["x", "x", "x"], &["y"]).with(int("any", 1))], &["y"]);
        g.output = vec![value("y", 7, &["n"])];
        let model = ModelProto { opset_import: vec![opset("", opsets)], ..model(g) };
        let graph = run(&model).unwrap().graph;
        assert_eq!(graph.nodes[0].op_type, op);
        // The declared shape is not proven, so it is only a claim.
        let y = graph.values.iter().find(|v| v.name == "y").unwrap();
        assert_eq!(y.ty.to_string(), "i64");
    }
}
