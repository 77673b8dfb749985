//! Tests of layers: backends that are made of a backend.

#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ext::NnOp;
use bb::ir::op::Param;
use bb::{BackendHandle, CompileOptions, Erased, InnerBackend, LayerCall, Module, Outputs, Primitive};
use bb_cpu::Cpu;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Passes everything on.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Passing<B> {
    inner: B,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Passing<B> {}

/// Counts operations, and those that prepared kernels compute.
#[derive(bb::Backend)]
#[bb(delegate = 0)]
struct Counting<B>(B, Arc<[AtomicUsize; 2]>);

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Counting<B> {
    fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<B::Tensor>, B::Error> {
        self.1[usize::from(call.is_prepared())].fetch_add(1, Ordering::Relaxed);
        call.run()
    }
}

/// Doubles products of matrices, and knows a `relu` of its own.
#[derive(bb::Backend)]
#[bb(delegate = inner, extensions(Nn))]
struct Doubling<B> {
    inner: B,
    relus: Arc<AtomicUsize>,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Doubling<B> {
    fn matmul(&self, a: &B::Tensor, b: &B::Tensor) -> Result<B::Tensor, B::Error> {
        let product = self.inner.matmul(a, b)?;
        self.inner.add(&product, &product)
    }
}

#[bb::native]
impl<B: InnerBackend> bb::ext::Nn for Doubling<B> {
    fn relu(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.relus.fetch_add(1, Ordering::Relaxed);
        Ok(self.inner.native(NnOp::Relu.spec(), &[Some(x)], &[])?.remove(0))
    }
}

/// `relu(x w)` with a constant weight.
fn module() -> Module {
    let trace = bb::export::ModelTrace::new(&[("x", bb::DataType::F32, &[2, 3])], |on, inputs| {
        use bb::Backend as _;
        use bb::ext::Nn as _;
        let weight: Vec<f32> = (0..12).map(|i| i as f32 - 5.0).collect();
        let weight = on.constant(&bb::TensorData::new(&[3, 4], &weight)?)?;
        Ok(vec![on.relu(&on.matmul(&inputs[0], &weight)?)?])
    });
    let options =
        bb::export::ExportOptions::default().opset(bb::ir::opset::NEWEST).keep(bb::export::Keep::All);
    trace.unwrap().module(&options).unwrap()
}

fn run(on: &BackendHandle, options: &CompileOptions) -> Vec<f32> {
    let program = on.compile(module(), options).unwrap();
    let x = on.tensor(&[2, 3], &[1f32, 2.0, 3.0, -1.0, 0.5, 0.25]).unwrap();
    let mut last = Vec::new();
    for _ in 0..2 {
        let results = program.run(&[Some(&x)]).unwrap();
        last = on.to_host(&results[0]).unwrap().as_slice::<f32>().unwrap().to_vec();
    }
    last
}

/// By hand: rows of `x` times columns of the weight, where negative results are 0.
const EXPECTED: [f32; 8] = [2.0, 8.0, 14.0, 20.0, 5.25, 5.0, 4.75, 4.5];

#[test]
fn a_layer_that_passes_on_is_the_inner_backend() {
    let plain = BackendHandle::start("plain", Cpu::default());
    let thrice = BackendHandle::start(
        "thrice",
        Passing { inner: Passing { inner: Passing { inner: Cpu::default() } } },
    );
    assert_eq!(run(&plain, &CompileOptions::default()), EXPECTED);
    assert_eq!(run(&thrice, &CompileOptions::default()), EXPECTED);
    let natives = |on: &BackendHandle| on.runtime().extension_opsets();
    assert_eq!(natives(&thrice), natives(&plain));
    assert_ne!(thrice.runtime().abi_fingerprint(), 0);
}

#[test]
fn the_hook_sees_every_operation_and_keeps_prepared_kernels() {
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let on = BackendHandle::start("counting", Counting(Cpu::default(), counts.clone()));
    assert_eq!(run(&on, &CompileOptions::default()), EXPECTED);
    let [direct, prepared] = [counts[0].load(Ordering::Relaxed), counts[1].load(Ordering::Relaxed)];
    assert!(prepared >= 2, "the product is prepared: {prepared} in two runs");
    assert!(direct >= 1, "constants and the input are made: {direct}");
    let before = counts[0].load(Ordering::Relaxed);
    let x = on.tensor(&[1], &[2f32]).unwrap();
    let _ = on.call(Primitive::Neg.spec(), &[Some(&x)], &[]).unwrap();
    let _ = on.call(NnOp::Softmax.spec(), &[Some(&x)], &[Param::Int(0)]).unwrap();
    assert_eq!(counts[0].load(Ordering::Relaxed) - before, 3);
}

#[test]
fn written_operations_run_in_plans_and_natives_are_joined() {
    let relus = Arc::<AtomicUsize>::default();
    let layer = Doubling { inner: Counting(Cpu::default(), Arc::default()), relus: relus.clone() };
    let plain = Cpu::default().natives();
    let joined = layer.natives();
    for (family, natives) in &plain {
        let (_, here) = joined.iter().find(|(known, _)| known == family).unwrap();
        assert!(here.len() >= natives.len());
    }
    let on = BackendHandle::start("doubling", layer);
    let doubled: Vec<f32> = EXPECTED.iter().map(|x| 2.0 * x).collect();
    assert_eq!(run(&on, &CompileOptions::default().with_fuse(false)), doubled);
    assert!(relus.load(Ordering::Relaxed) > 0);
}

#[test]
fn layers_stand_on_erased_backends() {
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let erased = Erased::new(Counting(Passing { inner: Cpu::default() }, counts.clone()));
    let on = BackendHandle::start("erased", Passing { inner: Counting(erased, Arc::default()) });
    assert_eq!(run(&on, &CompileOptions::default()), EXPECTED);
    assert!(counts[1].load(Ordering::Relaxed) >= 2, "kernels are prepared through erased types");
}
