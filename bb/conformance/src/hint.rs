//! Suggests which types a backend should declare, if it declares all types but supports only some.

use super::Call;
use super::valid_call::valid_call;
use bb_core::DataType;
use bb_ir::infer;
use bb_ir::op::Primitive;
use bb_ir::text::has_word;

/// The source text of a declaration of element types, in the language of the backend's author.
#[derive(Debug, Clone, Copy)]
pub struct TypesDeclaration {
    /// The name of the declaration, as in `fn types`.
    pub name: &'static str,
    /// Returns the source text that declares these types.
    pub source: fn(&[DataType]) -> String,
}

impl TypesDeclaration {
    /// The declaration in Rust.
    pub const RUST: TypesDeclaration = TypesDeclaration { name: "fn types", source: in_rust };
}

/// Returns the types to declare, if the backend supports only some of `all`; otherwise `None`.
///
/// `takes` runs a call on the backend and returns whether it succeeded.
pub(super) fn hint(
    all: &[DataType],
    declaration: TypesDeclaration,
    takes: impl Fn(&Call) -> bool,
) -> Option<String> {
    let taken = taken(all, takes);
    if taken.is_empty() || taken.len() == all.len() {
        return None;
    }
    Some(format!(
        "the backend takes some element types only; if the others are not meant to be there, declare those that are\n{}",
        (declaration.source)(&taken)
    ))
}

/// Returns a hint if a call failed because of an element type that the backend declares. This is assumed if both the call and
/// the causes of its error name the type.
pub(super) fn declared(
    declared: &[DataType],
    TypesDeclaration { name, .. }: TypesDeclaration,
    call: &str,
    causes: &str,
) -> Option<String> {
    let named = |dtype: &&DataType| has_word(causes, dtype.name()) && has_word(call, dtype.name());
    let dtype = declared.iter().find(named)?;
    Some(format!(
        "{dtype} is declared by `{name}`, so every operation that ONNX defines on it must take it: support it, or take it out of `{name}`"
    ))
}

/// Returns the source text of the method that declares these types.
fn in_rust(types: &[DataType]) -> String {
    let types: Vec<String> = types.iter().map(|dtype| format!("bb::DataType::{dtype:?}")).collect();
    let types = types.join(", ");
    format!("in `impl bb::Backend`: `fn types(&self) -> bb::DataTypes {{ bb::DataTypes::of(&[{types}]) }}`")
}

/// Returns the element types in `all` that every primitive supports, among those that ONNX allows for it. An operation that fails for all
/// of its types is ignored, because then the types are not the reason. So is an operation that is the only one to fail for a type whose
/// constants succeed, for instance a division that returns floats for integers.
fn taken(all: &[DataType], takes: impl Fn(&Call) -> bool) -> Vec<DataType> {
    let mut calls: Vec<(Primitive, DataType, Vec<DataType>, bool)> = Vec::new();
    for &op in Primitive::ALL {
        let main = usize::from(op == Primitive::Where);
        for &dtype in all {
            let call = valid_call(op, dtype, &[2, 2]);
            if infer::accepts(op, main, dtype) && call.inferred().is_ok() {
                calls.push((op, dtype, call.types(), takes(&call)));
            }
        }
    }
    let broken = |op: Primitive| !calls.iter().any(|(other, _, _, works)| *other == op && *works);
    let mut taken: Vec<DataType> = all.to_vec();
    let constant = |dtype: &&DataType| {
        calls.iter().any(|(op, main, _, works)| *op == Primitive::Constant && main == *dtype && !works)
    };
    loop {
        let fails = |dtype: &DataType| {
            let failed = calls.iter().filter(|(op, main, types, works)| {
                main == dtype && !works && !broken(*op) && types.iter().all(|t| taken.contains(t))
            });
            failed.count() > usize::from(!constant(&dtype))
        };
        let gone: Vec<DataType> = taken.iter().copied().filter(fails).collect();
        if gone.is_empty() {
            return taken;
        }
        // Without bools, comparisons fail because of their result, not their operands. So types whose constants fail are
        // removed first.
        let first: Vec<DataType> = gone.iter().filter(constant).copied().collect();
        let gone = if first.is_empty() { gone } else { first };
        taken.retain(|dtype| !gone.contains(dtype));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{Bool, F32, I64};

    #[test]
    fn the_types_to_declare_are_those_that_all_primitives_take() {
        let only =
            |types: &'static [DataType]| move |call: &Call| call.types().iter().all(|t| types.contains(t));
        let all = DataType::ALL;
        assert_eq!(taken(all, only(&[F32, I64, Bool])), [F32, I64, Bool]);
        assert_eq!(taken(all, only(&[F32])), [F32]);
        assert_eq!(taken(all, |_| true), all);
        // An operation that fails on every type gives no information about types.
        assert_eq!(taken(all, |call| call.op != Primitive::Exp), all);
        // A division that fails on integers is wrong itself: all other operations take integers.
        let float_division =
            |call: &Call| call.op != Primitive::Div || call.types().iter().all(|t| t.is_float());
        assert_eq!(taken(all, float_division), all);
        let rust = TypesDeclaration::RUST;
        let text = hint(all, rust, only(&[F32, Bool])).expect("a hint");
        assert!(text.ends_with("bb::DataTypes::of(&[bb::DataType::F32, bb::DataType::Bool]) }`"), "{text}");
        assert_eq!(hint(&[F32], rust, only(&[F32])), None);
        assert_eq!(hint(all, rust, |_| false), None);
    }
}
