//! The types that a model claims for its values, and warnings about false claims and about imports that ONNX does not
//! allow.
//!
//! Exporters often write wrong `value_info` and wrong shapes of outputs, but every other runtime runs
//! these models. So a claim is stored next to the inferred type, and never replaces it: plans and inference do not use
//! claimed shapes. The declared types of a graph's inputs are not claims, because each run compares its inputs with them. A
//! claimed element type is used if nothing else is known; if it contradicts an inferred element type, that is an error.

use super::{Attribute, Dim, Graph, ValueInfo, ValueType};
use crate::error::domain_title;
use crate::text::{sentence, shown};

/// A fault in a model that can be run nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Warning {
    /// The declared type of a value contradicts the inferred one. The inferred type is used.
    Declaration {
        /// The value's name.
        value: String,
        /// The declared type.
        declared: ValueType,
        /// The inferred type.
        found: ValueType,
    },
    /// The model declares two types of a value that contradict each other, and inference cannot determine which
    /// one is wrong.
    Declarations {
        /// The value's name.
        value: String,
        /// The first declared type.
        first: ValueType,
        /// The second declared type.
        second: ValueType,
    },
    /// A model or a function imports a domain in several versions. The last import is used, as in ONNX Runtime.
    ImportedTwice {
        /// The function that contains the imports; `None` if the model itself contains them.
        function: Option<String>,
        /// The domain; empty for ONNX's own domain.
        domain: String,
        /// A version that is not used.
        other: i64,
        /// The version that is used.
        used: i64,
    },
    /// A model does not import a domain whose operators it uses. The newest version is used, as in ONNX Runtime.
    NotImported {
        /// The domain.
        domain: String,
        /// The version that is used.
        used: i64,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::Declaration { value, declared, found } => {
                write!(
                    f,
                    "value `{}` is declared as {}, but is {}; the declaration is not used",
                    shown(value),
                    sentence(declared),
                    sentence(found)
                )
            }
            Warning::Declarations { value, first, second } => {
                let (value, first, second) = (shown(value), sentence(first), sentence(second));
                write!(f, "value `{value}` is declared as {first} and as {second}; neither is used")
            }
            Warning::ImportedTwice { function, domain, other, used } => {
                if let Some(function) = function {
                    write!(f, "in function `{}`, ", shown(function))?;
                }
                write!(
                    f,
                    "domain `{}` is imported in version {other} and in version {used}; version {used} is used, because it is the last",
                    shown(domain_title(domain))
                )
            }
            Warning::NotImported { domain, used } => {
                write!(
                    f,
                    "domain `{}` is not imported; version {used} of its operators is used, because it is the newest",
                    shown(domain_title(domain))
                )
            }
        }
    }
}

impl ValueType {
    /// Returns the type without shapes: only the kinds of values and the element types remain.
    pub(crate) fn unshaped(&self) -> ValueType {
        match self {
            ValueType::Unknown => ValueType::Unknown,
            ValueType::Tensor { dtype, .. } => ValueType::Tensor { dtype: *dtype, shape: None },
            ValueType::Sequence(of) => ValueType::Sequence(Box::new(of.unshaped())),
            ValueType::Optional(of) => ValueType::Optional(Box::new(of.unshaped())),
            ValueType::Map(key, of) => ValueType::Map(*key, Box::new(of.unshaped())),
        }
    }

    /// Returns whether no value can have both types.
    ///
    /// Symbolic dimensions are compared only if `names` is true, which requires that the names have the same meaning in
    /// both types.
    fn contradicts(&self, other: &ValueType, names: bool) -> bool {
        match (self, other) {
            (ValueType::Unknown, _) | (_, ValueType::Unknown) => false,
            (ValueType::Tensor { dtype: a, shape: left }, ValueType::Tensor { dtype: b, shape: right }) => {
                let shapes = left.as_ref().zip(right.as_ref());
                let differ = |(left, right): (&Vec<Dim>, &Vec<Dim>)| {
                    left.len() != right.len() || left.iter().zip(right).any(|(a, b)| differ(a, b, names))
                };
                a != b || shapes.is_some_and(differ)
            }
            (ValueType::Sequence(a), ValueType::Sequence(b))
            | (ValueType::Optional(a), ValueType::Optional(b)) => a.contradicts(b, names),
            (ValueType::Map(k, a), ValueType::Map(l, b)) => k != l || a.contradicts(b, names),
            _ => true,
        }
    }

