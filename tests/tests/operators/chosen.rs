//! Tests that operators that choose, write and blend elements by position give what their definitions say, at extents at which
//! they take the shorter way.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::proto::{AttributeProto, GraphProto, NodeProto, attribute_proto::AttributeType};
use bb::{CompileOptions, Element, Module, TensorData};
use bb_tests::backends;
use bb_tests::model::{ints, node, serialized, untyped, value, with_int};
use std::collections::HashMap;

const FLOAT: i32 = 1;
const INT64: i32 = 7;
const BOOL: i32 = 9;

fn with_text(mut node: NodeProto, name: &str, text: &str) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::String as i32),
        s: Some(text.as_bytes().to_vec()),
        ..AttributeProto::default()
    });
    node
}

/// Returns a model of nodes that returns the outputs of the last node.
fn model(inputs: &[(&str, i32, TensorData)], nodes: &[NodeProto]) -> Vec<u8> {
    let outputs: Vec<&str> = nodes.last().unwrap().output.iter().map(String::as_str).collect();
    model_with(inputs, nodes, &outputs)
}

/// Returns a model of nodes with these results.
fn model_with(inputs: &[(&str, i32, TensorData)], nodes: &[NodeProto], outputs: &[&str]) -> Vec<u8> {
    let info = |(name, dtype, x): &(&str, i32, TensorData)| {
        let extents: Vec<String> = x.shape().iter().map(ToString::to_string).collect();
        value(name, *dtype, &extents.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let outputs = outputs.iter().map(|name| untyped(name)).collect();
    let graph = GraphProto {
        name: Some("test".to_owned()),
        node: nodes.to_vec(),
        input: inputs.iter().map(info).collect(),
        output: outputs,
        ..GraphProto::default()
    };
    serialized(graph)
}

/// Runs nodes on each backend, and hands the results of the last to `check`.
fn each(inputs: &[(&str, i32, TensorData)], nodes: &[NodeProto], check: impl Fn(&str, &[TensorData])) {
    let bytes = model(inputs, nodes);
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let module = Module::from_bytes(bytes.clone()).unwrap();
        let compiled = on.clone().compile(module, &CompileOptions::default()).unwrap();
        let given: Vec<_> = inputs.iter().map(|(_, _, x)| on.constant(x).unwrap()).collect();
        let got = compiled.run(&given.iter().map(Some).collect::<Vec<_>>()).unwrap();
        check(name, &got.iter().map(|y| on.to_host(y).unwrap()).collect::<Vec<_>>());
    }
}

fn tensor<T: Element>(shape: &[usize], element: impl Fn(usize) -> T) -> TensorData {
    let elements: Vec<T> = (0..shape.iter().product()).map(element).collect();
    TensorData::new(shape, &elements).unwrap()
}

/// A number from -50 to 50 that looks random.
fn number(i: usize) -> f32 {
    ((i * 7919 + i / 13 * 31) % 1001) as f32 / 10.0 - 50.0
}

/// The weight of a neighbour at a distance: straight lines, and Keys' polynomials with the coefficient -0.75.
fn weight(cubic: bool, d: f64) -> f64 {
    let (a, d) = (-0.75, d.abs());
    match (cubic, d) {
        (false, _) => (1.0 - d).max(0.0),
        (true, ..=1.0) => (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0,
        (true, ..2.0) => a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a,
        (true, _) => 0.0,
    }
}

/// The value at a position of a row, whose ends go on, by the definition: a sum over all neighbours.
fn blended(row: &[f64], p: f64, cubic: bool, scale: f64) -> f64 {
    let far = row.len() as i64;
    let (mut sum, mut total) = (0.0, 0.0);
    for q in -far..2 * far {
        let w = weight(cubic, (q as f64 - p) * scale);
        sum += w * row[q.clamp(0, far - 1) as usize];
        total += w;
    }
    sum / total
}

#[test]
fn resized_pictures_blend_the_neighbours_of_each_position() {
    let (from, to) = ([2usize, 150, 203], [2usize, 70, 301]);
    let x = tensor(&from, number);
    let elements = x.as_slice::<f32>().unwrap().to_vec();
    for (cubic, corners, antialias) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (false, false, true),
        (true, false, true),
    ] {
        let place = |i: usize, axis: usize| {
            let (i, from, to) = (i as f64, from[axis] as f64, to[axis] as f64);
            if corners { i * (from - 1.0) / (to - 1.0) } else { (i + 0.5) * from / to - 0.5 }
        };
        let scale =
            |axis: usize| if antialias { (to[axis] as f64 / from[axis] as f64).min(1.0) } else { 1.0 };
        // The columns first, and then the rows.
        let mut tall = vec![0.0; to[0] * to[1] * from[2]];
        for (at, slot) in tall.iter_mut().enumerate() {
            let (plane, row, col) = (at / from[2] / to[1], at / from[2] % to[1], at % from[2]);
            let line: Vec<f64> =
                (0..from[1]).map(|y| f64::from(elements[(plane * from[1] + y) * from[2] + col])).collect();
            *slot = blended(&line, place(row, 1), cubic, scale(1));
        }
        let mut expected = Vec::new();
        for line in tall.chunks(from[2]) {
            expected.extend((0..to[2]).map(|i| blended(line, place(i, 2), cubic, scale(2))));
        }
        let resize = node("Resize", &["x", "", "", "sizes"], &["out"]);
        let resize = with_text(resize, "mode", if cubic { "cubic" } else { "linear" });
        let way = if corners { "align_corners" } else { "half_pixel" };
        let resize = with_text(resize, "coordinate_transformation_mode", way);
        let resize = with_int(resize, "antialias", antialias.into());
        let sizes = ints("sizes", &[2, 70, 301]);
        each(&[("x", FLOAT, x.clone())], &[sizes, resize], |name, got| {
            assert_eq!(got[0].shape(), to);
            for (got, expected) in got[0].as_slice::<f32>().unwrap().iter().zip(&expected) {
                // Some additions of numbers up to 50, twice.
                assert!((f64::from(*got) - expected).abs() < 1e-4, "{name}: {got}, expected {expected}");
            }
        });
    }
}

/// Two equal nodes are computed once. Both results exist, and the caller owns each of them.
#[test]
fn equal_nodes_have_each_their_result() {
    let x = tensor(&[3], |i| i as f32 - 1.0);
    let pair = |name: &str| {
        let turned = format!("{name}.turned");
        [node("Neg", &["x"], &[&turned]), node("Exp", &[&turned], &[name])]
    };
    let nodes = [pair("a"), pair("b")].concat();
    let bytes = model_with(&[("x", FLOAT, x.clone())], &nodes, &["a", "b"]);
    let expected: Vec<f64> = (0..3).map(|i| (1.0 - f64::from(i)).exp()).collect();
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let module = Module::from_bytes(bytes.clone()).unwrap();
        let compiled = on.clone().compile(module, &CompileOptions::default()).unwrap();
        let got = compiled.run(&[Some(&on.constant(&x).unwrap())]).unwrap();
        assert_eq!(got.len(), 2);
        for y in &got {
            let host = on.to_host(y).unwrap();
            for (y, want) in host.as_slice::<f32>().unwrap().iter().zip(&expected) {
                assert!((f64::from(*y) - want).abs() < 1e-6, "{name}: {y}, expected {want}");
            }
        }
    }
}

