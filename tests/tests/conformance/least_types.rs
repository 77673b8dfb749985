//! A backend with the least set of element types: `f32`, `i32` and `bool`. Every case of ONNX that computes with these, or
//! with integers that these hold, passes; the others are skipped, with the reason.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::conformance::onnx;
use bb::ir::op::Param;
use bb::{BackendHandle, DataType, Deployment, NarrowError, Primitive, Runtime, TensorData, Value};
use bb_tests::few::Few;
use bb_tests::model;
use std::path::{Path, PathBuf};

// Every 17th case. This includes no network of `light/`. `.ci/nightly` runs all cases.
bb::conformance!(Few::least(), cases = 17);

fn least() -> BackendHandle {
    BackendHandle::new(Runtime::erased("least", Few::least(), &[]))
}

fn read(x: &Value) -> Vec<i64> {
    x.to_host(1 << 20).unwrap().as_slice::<i64>().unwrap().to_vec()
}

#[test]
fn values_of_types_that_are_missing_come_back_as_they_went() {
    let on = least();
    let [wide, narrow] = [[i64::MIN, -1, i64::MAX], [-7, 0, 7]];
    for values in [wide, narrow] {
        assert_eq!(read(&on.tensor(&[3], &values).unwrap()), values);
    }
    let doubles = on.tensor(&[2], &[0.1f64, 1e300]).unwrap();
    assert_eq!(doubles.to_host(64).unwrap().as_slice::<f64>().unwrap(), [0.1, 1e300]);
    let bytes = on.tensor(&[2], &[255u8, 0]).unwrap();
    assert_eq!(
        (bytes.dtype(), bytes.to_host(8).unwrap().as_slice::<u8>().unwrap()),
        (DataType::U8, &[255, 0][..])
    );
}

#[test]
fn sums_beyond_the_range_of_the_holder_are_right() {
    let on = least();
    let x = on.tensor(&[2], &[i64::from(i32::MAX), 1]).unwrap();
    let y = x.add(&x).unwrap();
    assert_eq!(read(&y), [2 * i64::from(i32::MAX), 2]);
    // They go on being right where they came to be on the host, and come back to the backend when they fit.
    assert_eq!(read(&y.sub(&x).unwrap()), [i64::from(i32::MAX), 1]);
    assert_eq!(read(&x.mul(&x).unwrap()), [i64::from(i32::MAX).pow(2), 1]);
    assert_eq!(read(&x.reduce_sum(&[], false).unwrap()), [1i64 << 31]);
    let least = on.tensor(&[1], &[i64::from(i32::MIN)]).unwrap();
    assert_eq!(read(&least.abs().unwrap()), [1i64 << 31]);
}

#[test]
fn small_integers_wrap_as_their_own_type_does() {
    let on = least();
    let (a, b) = (on.tensor(&[3], &[200u8, 3, 255]).unwrap(), on.tensor(&[3], &[100u8, 5, 1]).unwrap());
    let bytes = |x: Value| x.to_host(8).unwrap().as_slice::<u8>().unwrap().to_vec();
    assert_eq!(bytes(a.add(&b).unwrap()), [200u8.wrapping_add(100), 8, 0]);
    assert_eq!(bytes(b.sub(&a).unwrap()), [100u8.wrapping_sub(200), 2, 2]);
    assert_eq!(bytes(a.mul(&b).unwrap()), [200u8.wrapping_mul(100), 15, 255]);
    let (a, b) = (on.tensor(&[2], &[-128i8, 100]).unwrap(), on.tensor(&[2], &[-1i8, 100]).unwrap());
    let signed = |x: Value| x.to_host(8).unwrap().as_slice::<i8>().unwrap().to_vec();
    assert_eq!(signed(a.div(&b).unwrap()), [-128, 1]);
    assert_eq!(signed(a.add(&b).unwrap()), [127, 100i8.wrapping_add(100)]);
    assert_eq!(signed(a.neg().unwrap()), [-128, -100]);
}