    /// Returns the type with unknown parts taken from `claim`: always the names of dimensions, and if `all` is true
    /// also extents and shapes.
    fn filled(&self, claim: &ValueType, all: bool) -> ValueType {
        match (self, claim) {
            (ValueType::Unknown, claim) if all => claim.clone(),
            (ValueType::Tensor { dtype, shape: None }, ValueType::Tensor { dtype: d, shape })
                if all && dtype == d =>
            {
                ValueType::Tensor { dtype: *dtype, shape: shape.clone() }
            }
            (
                ValueType::Tensor { dtype, shape: Some(known) },
                ValueType::Tensor { dtype: d, shape: Some(claimed) },
            ) if dtype == d && known.len() == claimed.len() => {
                let fill = |(known, claimed): (&Dim, &Dim)| match (known, claimed) {
                    (Dim::Unknown, Dim::Symbol(_)) => claimed.clone(),
                    (Dim::Unknown, _) if all => claimed.clone(),
                    _ => known.clone(),
                };
                ValueType::Tensor {
                    dtype: *dtype,
                    shape: Some(known.iter().zip(claimed).map(fill).collect()),
                }
            }
            (ValueType::Sequence(a), ValueType::Sequence(b)) => {
                ValueType::Sequence(Box::new(a.filled(b, all)))
            }
            (ValueType::Optional(a), ValueType::Optional(b)) => {
                ValueType::Optional(Box::new(a.filled(b, all)))
            }
            (ValueType::Map(k, a), ValueType::Map(l, b)) if k == l => {
                ValueType::Map(*k, Box::new(a.filled(b, all)))
            }
            (known, _) => known.clone(),
        }
    }
}

/// Returns whether two extents cannot be equal.
fn differ(a: &Dim, b: &Dim, names: bool) -> bool {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) => a != b,
        // A difference that contains no names, as between `n` and `n + 1`, is the same for all values of the names.
        _ if names => match (a.formula(), b.formula()) {
            (Some(a), Some(b)) => a.minus(&b).and_then(|d| d.constant()).is_some_and(|d| d != 0),
            _ => false,
        },
        _ => false,
    }
}

impl ValueInfo {
    /// Returns the known type, with the names that the model claims for unknown extents.
    ///
    /// A name is only a claim of the exporter: two extents with the same name may differ.
    pub fn named(&self) -> ValueType {
        self.filled(false)
    }

    /// Returns the known type, completed by the model's claims.
    ///
    /// This is for values that never exist at run time, so that they cannot contradict the claim, and for writing the
    /// claims to a model again.
    pub fn claimed(&self) -> ValueType {
        self.filled(true)
    }

    fn filled(&self, all: bool) -> ValueType {
        let fits = self.declared.iter().find(|claim| !claim.contradicts(&self.ty, false));
        fits.map_or_else(|| self.ty.clone(), |claim| self.ty.filled(claim, all))
    }

    /// Adds warnings about this value. `names` is true if the names of dimensions have the same meaning in the claims and
    /// in the inferred types.
    fn warn(&self, names: bool, warnings: &mut Vec<Warning>) {
        let mut holds: Option<&ValueType> = None;
        for declared in &self.declared {
            let value = self.name.clone();
            if declared.contradicts(&self.ty, names) {
                warnings.push(Warning::Declaration {
                    value,
                    declared: declared.clone(),
                    found: self.ty.clone(),
                });
            } else if let Some(first) = holds
                && first.contradicts(declared, names)
            {
                warnings.push(Warning::Declarations {
                    value,
                    first: first.clone(),
                    second: declared.clone(),
                });
            } else {
                holds = holds.or(Some(declared));
            }
        }
    }
}