/// An infinity reaches only the elements that have a share of it.
#[test]
fn an_infinity_stays_near_its_place_in_a_picture_made_smaller() {
    let x = tensor(&[1, 400], |i| if i == 200 { f32::INFINITY } else { 1.0 });
    let resize = with_text(node("Resize", &["x", "", "", "sizes"], &["out"]), "mode", "linear");
    each(&[("x", FLOAT, x)], &[ints("sizes", &[1, 100]), resize], |name, got| {
        let got = got[0].as_slice::<f32>().unwrap();
        // Element i is half of elements 4 i + 1 and 4 i + 2, so none has a share of element 200.
        assert!(got.iter().all(|&y| y == 1.0), "{name}: {got:?}");
    });
}

/// Each result is the average of thousands of elements here. A gather for each element would be one step of the plan each.
#[test]
fn a_long_axis_that_is_made_much_smaller_takes_few_steps() {
    let (from, to) = (65536usize, 64usize);
    let x = tensor(&[1, from], |i| (i / 1024 % 2) as f32);
    let resize = with_text(node("Resize", &["x", "", "", "sizes"], &["out"]), "mode", "linear");
    let resize = with_int(resize, "antialias", 1);
    let model = model(&[("x", FLOAT, x.clone())], &[ints("sizes", &[1, 64]), resize.clone()]);
    let trace =
        Module::from_bytes(model).unwrap().print_mir(&HashMap::from([("x".to_owned(), vec![1, from])]), &[]);
    assert!(trace.unwrap().lines().count() < 40);
    let elements: Vec<f64> = x.as_slice::<f32>().unwrap().iter().map(|&x| x.into()).collect();
    each(&[("x", FLOAT, x)], &[ints("sizes", &[1, 64]), resize], |name, got| {
        for (i, &y) in got[0].as_slice::<f32>().unwrap().iter().enumerate() {
            let place = (i as f64 + 0.5) * from as f64 / to as f64 - 0.5;
            let expected = blended(&elements, place, false, to as f64 / from as f64);
            assert!((f64::from(y) - expected).abs() < 1e-5, "{name}: {y}, expected {expected}");
        }
    });
}

