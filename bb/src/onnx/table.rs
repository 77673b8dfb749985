//! Which function serves an operator of an opset: one row per operator, with every version of its history.

use super::{Function, arithmetic as a, movement as m, reduce as r};
use crate::ext::Ops;

/// What an operator's function is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Primitives and extension methods.
    Primitives,
    /// The host: what it does depends on data, or on what is no number.
    Host,
    /// The host, unless a backend overrides the extension method it calls.
    HostByDefault,
}

/// One version of an operator that a function serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator {
    /// The domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The operator, as in `ReduceSum`.
    pub name: &'static str,
    /// The opset that brought this version; it holds until the next version's.
    pub since: i64,
    /// What the function is made of.
    pub class: Class,
}

/// Expands `domain { Class Name: versions => function, versions => function; … }` to the list of operators and the
/// functions beside it. Domains, names and versions ascend, so that [`lookup`] can bisect; a test holds it.
macro_rules! operators {
    ($( $domain:literal { $( $class:ident $name:ident : $( $($since:literal),+ => $function:expr ),+ ; )* } )*) => {
        static OPERATORS: &[Operator] = &[$( $( $( $(
            Operator { domain: $domain, name: stringify!($name), since: $since, class: Class::$class },
        )+ )+ )* )*];

        /// Returns the function of the operator at `index` of [`OPERATORS`].
        fn function<B: Ops + ?Sized>(index: usize) -> Option<Function<B>> {
            let functions: &[(Function<B>, usize)] = &[$( $( $( ($function, [$($since),+].len()), )+ )* )*];
            let mut end = 0;
            // Versions that share a function are one entry here.
            functions.iter().find(|(_, versions)| { end += versions; index < end }).map(|(f, _)| *f)
        }
    };
}

/// Returns the operator and its function for a model that imports `opset` of `domain`.
///
/// `ai.onnx` is another name of the empty domain.
pub fn lookup<B: Ops + ?Sized>(domain: &str, op_type: &str, opset: i64) -> Option<(&'static Operator, Function<B>)> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    let end = OPERATORS.partition_point(|o| (o.domain, o.name, o.since) <= (domain, op_type, opset));
    let index = end.checked_sub(1)?;
    let operator = OPERATORS.get(index).filter(|o| o.domain == domain && o.name == op_type)?;
    Some((operator, function::<B>(index)?))
}

/// Lists the versions of operators that have functions, by domain, name and version.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    OPERATORS.iter()
}

operators! {
    "" {
        Primitives Abs: 1, 6, 13 => a::abs;
        Primitives Add: 1, 6 => a::legacy_add, 7, 13, 14 => a::add;
        Primitives Cast: 1 => a::cast_named, 6, 9, 13, 19, 21, 23, 24, 25 => a::cast;
        Primitives CastLike: 15, 19, 21, 23, 24, 25 => a::cast_like;
        Primitives Concat: 1, 4, 11, 13 => m::concat;
        Primitives Constant: 1, 9, 11, 12, 13, 19, 21, 23, 24, 25 => a::constant;
        Primitives Div: 1, 6 => a::legacy_div, 7, 13, 14 => a::div;
        Primitives Equal: 1 => a::legacy_equal, 7, 11, 13, 19 => a::equal;
        Primitives Exp: 1, 6, 13 => a::exp;
        Primitives Gather: 1, 11, 13 => m::gather;
        Primitives Greater: 1 => a::legacy_greater, 7, 9, 13 => a::greater;
        Primitives Identity: 1, 13, 14, 16, 19, 21, 23, 24, 25 => a::identity;
        Primitives Less: 1 => a::legacy_less, 7, 9, 13 => a::less;
        Primitives Log: 1, 6, 13 => a::log;
        Primitives MatMul: 1, 9, 13 => a::matmul;
        Primitives Mul: 1, 6 => a::legacy_mul, 7, 13, 14 => a::mul;
        Primitives Neg: 1, 6, 13 => a::neg;
        Primitives Pow: 1 => a::legacy_pow, 7, 12, 13, 15 => a::pow;
        Primitives ReduceMax: 1, 11, 12, 13, 18, 20 => r::max;
        Primitives ReduceMean: 1, 11, 13, 18 => r::mean;
        Primitives ReduceMin: 1, 11, 12, 13, 18, 20 => r::min;
        Primitives ReduceSum: 1, 11, 13 => r::sum;
        Primitives Reshape: 1, 5, 13, 14, 19, 21, 23, 24, 25 => m::reshape;
        Primitives Slice: 1, 10, 11, 13 => m::slice;
        Primitives Split: 1, 2, 11, 13, 18 => m::split;
        Primitives Sqrt: 1, 6, 13 => a::sqrt;
        Primitives Squeeze: 1, 11, 13, 21, 23, 24, 25 => m::squeeze;
        Primitives Sub: 1, 6 => a::legacy_sub, 7, 13, 14 => a::sub;
        Primitives Transpose: 1, 13, 21, 23, 24, 25 => m::transpose;
        Primitives Unsqueeze: 1, 11, 13, 21, 23, 24, 25 => m::unsqueeze;
        Primitives Where: 9, 16 => a::select;
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::trace::Tracer;

    #[test]
    fn rows_ascend() {
        let keys: Vec<_> = operators().map(|o| (o.domain, o.name, o.since)).collect();
        assert!(keys.windows(2).all(|w| w.first() < w.last()), "{keys:?}");
    }

    #[test]
    fn the_greatest_version_that_is_not_newer_serves_an_opset() {
        let since = |opset| lookup::<Tracer>("", "Add", opset).map(|(o, _)| o.since);
        assert_eq!(since(0), None);
        assert_eq!(since(6), Some(6));
        assert_eq!(since(12), Some(7));
        assert_eq!(since(99), Some(14));
        assert_eq!(lookup::<Tracer>("ai.onnx", "Add", 14).unwrap().0.name, "Add");
        assert!(lookup::<Tracer>("", "Ad", 14).is_none());
        assert!(lookup::<Tracer>("other", "Add", 14).is_none());
    }
}
