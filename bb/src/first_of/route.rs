//! Single operations: each runs on one of the backends.

use super::tensor::PlacedTensor;
use super::{FirstOf, FirstOfError};
use crate::{BackendHandle, Error, Outputs, Tensor};
use bb_core::runtime::Question;
use bb_ir::op::{OpSpec, Param};

impl FirstOf {
    /// Calls an operation of any family on a backend that supports it. Prefers backends that have it natively, then backends that hold
    /// more bytes of its operands.
    pub(super) fn call(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&PlacedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<PlacedTensor>, FirstOfError> {
        let on = self.chosen(op, inputs, params).ok_or(Error::Abandoned)?;
        let here = |x: &Option<&PlacedTensor>| x.map(|x| x.on(on, self.counters())).transpose();
        let values = inputs.iter().map(here).collect::<Result<Outputs<_>, Error>>()?;
        let operands: Outputs<Option<&crate::Value>> = values.iter().map(Option::as_ref).collect();
        let results = on.call(op, &operands, params).map_err(|error| FirstOfError::of(on, error))?;
        Ok(results.into_iter().map(PlacedTensor::of_value).collect())
    }

    fn chosen(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&PlacedTensor>],
        params: &[Param<'_>],
    ) -> Option<&BackendHandle> {
        let question = Question::call(op, inputs.iter().map(|x| x.map(Tensor::dtype)), params);
        let supports = |on: &&BackendHandle| question.refused(&**on.runtime(), Question::sample).is_none();
        let bytes = |on: &BackendHandle| -> usize {
            inputs.iter().flatten().filter(|x| x.lies_on(on)).map(|x| x.byte_len()).sum()
        };
        let of_each = self.backends().iter().zip(self.capabilities());
        let mut ordered: Outputs<_> = of_each
            .filter(|(on, _)| !on.runtime().is_lost())
            .map(|(on, has)| (has.is_native(op.family, op.index), bytes(on), on))
            .collect();
        // If backends hold equally many bytes, the earlier one stays first.
        ordered.sort_by_key(|&(native, bytes, _)| std::cmp::Reverse((native, bytes)));
        ordered.iter().map(|(.., on)| *on).find(supports).or_else(|| self.backends().last())
    }
}