/// Positions on an element have one share, and those between elements two.
#[test]
fn an_infinity_is_one_where_it_is_the_only_share() {
    let x = tensor(&[1, 200], |i| if i == 100 { f32::INFINITY } else { 1.0 });
    let resize = with_text(node("Resize", &["x", "", "", "sizes"], &["out"]), "mode", "linear");
    let resize = with_text(resize, "coordinate_transformation_mode", "align_corners");
    each(&[("x", FLOAT, x)], &[ints("sizes", &[1, 399]), resize], |name, got| {
        for (i, &y) in got[0].as_slice::<f32>().unwrap().iter().enumerate() {
            let expected = if (199..=201).contains(&i) { f32::INFINITY } else { 1.0 };
            assert_eq!(y, expected, "{name}: element {i}");
        }
    });
}

#[test]
fn updates_go_to_their_places_in_order() {
    let (shape, part) = ([3usize, 5, 4], [2usize, 7, 3]);
    let data = tensor(&shape, number);
    let updates = tensor(&part, |i| number(i + 500));
    // Each index occurs several times, some count from the end.
    let places = tensor(&part, |i| (i * 11 % 10) as i64 - 5);
    let [old, new] = [&data, &updates].map(|x| x.as_slice::<f32>().unwrap());
    let list = places.as_slice::<i64>().unwrap();
    for add in [false, true] {
        let mut expected = old.to_vec();
        for (at, (&update, &index)) in new.iter().zip(list).enumerate() {
            let (plane, col) = (at / 21, at % 3);
            let row = index.rem_euclid(5) as usize;
            let slot = &mut expected[plane * 20 + row * 4 + col];
            *slot = if add { *slot + update } else { update };
        }
        let scatter = with_int(node("ScatterElements", &["data", "places", "updates"], &["out"]), "axis", 1);
        let scatter = with_text(scatter, "reduction", if add { "add" } else { "none" });
        let inputs = [
            ("data", FLOAT, data.clone()),
            ("places", INT64, places.clone()),
            ("updates", FLOAT, updates.clone()),
        ];
        each(&inputs, &[scatter], |name, got| {
            assert_eq!(got[0].as_slice::<f32>().unwrap(), expected, "{name}");
        });
    }
}

#[test]
fn coordinates_are_those_of_the_elements_that_are_not_zero() {
    let shape = [4usize, 1, 6, 5];
    let x = tensor(&shape, |i| if i % 7 == 3 { 0.5f32 } else { 0.0 });
    let mut expected = vec![Vec::new(); 4];
    for i in (0..120).filter(|i| i % 7 == 3) {
        for (row, coordinate) in expected.iter_mut().zip([i / 30, 0, i / 5 % 6, i % 5]) {
            row.push(i);
            *row.last_mut().unwrap() = coordinate;
        }
    }
    each(&[("x", FLOAT, x)], &[node("NonZero", &["x"], &["out"])], |name, got| {
        assert_eq!(got[0].as_slice::<i64>().unwrap(), expected.concat(), "{name}");
    });
}

#[test]
fn entries_are_kept_where_a_condition_holds() {
    let x = tensor(&[3, 8, 2], number);
    let chosen = [1usize, 2, 5];
    let condition = TensorData::bools(&[6], &[false, true, true, false, false, true]).unwrap();
    let elements = x.as_slice::<f32>().unwrap();
    let mut expected = Vec::new();
    for plane in 0..3 {
        for entry in chosen {
            expected.extend_from_slice(&elements[(plane * 8 + entry) * 2..][..2]);
        }
    }
    let compress = with_int(node("Compress", &["x", "condition"], &["out"]), "axis", 1);
    each(&[("x", FLOAT, x.clone()), ("condition", BOOL, condition)], &[compress], |name, got| {
        assert_eq!(got[0].shape(), [3, 3, 2], "{name}");
        assert_eq!(got[0].as_slice::<f32>().unwrap(), expected, "{name}");
    });
}

#[test]
fn distinct_elements_come_in_order_with_where_they_were_first() {
    let x = tensor(&[600], |i| (i * 37 % 41) as i64 - 20);
    let list = x.as_slice::<i64>().unwrap();
    let mut values = list.to_vec();
    values.sort_unstable();
    values.dedup();
    let first: Vec<i64> = values.iter().map(|v| list.iter().position(|e| e == v).unwrap() as i64).collect();
    let of: Vec<i64> = list.iter().map(|e| values.binary_search(e).unwrap() as i64).collect();
    let count: Vec<i64> = values.iter().map(|v| list.iter().filter(|e| *e == v).count() as i64).collect();
    let unique = node("Unique", &["x"], &["values", "first", "of", "count"]);
    each(&[("x", INT64, x.clone())], &[unique], |name, got| {
        for (got, expected) in got.iter().zip([&values, &first, &of, &count]) {
            assert_eq!(got.as_slice::<i64>().unwrap(), expected, "{name}");
        }
    });
}
