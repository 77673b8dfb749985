//! Checks the inputs that a caller passes against the declarations of a graph.
//!
//! The declarations are prepared once, when a graph is compiled or first dispatched, so that a run compares element
//! types and extents without allocating. The inputs of a compiled graph are identified by index, so no name is looked
//! up. Every code path that passes tensors into a graph uses this module.

use super::OnnxValue;
use super::Tensor;
use crate::Error;
use crate::error::{InputMismatch, InputProblem};
use bb_ir::graph::{Dim, Graph, ValueId, ValueType};
use bb_ir::proto::GraphProto;
use bb_ir::{DataType, Shape, TensorData};
use std::collections::HashMap;

/// The inputs that a graph declares.
///
/// Element types, ranks and fixed extents are always checked. A model also claims that symbolic extents with the same
/// name are equal, but exporters often get this wrong. [`contradictions`](InputSpec::contradictions) lists the inputs
/// that contradict the claim; only a [strict](InputSpec::with_strict) `InputSpec` refuses them.
///
/// The default plans check their inputs. A backend with its own [`Executable`](crate::Executable) creates an
/// `InputSpec` from the module's graph and calls it at the beginning of each run.
///
/// # Examples
///
/// ```
/// use bb::{Error, InputSpec, Module, TensorData};
/// let sum = bb::trace(&[("x", bb::DataType::F32, &[2]), ("y", bb::DataType::F32, &[2])], |on, inputs| {
///     Ok(vec![bb::Backend::add(on, &inputs[0], &inputs[1])?])
/// })?;
/// let spec = InputSpec::new(Module::from_graph(&sum, &[], &[])?.graph());
/// let x = TensorData::new(&[2], &[1f32, 2.])?;
/// let y = TensorData::new(&[3], &[1f32, 2., 3.])?;
/// assert!(spec.check_by(2, &|i| [Some((x.dtype(), x.shape())), None][i]).is_ok());
/// let wrong = spec.check_by(2, &|i| [Some((x.dtype(), x.shape())), Some((y.dtype(), y.shape()))][i]);
/// let message = "input `y` is declared as f32[2], got f32[3]: extent 3 of axis 0 must be 2";
/// assert_eq!(wrong.unwrap_err().to_string(), message);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct InputSpec {
    inputs: Box<[Declared]>,
    symbols: Box<[Symbol]>,
    /// Whether extents with the same name must be equal.
    strict: bool,
}

/// An input and its declaration.
#[derive(Debug, Clone)]
struct Declared {
    name: String,
    ty: ValueType,
    form: DeclaredType,
    /// The shape of the default value, which replaces an omitted input.
    default: Option<Shape>,
}

/// A declared type, prepared for the checks.
#[derive(Debug, Clone)]
enum DeclaredType {
    Any,
    Tensor(TensorForm),
    Sequence(Box<DeclaredType>),
    Optional(Box<DeclaredType>),
    Map { key: DataType, value: Option<DataType> },
}

#[derive(Debug, Clone)]
struct TensorForm {
    dtype: DataType,
    /// `None` if the model declares no shape, so that any rank is allowed. An empty shape is rank 0.
    extents: Option<Box<[Extent]>>,
}

/// A declared extent.
#[derive(Debug, Clone, Copy)]
enum Extent {
    Any,
    Number(usize),
    /// The index of the symbolic dimension, and the number of its occurrences before this one.
    Symbol {
        symbol: u32,
        before: u32,
    },
}

/// A symbolic dimension and the input axes where it occurs, in order.
#[derive(Debug, Clone)]
struct Symbol {
    name: String,
    places: Vec<InputAxis>,
}

/// The symbolic dimensions found so far, and their indices by name.
#[derive(Default)]
struct Symbols {
    list: Vec<Symbol>,
    numbers: HashMap<String, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InputAxis {
    input: usize,
    axis: usize,
}

/// A mismatch with indices instead of names. It becomes an [`InputProblem`] when it is reported.
enum Wrong {
    Kind,
    DataType { expected: DataType, got: DataType },
    Rank { expected: usize, got: usize },
    Extent { axis: usize, expected: usize, got: usize },
    Symbol { axis: usize, symbol: u32, bound: InputAxis, expected: usize, got: usize },
    Element { index: usize, wrong: Box<Wrong> },
}

impl InputSpec {
    /// Prepares the declarations of a graph's inputs.
    pub fn new(graph: &Graph) -> InputSpec {
        let defaults: HashMap<ValueId, &TensorData> =
            graph.constants.iter().map(|(v, data)| (*v, data)).collect();
        InputSpec::of(graph.inputs.iter().map(|value| {
            let ty = graph.values.get(value.index()).map(|v| v.ty.clone()).unwrap_or_default();
            let default = defaults.get(value).map(|data| data.shape().into());
            (graph.name_of(*value).to_owned(), ty, default)
        }))
    }