impl Graph {
    /// Lists the faults of the model's imports, and the false claims about values, including values of subgraphs.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.imports.clone();
        self.warn(true, &mut warnings);
        warnings
    }

    fn warn(&self, outermost: bool, warnings: &mut Vec<Warning>) {
        // A subgraph has its own dimension names, but the inferred types use the names of the enclosing graphs.
        self.values.iter().for_each(|value| value.warn(outermost, warnings));
        for (_, attribute) in self.nodes.iter().flat_map(|node| node.attributes.iter()) {
            match attribute {
                Attribute::Graph(graph) => graph.warn(false, warnings),
                Attribute::Graphs(graphs) => graphs.iter().for_each(|graph| graph.warn(false, warnings)),
                _ => {}
            }
        }
    }
}

impl std::fmt::Display for ValueType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ValueType::Unknown => f.write_str("anything"),
            ValueType::Tensor { dtype, shape: None } => dtype.fmt(f),
            ValueType::Tensor { dtype, shape: Some(dims) } => {
                write!(f, "{dtype}[")?;
                for (i, dim) in dims.iter().enumerate() {
                    let separator = if i == 0 { "" } else { ", " };
                    write!(f, "{separator}{dim}")?;
                }
                f.write_str("]")
            }
            ValueType::Sequence(of) => write!(f, "sequence of {of}"),
            ValueType::Optional(of) => write!(f, "optional {of}"),
            ValueType::Map(key, of) => write!(f, "map from {key} to {of}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;
    use crate::graph::DimExpr;

    fn f32s(dims: &[&str]) -> ValueType {
        let dim = |text: &&str| match (text.parse(), *text) {
            (Ok(n), _) => Dim::Known(n),
            (_, "?") => Dim::Unknown,
            (_, name) => Dim::Symbol(name.to_owned()),
        };
        ValueType::Tensor { dtype: DataType::F32, shape: Some(dims.iter().map(dim).collect()) }
    }

    fn value(known: &[&str], claims: &[&[&str]]) -> ValueInfo {
        let declared = claims.iter().map(|claim| f32s(claim)).collect();
        ValueInfo { name: "y".to_owned(), ty: f32s(known), declared }
    }

    #[test]
    fn names_are_kept_and_numbers_are_not_trusted() {
        let y = value(&["?", "?", "4"], &[&["n", "3", "m"]]);
        assert_eq!(y.named(), f32s(&["n", "?", "4"]));
        assert_eq!(y.claimed(), f32s(&["n", "3", "4"]));
        let wrong = value(&["?", "2"], &[&["n", "3"], &["m", "2"]]);
        assert_eq!(wrong.named(), f32s(&["m", "2"]));
    }

    #[test]
    fn each_contradiction_is_reported_once() {
        let warned = |value: &ValueInfo| {
            let mut warnings = Vec::new();
            value.warn(true, &mut warnings);
            warnings.iter().map(Warning::to_string).collect::<Vec<_>>()
        };
        assert_eq!(warned(&value(&["?", "2"], &[&["n", "2"], &["n", "k"]])), [""; 0]);
        let wrong = "value `y` is declared as f32[3], but is f32[2]; the declaration is not used";
        assert_eq!(warned(&value(&["2"], &[&["3"]])), [wrong]);
        let both = "value `y` is declared as f32[3] and as f32[4]; neither is used";
        assert_eq!(warned(&value(&["?"], &[&["3"], &["4"]])), [both]);
        let grown = DimExpr::name("n").plus(&1.into()).map(Dim::from).into_iter().collect();
        let ty = ValueType::Tensor { dtype: DataType::F32, shape: Some(grown) };
        let y = ValueInfo { name: "y".to_owned(), ty, declared: vec![f32s(&["n"])] };
        assert_eq!(warned(&y).len(), 1, "n + 1 is not n");
    }
}
