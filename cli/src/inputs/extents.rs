//! The extents of inputs, which are declared by the model, set by options and files, or open.

use crate::args;
use crate::error::{Error, Result};
use crate::{out, render};
use bb_ir::graph::{Dim, ValueType};
use std::collections::{BTreeMap, HashMap, HashSet};

/// An extent that the model leaves open.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Open {
    /// A symbolic dimension, which may occur in several axes.
    Name(String),
    /// An unnamed dimension of one axis of one input.
    Axis { input: String, axis: usize },
}

impl std::fmt::Display for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Open::Name(name) => write!(f, "{name}"),
            Open::Axis { input, axis } => write!(f, "{input}[{axis}]"),
        }
    }
}

/// An input, as the model declares it.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) ty: ValueType,
}

/// The known extents of a model's inputs.
#[derive(Debug, Clone)]
pub(super) struct Extents {
    inputs: Vec<Declared>,
    /// The index of each input by its name.
    positions: HashMap<String, usize>,
    /// The extents of symbolic dimensions and unnamed axes, and the source of each for messages.
    known: BTreeMap<Open, (usize, String)>,
    /// The shapes of inputs that files or options determine.
    given: BTreeMap<String, Vec<usize>>,
    /// Whether all extents of the same symbolic dimension must be equal.
    strict: bool,
}

impl Extents {
    /// Applies the options. Returns an error for names that the model does not have, and for contradictions.
    pub(super) fn new(inputs: Vec<Declared>, options: &args::ExtentArgs, strict: bool) -> Result<Extents> {
        let positions = inputs.iter().enumerate().map(|(at, input)| (input.name.clone(), at)).collect();
        let (known, given) = (BTreeMap::new(), BTreeMap::new());
        let mut extents = Extents { inputs, positions, known, given, strict };
        let names = extents.names();
        for args::DimArg { name, extent } in &options.dims {
            if !names.contains(name) {
                return Err(Error::UnknownDim {
                    name: name.clone(),
                    nearest: bb_ir::nearest(name, names.iter().map(String::as_str)).map(str::to_owned),
                    known: names,
                });
            }
            extents.set(Open::Name(name.clone()), *extent, format!("--dim {name}={extent}"))?;
        }
        for (i, args::Shape { input, extents: shape }) in options.shapes.iter().enumerate() {
            if options.shapes.iter().take(i).any(|other| other.input == *input) {
                return Err(Error::Twice { option: "--shape", name: input.clone() });
            }
            extents.bind(input, shape, &format!("--shape {input}={}", render::extents(shape)))?;
        }
        Ok(extents)
    }

