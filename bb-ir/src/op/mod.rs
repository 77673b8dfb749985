//! The tables of operations and the types that describe them.

mod decl;
mod families;
mod param;
mod spec;
mod table;
mod word;

pub use decl::{AtomicOpDecl, AtomicOpsetDecl, fingerprint, primitives_fingerprint};
pub use param::{Param, ParamKind, RoundMode, take};
pub use spec::{Arity, Class, Family, OpSpec, ParamSpec, method_name, same};
pub use word::{AdamEpsilon, Border, Interpolation, Reduction, SamplePadding, ScatterReduction};

crate::for_each_primitive!(crate::op_family,
    /// A primitive: an operation that every backend implements.
    Primitive, crate::op::Family::Primitive);

#[cfg(test)]
mod tests {
    use super::Primitive;

    /// The README promises that a backend has to implement only 30 primitives.
    #[test]
    fn the_floor_has_thirty_primitives() {
        assert_eq!(Primitive::ALL.len(), 30);
        for (i, &p) in Primitive::ALL.iter().enumerate() {
            assert_eq!(usize::from(p.spec().index), i);
            assert_eq!(Primitive::from_index(p.spec().index), Some(p));
            assert_eq!(Primitive::from_name(p.spec().name), Some(p));
            assert_eq!(Primitive::from_method(p.spec().method), Some(p));
        }
        assert_eq!(Primitive::Where.spec().method, "where");
    }
}
