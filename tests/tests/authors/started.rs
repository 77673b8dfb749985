//! Tests of the crates that `bb new` writes: they compile, and their errors say what to write.
#![expect(clippy::unwrap_used, reason = "tests")]

#[expect(unreachable_pub, reason = "the files are a crate of its own")]
#[path = "started_graph/lib.rs"]
mod graph;
#[expect(unreachable_pub, reason = "the files are a crate of its own")]
#[path = "started_kernels/lib.rs"]
mod kernels;

#[test]
fn what_is_not_written_says_so() {
    for (name, missing) in [("started-kernels", "matmul"), ("started-graph", "MatMul")] {
        let on = bb::backend(name).unwrap();
        let x = on.tensor(&[1, 1], &[2f32]);
        let error = x.and_then(|x| on.matmul(&x, &x)).unwrap_err();
        let mut texts = vec![error.to_string()];
        let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
        while let Some(error) = cause {
            texts.push(error.to_string());
            cause = error.source();
        }
        let wanted = ["constant", "Constant", missing];
        let says =
            |name: &&str| texts.iter().any(|text| text.contains(&format!("`{name}` is not written yet")));
        assert!(wanted.iter().any(says), "{texts:?}");
    }
}

#[test]
fn tensors_come_and_go() {
    let on = bb::backend("started-kernels").unwrap();
    let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
    assert_eq!(x.to_host(64).unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0]);
}