    /// Sets whether differing extents with the same name in the model are an error.
    #[must_use]
    pub fn with_strict(self, strict: bool) -> InputSpec {
        InputSpec { strict, ..self }
    }

    /// Lists the extents that differ from other extents with the same name in the model.
    ///
    /// `given` returns the element type and shape of the tensor of each input. Omitted inputs, sequences and inputs
    /// that do not match the declared type are skipped.
    pub fn contradictions<'a>(
        &self,
        given: &impl Fn(usize) -> Option<(DataType, &'a [usize])>,
    ) -> Vec<InputMismatch> {
        let extent = |place: InputAxis| given(place.input).map(|(_, shape)| shape.get(place.axis).copied());
        let mut found = Vec::new();
        for (input, declared) in self.inputs.iter().enumerate() {
            let (Some((dtype, shape)), DeclaredType::Tensor(form)) = (given(input), declared.form.optional())
            else {
                continue;
            };
            let extents = form.extents.iter().flatten().zip(shape).enumerate();
            for (axis, (extent_declared, &got)) in extents {
                let Extent::Symbol { symbol, before } = *extent_declared else { continue };
                if let Some((bound, expected)) = self.bound(symbol, before, &extent)
                    && expected != got
                {
                    let wrong = Wrong::Symbol { axis, symbol, bound, expected, got };
                    found.push(self.difference(input, tensor_type(dtype, shape), wrong));
                }
            }
        }
        found
    }

    /// Prepares the declarations of a graph that was not checked.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if a declared type is invalid.
    pub(crate) fn of_proto(graph: &GraphProto) -> Result<InputSpec, Error> {
        let declared = bb_ir::check::declared_inputs(graph)?;
        Ok(InputSpec::of(declared.into_iter().map(|(name, ty)| (name.to_owned(), ty, None))))
    }

    /// Checks tensors that are passed by name; omitted inputs are not checked.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownInput`] if the graph has no input of this name; [`Error::Input`] for the first difference.
    pub(crate) fn check_named<T: Tensor>(&self, given: &HashMap<String, T>) -> Result<(), Error> {
        // Names in a map are unique, so there are no more tensors than inputs if all names are known.
        let known = self.inputs.iter().filter(|input| given.contains_key(&input.name)).count();
        if known < given.len() {
            let expected: Vec<String> = self.inputs.iter().map(|input| input.name.clone()).collect();
            let unknown = given.keys().filter(|name| !expected.contains(name)).min();
            let name = unknown.cloned().unwrap_or_default();
            return Err(Error::UnknownInput { name, expected });
        }
        self.check_by(self.inputs.len(), &|i| {
            let x = given.get(&self.inputs.get(i)?.name)?;
            Some((x.dtype(), x.shape()))
        })
    }

    /// Prepares declarations. Each has a name, a type and the shape of the default value, if any.
    fn of(inputs: impl Iterator<Item = (String, ValueType, Option<Shape>)>) -> InputSpec {
        let mut symbols = Symbols::default();
        let inputs = inputs.enumerate().map(|(input, (name, ty, default))| {
            let form = DeclaredType::new(&ty, Some(input), &mut symbols);
            Declared { name, ty, form, default }
        });
        InputSpec { inputs: inputs.collect(), symbols: symbols.list.into(), strict: false }
    }

    /// Checks tensors against the declarations. For an omitted input, the default value is used.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] for the first difference; [`Error::InputCount`] if there are more tensors than inputs.
    #[inline]
    pub fn check<T: Tensor>(&self, given: &[Option<&T>]) -> Result<(), Error> {
        self.check_by(given.len(), &|i| given.get(i).copied().flatten().map(|x| (x.dtype(), x.shape())))
    }

    /// Checks `count` tensors against the declarations; `given` returns their element types and shapes.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    #[inline]
    pub fn check_by<'a>(
        &self,
        count: usize,
        given: &impl Fn(usize) -> Option<(DataType, &'a [usize])>,
    ) -> Result<(), Error> {
        self.count(count)?;
        let extent = |place: InputAxis| given(place.input).map(|(_, shape)| shape.get(place.axis).copied());
        for (input, declared) in self.inputs.iter().enumerate() {
            let Some((dtype, shape)) = given(input) else { continue };
            let compared = match declared.form.optional() {
                DeclaredType::Any => Ok(()),
                DeclaredType::Tensor(form) => self.tensor(form, dtype, shape, &extent),
                DeclaredType::Sequence(_) | DeclaredType::Map { .. } | DeclaredType::Optional(_) => {
                    Err(Wrong::Kind)
                }
            };
            if let Err(wrong) = compared {
                return Err(self.mismatch(input, tensor_type(dtype, shape), wrong));
            }
        }
        Ok(())
    }

