//! The first traces of a vendor's pattern, for loose matching.
//!
//! A kernel gets the values of the parameters that its pattern was traced with. A float parameter gets its number from the
//! model. Each value of a `Bool` parameter is traced separately. If the pattern records the same steps for several values, the
//! body determines the value: the pattern must record the steps of the body. Otherwise a kernel would compute something other
//! than the steps that it replaces.

use super::PassOptions;
use super::fuse_vendor::{Candidate, OperandType};
use super::matching::{Compare, Matching};
use super::pattern::Pattern;
use super::view::View;
use crate::ext::vendor::MadeOf;
use crate::plan::segment::Settings;
use crate::trace::{InputIndex, TableIndex, ValueSource};
use crate::{DataType, Error};
use bb_ir::op::{Arity, Param, ParamKind};

/// The extent of all dimensions.
const EXTENT: usize = 2;

/// The maximum number of `Bool` parameters whose values are all traced. Further ones have their defaults.
const MOST_FLAGS: usize = 4;

/// A trace of a pattern, and the parameters that it was traced with.
pub(super) struct Form {
    pub(super) pattern: Pattern,
    /// For each parameter, its marker number if it is a float; otherwise `None`.
    pub(super) markers: Vec<Option<f64>>,
    /// The parameters. A float has its default instead of its marker, and `None` if it has no default.
    pub(super) params: Vec<Option<Param<'static>>>,
}

impl Candidate {
    /// Traces the pattern for loose matching. The list is empty if the pattern does not accept operands of this type.
    ///
    /// # Errors
    ///
    /// [`Error::VendorPattern`] if the pattern ignores a `Bool` parameter that the body uses, and equals the body for no value.
    pub(super) fn forms(
        &self,
        dtype: DataType,
        rank: usize,
        settings: &Settings,
        options: PassOptions<'_>,
    ) -> Result<Vec<Form>, Error> {
        let spec = self.operation.spec();
        let shape = vec![EXTENT; rank];
        let operand = |arity: Arity| {
            (arity == Arity::Tensor).then_some(OperandType { dtype, shape: &shape, varies: false })
        };
        let operands: Vec<_> = spec.inputs.iter().map(|(_, arity)| operand(*arity)).collect();
        let mut groups: Vec<Vec<(Form, Option<Pattern>)>> = Vec::new();
        for params in self.choices() {
            let marker = |(at, param): (usize, &Option<Param<'static>>)| {
                // These numbers do not occur in models by chance, and are distinct in each float type.
                let is_float = spec.params.get(at).is_some_and(|param| param.kind == ParamKind::Float);
                (is_float, param.clone(), f64::from(1.2109375f32 + 0.0546875 * at as f32))
            };
            let marked: Vec<_> = params.iter().enumerate().map(marker).collect();
            let markers = marked.iter().map(|(float, _, number)| float.then_some(*number)).collect();
            let traced: Option<Vec<Param<'static>>> = marked
                .iter()
                .map(
                    |(float, param, number)| if *float { Some(Param::Float(*number)) } else { param.clone() },
                )
                .collect();
            let Some(traced) = traced else { continue };
            let pattern = self.traced(self.pattern.traced, &operands, &traced, settings, options);
            // A body without steps would match everywhere.
            let Some(pattern) = pattern.filter(Pattern::has_steps) else { continue };
            let body = match self.operation.made_of() {
                MadeOf::Body(body) => self.traced(body, &operands, &traced, settings, options),
                MadeOf::Kernel(_) => None,
            };
            let member = (Form { pattern, markers, params }, body);
            let mut known = None;
            for (at, group) in groups.iter().enumerate() {
                if let Some((first, _)) = group.first()
                    && self.equal(&first.pattern, &member.0.pattern, options)?
                {
                    known = Some(at);
                }
            }
            match known.and_then(|at| groups.get_mut(at)) {
                Some(group) => group.push(member),
                None => groups.push(vec![member]),
            }
        }
        let mut forms = Vec::with_capacity(groups.len());
        for group in groups {
            forms.extend(self.chosen(group, options)?);
        }
        Ok(forms)
    }

    /// Returns the parameters to trace with: the defaults, then the other values of the `Bool` parameters.
    fn choices(&self) -> Vec<Vec<Option<Param<'static>>>> {
        let params = self.operation.spec().params;
        let defaults: Vec<_> = params.iter().map(|param| param.default.map(|default| default())).collect();
        let flags = params.iter().enumerate().filter(|(_, param)| param.kind == ParamKind::Bool);
        let flags: Vec<usize> = flags.map(|(at, _)| at).take(MOST_FLAGS).collect();
        let choice = |inverted: usize| {
            let mut choice = defaults.clone();
            for (bit, at) in flags.iter().enumerate() {
                if let Some(param) = choice.get_mut(*at) {
                    let default = matches!(param, Some(Param::Bool(true)));
                    *param = Some(Param::Bool(default != (inverted >> bit & 1 == 1)));
                }
            }
            choice
        };
        (0..1usize << flags.len()).map(choice).collect()
    }

    /// Returns the form whose parameters the kernel gets, of forms that record the same steps. Their bodies follow them.
    fn chosen(
        &self,
        group: Vec<(Form, Option<Pattern>)>,
        options: PassOptions<'_>,
    ) -> Result<Option<Form>, Error> {
        let mut alike = true;
        let mut first: Option<&Pattern> = None;
        let mut chosen = None;
        for (at, (form, body)) in group.iter().enumerate() {
            let Some(body) = body else { continue };
            alike = alike && first.map_or(Ok(true), |first| self.equal(first, body, options))?;
            first = first.or(Some(body));
            if chosen.is_none() && self.equal(&form.pattern, body, options)? {
                chosen = Some(at);
            }
        }
        if chosen.is_none() && !alike {
            let spec = self.operation.spec();
            return Err(Error::VendorPattern {
                domain: spec.family.name(),
                name: spec.name,
                pattern: self.pattern.name,
            });
        }
        Ok(group.into_iter().nth(chosen.unwrap_or_default()).map(|(form, _)| form))
    }

    /// Returns whether two traces of the same operands compute the result by the same steps.
    fn equal(&self, a: &Pattern, b: &Pattern, options: PassOptions<'_>) -> Result<bool, Error> {
        let view = View { trace: &b.recorded, uses: &b.uses, options };
        Matching::new(view, a, Compare::Exact, b.result).find(&mut |found| {
            for index in 0..self.operation.spec().inputs.len() {
                if let Some(value) = found.operand(index)
                    && b.recorded.values.get(value)?.source != ValueSource::Input(InputIndex::at(index))
                {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}
