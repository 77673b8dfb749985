//! `Ml`: classical machine learning, that is forests of decision trees and distances.

use super::{forest, types};
pub use crate::family::ml::*;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};

bb_ir::for_each_ml!(crate::ext::bodies::bodies, Ml, MlOp, ml);

pub use forest::tree_ensemble;

/// The body of [`Ml::squared_distances`]. It squares differences, because the expanded square would cause
/// cancellation.
pub fn squared_distances(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("squared_distances", a, types::FLOATS)?;
    types::take("squared_distances", b, types::FLOATS)?;
    types::ranked("squared_distances", ("a", a), 2)?;
    types::ranked("squared_distances", ("b", b), 2)?;
    let apart = on.sub(&on.unsqueeze(a, &[1])?, &on.unsqueeze(b, &[0])?)?;
    on.reduce_sum(&on.mul(&apart, &apart)?, &[-1], false)
}