    /// Checks values against the declarations. For an omitted input, the default value is used.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn check_items<T: Tensor>(&self, given: &[Option<OnnxValue<&T>>]) -> Result<(), Error> {
        self.count(given.len())?;
        let extent = |place: InputAxis| match given.get(place.input) {
            Some(Some(OnnxValue::Tensor(x))) => Some(x.shape().get(place.axis).copied()),
            _ => None,
        };
        for (input, (declared, item)) in self.inputs.iter().zip(given).enumerate() {
            let Some(item) = item else { continue };
            if let Err(wrong) = self.item(&declared.form, item, &extent) {
                return Err(self.mismatch(input, item_type(item), wrong));
            }
        }
        Ok(())
    }

    fn count(&self, got: usize) -> Result<(), Error> {
        let expected = self.inputs.len();
        if got <= expected { Ok(()) } else { Err(Error::InputCount { expected, got }) }
    }

    fn item<T: Tensor>(
        &self,
        form: &DeclaredType,
        item: &OnnxValue<&T>,
        extent: &impl Fn(InputAxis) -> Option<Option<usize>>,
    ) -> Result<(), Wrong> {
        match (form, item) {
            (DeclaredType::Any, _) | (DeclaredType::Optional(_), OnnxValue::Absent) => Ok(()),
            (DeclaredType::Optional(of), item) => self.item(of, item, extent),
            (DeclaredType::Tensor(form), OnnxValue::Tensor(x)) => {
                self.tensor(form, x.dtype(), x.shape(), extent)
            }
            (DeclaredType::Sequence(of), OnnxValue::Sequence(items)) => {
                items.iter().enumerate().try_for_each(|(index, item)| {
                    let compared = self.item(of, item, extent);
                    compared.map_err(|wrong| Wrong::Element { index, wrong: Box::new(wrong) })
                })
            }
            (DeclaredType::Map { key, value }, OnnxValue::Map { keys, values }) => {
                let types = [(Some(*key), keys.dtype()), (*value, values.dtype())];
                match types.into_iter().find(|(expected, got)| expected.is_some_and(|e| e != *got)) {
                    Some((Some(expected), got)) => Err(Wrong::DataType { expected, got }),
                    _ => Ok(()),
                }
            }
            (DeclaredType::Tensor(_) | DeclaredType::Sequence(_) | DeclaredType::Map { .. }, _) => {
                Err(Wrong::Kind)
            }
        }
    }