/// ONNX: the greatest of no elements is the least value of the type, and the other way round.
#[test]
fn the_extremes_of_no_elements_are_the_ends_of_their_own_type() {
    let on = least();
    let none = on.tensor::<i8>(&[0], &[]).unwrap();
    let signed = |x: Value| x.to_host(8).unwrap().as_slice::<i8>().unwrap().to_vec();
    assert_eq!(signed(none.reduce_max(&[], false).unwrap()), [i8::MIN]);
    assert_eq!(signed(none.reduce_min(&[], false).unwrap()), [i8::MAX]);
    let none = on.tensor::<u8>(&[0], &[]).unwrap();
    let bytes = |x: Value| x.to_host(8).unwrap().as_slice::<u8>().unwrap().to_vec();
    assert_eq!(bytes(none.reduce_max(&[], false).unwrap()), [0]);
    assert_eq!(bytes(none.reduce_min(&[], false).unwrap()), [255]);
    let none = on.tensor::<i64>(&[0], &[]).unwrap();
    assert_eq!(read(&none.reduce_max(&[], false).unwrap()), [i64::MIN]);
    assert_eq!(read(&none.reduce_min(&[], false).unwrap()), [i64::MAX]);
}

#[test]
fn what_is_too_large_for_the_host_is_an_error_that_says_so() {
    let on = least();
    let x = on.tensor(&[5000], &[i64::from(i32::MAX); 5000]).unwrap();
    let error = x.add(&x).unwrap_err();
    let narrow = NarrowError::cause_of(&error).unwrap();
    assert_eq!(
        narrow.to_string(),
        "`add` of i64 may exceed i32, in which the backend holds i64, and has too many elements for the host"
    );
    let doubles = on.tensor(&[2], &[0.1f64, 0.2]).unwrap();
    let error = doubles.exp().unwrap_err();
    assert_eq!(
        NarrowError::cause_of(&error).unwrap().to_string(),
        "`exp` needs f64, which the backend does not have; the option `narrow_floats` accepts that it is held in another \
         float"
    );
}

#[test]
fn floats_are_rounded_only_where_that_is_accepted() {
    let accepted = bb::OpenOptions::default().with_narrow_floats();
    let exact = BackendHandle::new(Runtime::open::<Least>().unwrap());
    assert!(exact.tensor(&[1], &[1.0f64]).unwrap().exp().is_err());
    let rounded = BackendHandle::new(Runtime::open_with::<Least>(&accepted).unwrap());
    let y = rounded.tensor(&[1], &[1.0f64]).unwrap().exp().unwrap();
    assert_eq!(y.dtype(), DataType::F64);
    let y = y.to_host(8).unwrap().as_slice::<f64>().unwrap()[0];
    assert!((y - std::f64::consts::E).abs() < 1e-6, "{y}");
    let error = Runtime::open_with::<bb_reference::Reference>(&accepted).map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "backend `reference` does not take the option `narrow_floats`; it takes none"
    );
}

/// The least types, declared with the derive.
#[derive(bb::Backend)]
#[bb(name = "least", new = Least::new)]
struct Least(Few);

impl Least {
    fn new() -> Least {
        Least(Few::least())
    }

    fn call(
        &self,
        op: bb::Primitive,
        inputs: &[Option<&<Few as bb::Backend>::Tensor>],
        params: &[bb::ir::op::Param<'_>],
    ) -> Result<bb::Outputs<<Few as bb::Backend>::Tensor>, bb_reference::Error> {
        bb::call_primitive(&self.0, op, inputs, params)
    }
}

impl bb::Backend for Least {
    type Tensor = <Few as bb::Backend>::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Self::Tensor) -> Result<TensorData, bb_reference::Error> {
        self.0.to_host(x)
    }

    fn types(&self) -> bb::DataTypes {
        self.0.types()
    }
}

#[test]
fn the_backend_below_is_found_by_its_type() {
    let on = BackendHandle::new(Runtime::open::<Least>().unwrap());
    let typed = on.typed::<Least>().unwrap();
    let x = on.tensor(&[2], &[1i64, -2]).unwrap();
    let held = typed.restore(&x).unwrap();
    assert_eq!(bb::Tensor::dtype(&held), DataType::I32);
    assert_eq!(typed.erase(held).to_host(8).unwrap().as_slice::<i32>().unwrap(), [1, -2]);
    let wide = on.tensor(&[1], &[i64::MAX]).unwrap();
    assert!(typed.restore(&wide).is_err());
    assert!(on.typed::<Few>().is_none());
}

