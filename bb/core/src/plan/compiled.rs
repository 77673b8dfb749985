//! Compiled graphs with the tensor and error types of their backend; they wrap programs.
//!
//! This code is compiled again for each backend, so there is little of it. If all inputs are passed and the graph has one
//! segment, the run goes straight to the loop over instructions. All other runs use erased tensors.

use super::engine::Engine;
use super::interpreter::PlanOutputs;
use super::program::{Code, LiveTensors, Program, compile_program};
use super::run_segments::{Live, Ran};
use super::run_state::RunState;
use super::segment::too_few_tensors;
use super::segment_end::End;
use super::target::{Target, Typed, TypedPlan, Untyped, own_plan};
use super::watch::{Silent, Watcher};
use super::{CompileOptions, Profile};
use crate::contract::OnnxValue;
use crate::contract::{Caller, begin_buffers, fill_buffers};
use crate::erased::AnyTensor;
use crate::erased::Holding;
use crate::ext::{ErasedError, ErasedTensor, FamilyTable, OpSet, WithFamilies, foreign, own};
use crate::{Backend, Error, Executable, Module, Port, ResultBuffer};
use bb_ir::DataType;
use bb_ir::op::{Family, Primitive};
use smallvec::SmallVec;

/// Compiles for a backend with kernels; [`Backend::compile`] unless overridden.
///
/// # Errors
///
/// [`Error::Unsupported`] that lists every node without an implementation; [`Error::Refused`] with every node that would run in
/// a way that the options refuse.
pub fn compile<B: Backend + ?Sized + 'static>(
    on: &B,
    module: Module,
    options: &CompileOptions,
) -> Result<Box<dyn Executable<B>>, B::Error> {
    options.reach_default(on)?;
    let families = options.families::<B>();
    let native: Vec<(Family, OpSet)> =
        families.iter().map(|table| (table.family(), table.native())).collect();
    let program = compile_program(&module, options, &native, Engine::Interpreter, on.types(), None)?;
    Ok(Box::new(ProgramExecutable { program, families }))
}

/// Compiles for a backend that runs whole graphs: each segment is one graph of primitives.
///
/// # Errors
///
/// [`Error::Unsupported`] that lists every node without an implementation.
pub fn compile_whole_graph<B: Backend + ?Sized + 'static>(
    on: &B,
    module: Module,
    options: &CompileOptions,
) -> Result<Box<dyn Executable<B>>, B::Error> {
    options.reach_default(on)?;
    let program = compile_program(&module, options, &[], Engine::WholeGraph, on.types(), None)?;
    Ok(Box::new(CompiledErased(program.without(lacking(on)))))
}

/// Returns the primitives that a whole-graph backend does not run.
fn lacking<B: Backend + ?Sized>(on: &B) -> Vec<Primitive> {
    Primitive::ALL.iter().copied().filter(|op| !on.runs_primitive(*op)).collect()
}

/// Compiles for a backend that runs whole graphs and lacks element types. Each segment is one graph of primitives in the types
/// that the backend has; operations that would not be exact in these types are called separately.
///
/// # Errors
///
/// [`Error::Unsupported`] that lists every node without an implementation.
pub(crate) fn compile_narrowed<B: Backend + ?Sized + 'static>(
    on: &B,
    holding: Holding,
    module: Module,
    options: &CompileOptions,
) -> Result<Box<dyn Executable<B>>, Error> {
    let types = holding.types;
    let program = compile_program(&module, options, &[], Engine::WholeGraph, types, Some(holding))?;
    Ok(Box::new(CompiledErased(program.without(lacking(on)))))
}

/// Compiles for a single run, operation by operation. Steps are not prepared, because that would not pay off.
///
/// # Errors
///
/// [`Error::Unsupported`] that lists every node without an implementation.
pub(super) fn compile_once<B: Backend + ?Sized>(
    on: &B,
    module: &Module,
    options: &CompileOptions,
) -> Result<CompiledErased, Error> {
    let program = compile_program(module, options, &[], Engine::Interpreter, on.types(), None)?;
    Ok(CompiledErased(program.for_one_run()))
}

/// A graph compiled for a backend with kernels.
struct ProgramExecutable<B: Backend + ?Sized + 'static> {
    program: Program,
    families: &'static [FamilyTable<B>],
}