    /// Checks a tensor. `extent` returns the extent of another input axis, or `None` if that input is omitted.
    #[inline]
    fn tensor(
        &self,
        form: &TensorForm,
        dtype: DataType,
        shape: &[usize],
        extent: &impl Fn(InputAxis) -> Option<Option<usize>>,
    ) -> Result<(), Wrong> {
        if form.dtype != dtype {
            return Err(Wrong::DataType { expected: form.dtype, got: dtype });
        }
        let Some(extents) = &form.extents else { return Ok(()) };
        if extents.len() != shape.len() {
            return Err(Wrong::Rank { expected: extents.len(), got: shape.len() });
        }
        for (axis, (declared, &got)) in extents.iter().zip(shape).enumerate() {
            match *declared {
                Extent::Any => {}
                Extent::Symbol { .. } if !self.strict => {}
                Extent::Number(expected) if expected == got => {}
                Extent::Number(expected) => return Err(Wrong::Extent { axis, expected, got }),
                Extent::Symbol { symbol, before } => {
                    if let Some((bound, expected)) = self.bound(symbol, before, extent)
                        && expected != got
                    {
                        return Err(Wrong::Symbol { axis, symbol, bound, expected, got });
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the extent that later occurrences of a symbolic dimension must equal, with its input axis. The first
    /// occurrence that has an extent determines it.
    #[inline]
    fn bound(
        &self,
        symbol: u32,
        before: u32,
        extent: &impl Fn(InputAxis) -> Option<Option<usize>>,
    ) -> Option<(InputAxis, usize)> {
        let places = self.symbols.get(symbol as usize)?.places.iter().take(before as usize);
        places.copied().find_map(|place| {
            let default = || self.inputs.get(place.input)?.default.as_ref()?.get(place.axis).copied();
            Some((place, extent(place).unwrap_or_else(default)?))
        })
    }

    #[cold]
    fn mismatch(&self, input: usize, got: ValueType, wrong: Wrong) -> Error {
        Error::Input(Box::new(self.difference(input, got, wrong)))
    }

    fn difference(&self, input: usize, got: ValueType, wrong: Wrong) -> InputMismatch {
        let declared = self.inputs.get(input);
        InputMismatch {
            name: declared.map(|d| d.name.clone()).unwrap_or_default(),
            declared: declared.map(|d| d.ty.clone()).unwrap_or_default(),
            got,
            problem: self.problem(wrong),
        }
    }

    fn problem(&self, wrong: Wrong) -> InputProblem {
        match wrong {
            Wrong::Kind => InputProblem::Kind,
            Wrong::DataType { expected, got } => InputProblem::DataType { expected, got },
            Wrong::Rank { expected, got } => InputProblem::Rank { expected, got },
            Wrong::Extent { axis, expected, got } => InputProblem::Extent { axis, expected, got },
            Wrong::Symbol { axis, symbol, bound, expected, got } => InputProblem::Symbol {
                axis,
                symbol: self.symbols.get(symbol as usize).map(|s| s.name.clone()).unwrap_or_default(),
                expected,
                got,
                bound_by: self.inputs.get(bound.input).map(|d| d.name.clone()).unwrap_or_default(),
                bound_axis: bound.axis,
            },
            Wrong::Element { index, wrong } => {
                InputProblem::Element { index, problem: Box::new(self.problem(*wrong)) }
            }
        }
    }
}

impl DeclaredType {
    /// Prepares a type. `input` is the index of the input whose tensor has this type, if the tensor is an input itself.
    fn new(ty: &ValueType, input: Option<usize>, symbols: &mut Symbols) -> DeclaredType {
        match ty {
            ValueType::Unknown => DeclaredType::Any,
            ValueType::Tensor { dtype, shape } => {
                let extents = shape.as_ref().map(|dims| {
                    dims.iter()
                        .enumerate()
                        .map(|(axis, dim)| Extent::new(dim, axis, input, symbols))
                        .collect()
                });
                DeclaredType::Tensor(TensorForm { dtype: *dtype, extents })
            }
            // The elements of a sequence share a type but may have different extents. So a symbolic dimension in a
            // sequence has no single extent and is not checked. Fixed extents and the rank are checked for each
            // element.
            ValueType::Sequence(of) => DeclaredType::Sequence(Box::new(DeclaredType::new(of, None, symbols))),
            ValueType::Optional(of) => {
                DeclaredType::Optional(Box::new(DeclaredType::new(of, input, symbols)))
            }
            ValueType::Map(key, of) => {
                let value = if let ValueType::Tensor { dtype, .. } = **of { Some(dtype) } else { None };
                DeclaredType::Map { key: *key, value }
            }
        }
    }

    /// Returns the content type of an optional; any other type is returned unchanged.
    fn optional(&self) -> &DeclaredType {
        match self {
            DeclaredType::Optional(of) => of.optional(),
            other => other,
        }
    }
}

impl Extent {
    fn new(dim: &Dim, axis: usize, input: Option<usize>, symbols: &mut Symbols) -> Extent {
        match (dim, input) {
            (Dim::Known(extent), _) => Extent::Number(*extent),
            (Dim::Symbol(name), Some(input)) => {
                let Symbols { list, numbers } = symbols;
                let number = *numbers.entry(name.clone()).or_insert_with(|| {
                    list.push(Symbol { name: name.clone(), places: Vec::new() });
                    list.len() - 1
                });
                let Some(symbol) = list.get_mut(number) else { return Extent::Any };
                symbol.places.push(InputAxis { input, axis });
                Extent::Symbol { symbol: number as u32, before: symbol.places.len() as u32 - 1 }
            }
            (Dim::Symbol(_) | Dim::Computed(_) | Dim::Unknown, _) => Extent::Any,
        }
    }
}

/// Returns the type of a tensor of these extents.
pub(crate) fn tensor_type(dtype: DataType, shape: &[usize]) -> ValueType {
    ValueType::Tensor { dtype, shape: Some(shape.iter().map(|&n| Dim::Known(n)).collect()) }
}

/// Returns the type of a value that was passed. The type of a sequence is derived from its first element.
fn item_type<T: Tensor>(item: &OnnxValue<&T>) -> ValueType {
    match item {
        OnnxValue::Tensor(x) => tensor_type(x.dtype(), x.shape()),
        OnnxValue::Sequence(items) => {
            ValueType::Sequence(Box::new(items.first().map(item_type).unwrap_or_default()))
        }
        OnnxValue::Absent => ValueType::Optional(Box::default()),
        OnnxValue::Map { keys, values } => {
            ValueType::Map(keys.dtype(), Box::new(ValueType::Tensor { dtype: values.dtype(), shape: None }))
        }
    }
}