    /// Returns the symbolic dimensions of all inputs in order, without duplicates.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        for dim in self.inputs.iter().filter_map(|input| shape(&input.ty)).flatten() {
            if let Dim::Symbol(name) = dim
                && seen.insert(name)
            {
                names.push(name.clone());
            }
        }
        names
    }

    /// Sets the shape of an input, and thereby the symbolic dimensions in its declared shape.
    pub(super) fn bind(&mut self, input: &str, extents: &[usize], said: &str) -> Result<()> {
        if self.given.get(input).is_some_and(|given| given == extents) {
            return Ok(());
        }
        let declared = self.positions.get(input).and_then(|at| self.inputs.get_mut(*at));
        let Some(declared) = declared else {
            return Err(super::unknown(input, self.inputs.iter().map(|d| d.name.as_str())));
        };
        let refused = Error::Shape {
            input: input.to_owned(),
            declared: render::ty(&declared.ty),
            got: extents.to_vec(),
            said: said.to_owned(),
        };
        give_rank(&mut declared.ty, extents.len());
        let dims = match shape(&declared.ty) {
            Some(dims) if dims.len() == extents.len() => dims.to_vec(),
            _ => return Err(refused),
        };
        for (axis, (dim, &extent)) in dims.iter().zip(extents).enumerate() {
            match open(dim, input, axis) {
                Some(open) => self.meet(open, extent, said)?,
                None if *dim == Dim::Known(extent) => {}
                None => return Err(refused),
            }
        }
        self.given.insert(input.to_owned(), extents.to_vec());
        Ok(())
    }

    /// Records the extent of a dimension of an input. A second extent of the same symbolic dimension is ignored with a warning, because the
    /// model's declaration is false. It is an error if the user set the dimension.
    fn meet(&mut self, open: Open, extent: usize, said: &str) -> Result<()> {
        match self.known.get(&open) {
            Some((before, by)) if *before != extent && !self.strict && !by.starts_with("--dim ") => {
                let (first, second) = (format!("{before} by {by}"), format!("{extent} by {said}"));
                let warning = Error::Contradiction { name: open.to_string(), first, second };
                out::note(format_args!("warning: {warning}; the model gives both extents one name"));
                Ok(())
            }
            _ => self.set(open, extent, said.to_owned()),
        }
    }

    fn declared(&self, input: &str) -> Option<&Declared> {
        self.inputs.get(*self.positions.get(input)?)
    }

    /// Returns whether some input has an open rank.
    pub(super) fn misses_rank(&self) -> bool {
        let tensor = |ty: &ValueType| !matches!(ty, ValueType::Unknown | ValueType::Map(..));
        self.inputs.iter().any(|input| tensor(&input.ty) && shape(&input.ty).is_none())
    }

    /// Returns the extents with this rank for all inputs whose rank is open.
    pub(super) fn with_rank(&self, rank: usize) -> Extents {
        let mut extents = self.clone();
        extents.inputs.iter_mut().for_each(|input| give_rank(&mut input.ty, rank));
        extents
    }

    /// Returns the dimensions that look like batch sizes: the first dimensions of inputs that have other axes or contain integers. For
    /// these, 1 usually works.
    pub(super) fn batches(&self) -> HashSet<Open> {
        let batch = |input: &Declared| {
            let dims = shape(&input.ty).unwrap_or_default();
            let whole = matches!(&input.ty, ValueType::Tensor { dtype, .. } if dtype.is_integer());
            let first = dims.first().filter(|_| dims.len() > 1 || whole)?;
            open(first, &input.name, 0)
        };
        self.inputs.iter().filter_map(batch).collect()
    }

    fn set(&mut self, open: Open, extent: usize, said: String) -> Result<()> {
        match self.known.get(&open) {
            Some((before, by)) if *before != extent => Err(Error::Contradiction {
                name: open.to_string(),
                first: format!("{before} by {by}"),
                second: format!("{extent} by {said}"),
            }),
            _ => {
                // The first source wins, because options are applied before files.
                self.known.entry(open).or_insert((extent, said));
                Ok(())
            }
        }
    }

    /// Returns the open dimensions, in the order of the inputs.
    pub(super) fn open(&self) -> Vec<Open> {
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        for input in &self.inputs {
            for (axis, dim) in shape(&input.ty).unwrap_or_default().iter().enumerate() {
                if let Some(open) = open(dim, &input.name, axis)
                    && !self.known.contains_key(&open)
                    && seen.insert(open.clone())
                {
                    all.push(open);
                }
            }
        }
        all
    }

    /// Returns the extents of an input. Open dimensions are returned as the model declares them. Returns `None` if the rank is unknown.
    pub(super) fn dims(&self, input: &str) -> Option<Vec<Dim>> {
        if let Some(given) = self.given.get(input) {
            return Some(given.iter().map(|&extent| Dim::Known(extent)).collect());
        }
        let declared = self.declared(input)?;
        let known = |(axis, dim): (usize, &Dim)| {
            let known = open(dim, input, axis).and_then(|open| self.known.get(&open));
            known.map_or_else(|| dim.clone(), |(extent, _)| Dim::Known(*extent))
        };
        Some(shape(&declared.ty)?.iter().enumerate().map(known).collect())
    }

    /// Returns the extents of an input. `dim_of` replaces the open dimensions. Returns `None` if the rank is unknown.
    pub(super) fn symbolic(&self, input: &str, dim_of: &dyn Fn(&Open) -> Dim) -> Option<Vec<Dim>> {
        let dims = self.dims(input)?;
        Some(
            dims.iter()
                .enumerate()
                .map(|(axis, dim)| open(dim, input, axis).map_or_else(|| dim.clone(), |o| dim_of(&o)))
                .collect(),
        )
    }

    /// Returns the shape of an input. `choose` returns the extents of open dimensions.
    pub(super) fn shape(&self, input: &str, choose: &dyn Fn(&Open) -> usize) -> Vec<usize> {
        if let Some(given) = self.given.get(input) {
            return given.clone();
        }
        let Some(declared) = self.declared(input) else { return Vec::new() };
        let dims = shape(&declared.ty).unwrap_or_default().iter().enumerate();
        dims.map(|(axis, dim)| match (dim, open(dim, input, axis)) {
            (_, Some(open)) => self.known.get(&open).map_or_else(|| choose(&open), |(extent, _)| *extent),
            (Dim::Known(extent), None) => *extent,
            (_, None) => 1,
        })
        .collect()
    }
}

/// Returns the open dimension, or `None` if the extent is a number.
fn open(dim: &Dim, input: &str, axis: usize) -> Option<Open> {
    match dim {
        Dim::Known(_) => None,
        Dim::Symbol(name) => Some(Open::Name(name.clone())),
        Dim::Computed(_) | Dim::Unknown => Some(Open::Axis { input: input.to_owned(), axis }),
    }
}

/// Returns the declared shape of an input; for a sequence or an optional, the shape of the tensors in it.
fn shape(ty: &ValueType) -> Option<&[Dim]> {
    match ty {
        ValueType::Tensor { shape, .. } => shape.as_deref(),
        ValueType::Sequence(of) | ValueType::Optional(of) => shape(of),
        ValueType::Map(..) | ValueType::Unknown => None,
    }
}

/// Sets the rank of a tensor if it is open.
fn give_rank(ty: &mut ValueType, rank: usize) {
    match ty {
        ValueType::Tensor { shape: shape @ None, .. } => *shape = Some(vec![Dim::Unknown; rank]),
        ValueType::Sequence(of) | ValueType::Optional(of) => give_rank(of, rank),
        _ => {}
    }
}