impl<B: Backend + ?Sized + 'static> ProgramExecutable<B> {
    fn target<'a>(&self, on: &'a B) -> Typed<'a, B> {
        Typed(WithFamilies::new(on, self.families))
    }

    /// Runs the graph on tensors of the backend.
    fn run_tensors(&self, on: &B, inputs: &[Option<&B::Tensor>]) -> Result<PlanOutputs<B::Tensor>, B::Error> {
        let program = &self.program;
        // In the common case, one segment with every input passed, no tensor is cloned.
        let given: Option<SmallVec<[&B::Tensor; 8]>> =
            (inputs.len() == program.inputs.len()).then(|| inputs.iter().copied().collect()).flatten();
        let Some(given) = given else {
            let results = run_untyped(program, &self.target(on), &erased::<B>(inputs));
            return restored::<B>(results.map_err(ErasedError::typed::<B>)?);
        };
        program.declared.check(inputs)?;
        let state = &mut RunState::new(program.limits);
        state.ledger.begin(given.iter().copied())?;
        let target = self.target(on);
        let types: SmallVec<[&dyn AnyTensor; 8]> = given.iter().map(|x| *x as &dyn AnyTensor).collect();
        let to_host = |position: usize| match given.get(position) {
            Some(x) => on.to_host(x).map_err(own::<B>),
            None => Err(too_few_tensors().into()),
        };
        let live = LiveTensors { types: &types, to_host: &to_host };
        let plan = program.specialization(&target, &program.first, &live, &None, &mut Watcher(None));
        let plan = plan.map_err(ErasedError::typed::<B>)?;
        let Code::Plan(prepared, material) = &plan.code else {
            return Err(Error::excluded("instructions for a backend with kernels").into());
        };
        let own = own_plan::<TypedPlan<B>>(prepared)?;
        let ran = own.run(on, self.families, material, &given, &plan.resolved.graph, state, &mut Silent);
        let tensors = ran.map_err(|failure| plan.name(failure))?;
        if matches!(plan.end, End::Done) && plan.results.is_none() {
            state.go_on()?;
            return Ok(tensors);
        }
        let tensors = tensors.into_iter().map(ErasedTensor::new).collect();
        let live = Live::after(Vec::new(), &plan, tensors)?;
        let first = Ran { specialization: plan, live };
        let live =
            program.follow(&target, first, state, &mut Watcher(None)).map_err(ErasedError::typed::<B>)?;
        restored::<B>(program.tensors_alone(live)?)
    }
}

impl<B: Backend + ?Sized + 'static> Executable<B> for ProgramExecutable<B> {
    fn inputs(&self) -> &[Port] {
        &self.program.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.program.outputs
    }

    fn run(&self, on: &B, inputs: &[Option<&B::Tensor>]) -> Result<Vec<B::Tensor>, B::Error> {
        Caller::within(&self.program.caller, || Ok(self.run_tensors(on, inputs)?.into_vec()))
    }

    fn run_into(
        &self,
        on: &B,
        inputs: &[Option<&B::Tensor>],
        outputs: &mut [Option<&mut ResultBuffer<'_>>],
    ) -> Result<(), B::Error> {
        begin_buffers(&self.program.outputs, outputs)?;
        let results = Caller::within(&self.program.caller, || self.run_tensors(on, inputs))?;
        fill_buffers(on, &self.program.outputs, &results, outputs)
    }

    fn plan_ahead(&self, on: &B, inputs: &[Option<(DataType, &[usize])>]) -> Result<(), B::Error> {
        self.program.plan_ahead(&self.target(on), inputs).map_err(ErasedError::typed::<B>)
    }

    fn compiled_module(&self) -> Result<Option<Module>, B::Error> {
        Ok(Some(self.program.compiled_module()?))
    }

    fn run_items(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&B::Tensor>>],
    ) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
        run_items::<B>(&self.program, &self.target(on), inputs, None)
    }

    fn run_profiled(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&B::Tensor>>],
        profile: &mut Profile,
    ) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
        run_items::<B>(&self.program, &self.target(on), inputs, Some(profile))
    }
}

/// A compiled graph that runs on erased tensors.
pub(super) struct CompiledErased(Program);

impl<B: Backend + ?Sized> Executable<B> for CompiledErased {
    fn inputs(&self) -> &[Port] {
        &self.0.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.0.outputs
    }

