//! Combines two types that are known for the same value.

use super::{Dim, ValueType};

/// Merges two types of one value; returns `None` if they contradict each other.
///
/// If both types have a symbolic dimension at the same index, the dimension of `a` is used.
pub(crate) fn merge(a: &ValueType, b: &ValueType) -> Option<ValueType> {
    use ValueType as T;
    Some(match (a, b) {
        (T::Unknown, other) | (other, T::Unknown) => other.clone(),
        (T::Tensor { dtype, shape }, T::Tensor { dtype: d, shape: s }) if dtype == d => {
            let shape = match (shape, s) {
                (None, other) | (other, None) => other.clone(),
                (Some(a), Some(b)) if a.len() == b.len() => {
                    Some(a.iter().zip(b).map(|(a, b)| merge_dim(a, b)).collect::<Option<_>>()?)
                }
                _ => return None,
            };
            T::Tensor { dtype: *dtype, shape }
        }
        (T::Sequence(a), T::Sequence(b)) => T::Sequence(Box::new(merge(a, b)?)),
        (T::Optional(a), T::Optional(b)) => T::Optional(Box::new(merge(a, b)?)),
        (T::Map(k, a), T::Map(l, b)) if k == l => T::Map(*k, Box::new(merge(a, b)?)),
        _ => return None,
    })
}

fn merge_dim(a: &Dim, b: &Dim) -> Option<Dim> {
    Some(match (a, b) {
        (Dim::Known(x), Dim::Known(y)) if x != y => return None,
        (Dim::Known(_), _) | (_, Dim::Unknown) => a.clone(),
        (Dim::Unknown, other) | (_, other @ Dim::Known(_)) => other.clone(),
        (Dim::Symbol(_) | Dim::Computed(_), Dim::Symbol(_) | Dim::Computed(_)) => a.clone(),
    })
}

/// Estimates the size of a copy of a type in bytes.
pub(crate) fn weight(ty: &ValueType) -> usize {
    match ty {
        ValueType::Unknown | ValueType::Tensor { shape: None, .. } => 0,
        ValueType::Tensor { shape: Some(dims), .. } => dims
            .iter()
            .map(|d| match d {
                Dim::Symbol(name) => 32 + name.len(),
                Dim::Computed(formula) => 32 + formula.weight(),
                Dim::Known(_) | Dim::Unknown => 32,
            })
            .sum(),
        ValueType::Sequence(inner) | ValueType::Optional(inner) | ValueType::Map(_, inner) => {
            64 + weight(inner)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;

    fn f32s(shape: &[Dim]) -> ValueType {
        ValueType::Tensor { dtype: DataType::F32, shape: Some(shape.to_vec()) }
    }

    #[test]
    fn merging_keeps_what_is_known_and_finds_contradictions() {
        let n = || Dim::Symbol("n".to_owned());
        let a = f32s(&[n(), Dim::Unknown]);
        let b = f32s(&[Dim::Known(2), n()]);
        assert_eq!(merge(&a, &b), Some(f32s(&[Dim::Known(2), n()])));
        assert_eq!(merge(&f32s(&[Dim::Known(2)]), &f32s(&[Dim::Known(3)])), None);
        assert_eq!(merge(&f32s(&[]), &f32s(&[n()])), None);
        let ints = ValueType::Tensor { dtype: DataType::I64, shape: None };
        assert_eq!(merge(&a, &ints), None);
        assert_eq!(merge(&ValueType::Unknown, &ints), Some(ints));
    }
}