/// A program that requires a type requires the backend's own type, not one that the runtime emulates.
#[test]
fn types_that_the_runtime_supplies_meet_no_requirement() {
    let needs = |types: &[DataType]| {
        bb::services::Requirements { types: types.to_vec(), ..Default::default() }.unmet(&least())
    };
    assert_eq!(needs(&[DataType::F32, DataType::I32, DataType::Bool]), []);
    let unmet: Vec<String> = needs(&[DataType::I64, DataType::F64]).iter().map(ToString::to_string).collect();
    let told = ["it does not hold i64: it has f32, i32, bool", "it does not hold f64: it has f32, i32, bool"];
    assert_eq!(unmet, told);
}

/// `ready` lists an operation that may exceed the range, and accepts it on request.
#[test]
fn a_deployment_lists_what_may_exceed_before_anything_runs() {
    let model = model::model(&[("x", &[2])], vec![model::node("Add", &["x", "x"], &["y"])], &[("y", &[2])]);
    let model = model::typed(model, &[("x", DataType::I64), ("y", DataType::I64)]);
    let builder = || Deployment::builder().model("m", model.clone()).backend(least());
    let error = builder().ready().map(drop).unwrap_err();
    let told = error.to_string();
    assert!(told.contains("`add` of i64 may exceed i32") && told.contains(".accept_narrowing()"), "{told}");
    let node = builder().accept_narrowing().ready().unwrap();
    let x = node.backends().default_backend().unwrap().tensor(&[2], &[i64::from(i32::MAX), 3]).unwrap();
    let outputs = node.run_named([("x", x)]).unwrap();
    assert_eq!(read(&outputs["y"]), [2 * i64::from(i32::MAX), 6]);
}

/// Runs the models in `tests/data/models`, and those in the folder that the variable `BB_MODELS` names, against the outputs
/// of ONNX Runtime.
#[test]
fn real_models_run() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/models");
    let folders = [Some(own), std::env::var_os("BB_MODELS").map(PathBuf::from)];
    let on = Runtime::erased("least", Few::least(), &[]);
    let mut failed = Vec::new();
    for case in folders.iter().flatten().flat_map(|folder| onnx::find(folder).unwrap()) {
        match onnx::run(&case, &on) {
            Ok(()) => println!("{} ran", case.display()),
            Err(failure) => failed.push((case, failure)),
        }
    }
    let wrong: Vec<_> =
        failed.iter().filter(|(_, failure)| NarrowError::cause_of(failure).is_none()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (case, failure) in &failed {
        println!("{} needs more: {}", case.display(), NarrowError::cause_of(failure).unwrap());
    }
    // A model of doubles has no other way.
    let needs_more: Vec<_> = failed.iter().map(|(case, _)| case.file_name().unwrap().to_owned()).collect();
    if std::env::var_os("BB_MODELS").is_none() {
        assert_eq!(needs_more, [""; 0]);
    }
}