    fn run(&self, on: &B, inputs: &[Option<&B::Tensor>]) -> Result<Vec<B::Tensor>, B::Error> {
        let on = WithFamilies::new(on, &[]);
        let results = run_untyped(&self.0, &Untyped(&on), &erased::<B>(inputs));
        Ok(restored::<B>(results.map_err(ErasedError::typed::<B>)?)?.into_vec())
    }

    fn run_into(
        &self,
        on: &B,
        inputs: &[Option<&B::Tensor>],
        outputs: &mut [Option<&mut ResultBuffer<'_>>],
    ) -> Result<(), B::Error> {
        begin_buffers(&self.0.outputs, outputs)?;
        let results = self.run(on, inputs)?;
        fill_buffers(on, &self.0.outputs, &results, outputs)
    }

    fn plan_ahead(&self, on: &B, inputs: &[Option<(DataType, &[usize])>]) -> Result<(), B::Error> {
        let on = WithFamilies::new(on, &[]);
        self.0.plan_ahead(&Untyped(&on), inputs).map_err(ErasedError::typed::<B>)
    }

    fn compiled_module(&self) -> Result<Option<Module>, B::Error> {
        Ok(Some(self.0.compiled_module()?))
    }

    fn run_items(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&B::Tensor>>],
    ) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
        let on = WithFamilies::new(on, &[]);
        run_items::<B>(&self.0, &Untyped(&on), inputs, None)
    }

    fn run_profiled(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&B::Tensor>>],
        profile: &mut Profile,
    ) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
        let on = WithFamilies::new(on, &[]);
        run_items::<B>(&self.0, &Untyped(&on), inputs, Some(profile))
    }
}

/// An input whose tensor type is erased; `None` if the caller omits it.
type ErasedInput = Option<OnnxValue<ErasedTensor>>;

/// Erases the types of tensors.
fn erased<B: Backend + ?Sized>(inputs: &[Option<&B::Tensor>]) -> Vec<ErasedInput> {
    let item = |x: &B::Tensor| OnnxValue::Tensor(ErasedTensor::new(x.clone()));
    inputs.iter().map(|x| x.map(item)).collect()
}

/// Restores the types of tensors.
fn restored<B: Backend + ?Sized>(results: Vec<ErasedTensor>) -> Result<PlanOutputs<B::Tensor>, B::Error> {
    results.iter().map(restored_one::<B>).collect()
}

fn restored_one<B: Backend + ?Sized>(x: &ErasedTensor) -> Result<B::Tensor, B::Error> {
    Ok(x.get().ok_or_else(|| foreign("run", 0))?)
}

/// Runs the program on ONNX values: tensors, sequences, optionals and maps.
fn run_items<B: Backend + ?Sized>(
    program: &Program,
    target: &dyn Target,
    inputs: &[Option<OnnxValue<&B::Tensor>>],
    profile: Option<&mut Profile>,
) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
    let erased =
        |item: &OnnxValue<&B::Tensor>| item.map(&mut |x: &&B::Tensor| ErasedTensor::new((*x).clone()));
    let inputs: Vec<ErasedInput> = inputs.iter().map(|item| item.as_ref().map(erased)).collect();
    let results = run_untyped_items(program, target, &inputs, profile).map_err(ErasedError::typed::<B>)?;
    results.iter().map(|item| item.try_map(&mut restored_one::<B>)).collect()
}

/// Runs the program on ONNX values whose tensor types are erased.
fn run_untyped_items(
    program: &Program,
    target: &dyn Target,
    inputs: &[ErasedInput],
    profile: Option<&mut Profile>,
) -> Result<Vec<OnnxValue<ErasedTensor>>, ErasedError> {
    let run = |watch: &mut Watcher<'_>| Ok(program.run_live(target, inputs, watch)?.values()?);
    Caller::within(&program.caller, || match profile {
        None => run(&mut Watcher(None)),
        Some(profile) => profile.measure(|profile| run(&mut Watcher(Some(profile)))),
    })
}

/// Runs the program on erased tensors.
fn run_untyped(
    program: &Program,
    target: &dyn Target,
    inputs: &[ErasedInput],
) -> Result<Vec<ErasedTensor>, ErasedError> {
    Caller::within(&program.caller, || {
        Ok(program.tensors_alone(program.run_live(target, inputs, &mut Watcher(None))?)?)
    })
}