/// Runs a primitive on host tensors.
fn called(op: Primitive, operands: &[&TensorData], params: &[Param<'_>]) -> TensorData {
    let on = least();
    let operands: Vec<Value> = operands.iter().map(|x| on.constant(x).unwrap()).collect();
    let operands: Vec<Option<&Value>> = operands.iter().map(Some).collect();
    on.call(op.spec(), &operands, params).unwrap()[0].to_host(1 << 20).unwrap()
}

#[test]
fn strings_are_moved_and_compared() {
    use Primitive as P;
    let x = TensorData::strings(&[2, 2], &["a", "b", "zwölf", ""]).unwrap();
    let strings = |shape: &[usize], texts: &[&str]| TensorData::strings(shape, texts).unwrap();
    let indices = TensorData::new(&[2], &[1i64, -2]).unwrap();
    let [rows, turned] = [&["zwölf", "", "a", "b"], &["a", "zwölf", "b", ""]];
    assert_eq!(called(P::Gather, &[&x, &indices], &[Param::Int(0)]), strings(&[2, 2], rows));
    assert_eq!(called(P::Transpose, &[&x], &[Param::Ints((&[][..]).into())]), strings(&[2, 2], turned));
    let part = [
        Param::Ints((&[1][..]).into()),
        Param::Ints((&[2][..]).into()),
        Param::Ints((&[1][..]).into()),
        Param::Ints((&[][..]).into()),
    ];
    assert_eq!(called(P::Slice, &[&x], &part), strings(&[2, 1], &["b", ""]));
    let twice = called(P::Concat, &[&x, &x], &[Param::Int(1)]);
    assert_eq!(twice, strings(&[2, 4], &["a", "b", "a", "b", "zwölf", "", "zwölf", ""]));
    let equal = called(P::Equal, &[&x, &strings(&[], &["a"])], &[]);
    assert_eq!(equal.to_bools().unwrap(), [true, false, false, false]);
    let chosen = called(P::Where, &[&equal, &x, &strings(&[1], &["-"])], &[]);
    assert_eq!(chosen, strings(&[2, 2], &["a", "-", "-", "-"]));
    // More than the numbers that the host computes with.
    let many = TensorData::strings(&[5000], &vec!["x"; 5000]).unwrap();
    assert_eq!(called(P::Concat, &[&many, &many], &[Param::Int(0)]).len(), 10_000);
    let packed = TensorData::pack(DataType::U4, &[3], &[1, 15, 7]).unwrap();
    let order = TensorData::new(&[2], &[2i64, 1]).unwrap();
    assert_eq!(
        called(P::Gather, &[&packed, &order], &[Param::Int(0)]),
        TensorData::pack(DataType::U4, &[2], &[7, 15]).unwrap()
    );
}

/// Source: arithmetic of Rust's `u64`.
#[test]
fn numbers_beyond_i64_are_computed() {
    use Primitive as P;
    const A: [u64; 4] = [0, u64::MAX, 1 << 63, 12];
    const B: [u64; 4] = [7, 1 << 63, u64::MAX - 1, 5];
    let (a, b) = (TensorData::new(&[4], &A).unwrap(), TensorData::new(&[4], &B).unwrap());
    let pairs = || A.into_iter().zip(B);
    let numbers = |y: &TensorData| y.as_slice::<u64>().unwrap().to_vec();
    let made = |f: fn(u64, u64) -> u64| pairs().map(|(a, b)| f(a, b)).collect::<Vec<_>>();
    assert_eq!(numbers(&called(P::Add, &[&a, &b], &[])), made(u64::wrapping_add));
    assert_eq!(numbers(&called(P::Sub, &[&a, &b], &[])), made(u64::wrapping_sub));
    assert_eq!(numbers(&called(P::Mul, &[&a, &b], &[])), made(u64::wrapping_mul));
    assert_eq!(numbers(&called(P::Div, &[&a, &b], &[])), made(|a, b| a / b));
    assert_eq!(numbers(&called(P::Abs, &[&a], &[])), A);
    let base = TensorData::scalar(3i64);
    let powers = called(P::Pow, &[&base, &a], &[]);
    assert_eq!(powers.as_slice::<i64>().unwrap()[..2], [1, -6148914691236517205]);
    let truths = |op| called(op, &[&a, &b], &[]).to_bools().unwrap();
    assert_eq!(truths(P::Greater), pairs().map(|(a, b)| a > b).collect::<Vec<_>>());
    assert_eq!(truths(P::Less), pairs().map(|(a, b)| a < b).collect::<Vec<_>>());
    assert_eq!(truths(P::Equal), [false; 4]);
    let all = [Param::Ints((&[][..]).into()), Param::Bool(false)];
    assert_eq!(numbers(&called(P::ReduceMax, &[&a], &all)), [u64::MAX]);
    assert_eq!(numbers(&called(P::ReduceMin, &[&b], &all)), [5]);
    assert_eq!(
        numbers(&called(P::ReduceSum, &[&a], &all)),
        [A.iter().fold(0, |sum: u64, x| sum.wrapping_add(*x))]
    );
}
